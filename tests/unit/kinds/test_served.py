"""Every kind is described, once, so that server, discovery and tables can rely on it."""

from __future__ import annotations

import pytest

from cathedra.api.struct import json_names
from cathedra.kinds.definition import ResourceDefinition
from cathedra.kinds.served import all_definitions
from tests.unit.kinds.objects import NOW, definition_of, gates

RELEASES = ("1.34", "1.35", "1.36", "1.37")


@pytest.mark.parametrize("release", RELEASES)
def test_no_resource_is_described_twice(release: str) -> None:
    found = [definition.group_resource for definition in all_definitions(gates(release))]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("release", RELEASES)
def test_a_row_has_as_many_cells_as_there_are_columns(release: str) -> None:
    for definition in all_definitions(gates(release)):
        if definition.cells is None:
            continue
        row = definition.cells(definition.type(), NOW)
        assert len(row) == len(definition.columns), definition.kind


@pytest.mark.parametrize("release", RELEASES)
def test_an_empty_object_survives_every_version(release: str) -> None:
    for definition in all_definitions(gates(release)):
        if definition.group == "events.k8s.io":
            continue
        for version in definition.versions:
            hub = version.to_hub(version.from_hub(definition.type()))
            assert type(hub) is definition.type, (definition.kind, version.name)


def test_selectable_fields_answer_texts() -> None:
    for definition in all_definitions(gates()):
        empty = definition.type()
        for name, field in definition.field_selectors.items():
            assert isinstance(field(empty), str), (definition.kind, name)


@pytest.mark.parametrize(
    ("plural", "release", "served"),
    [
        ("resourceclaims", "1.34", ["v1"]),
        ("resourceclaims", "1.37", ["v1"]),
        ("devicetaintrules", "1.36", []),
        ("devicetaintrules", "1.37", ["v1"]),
        ("resourcepoolstatusrequests", "1.37", []),
    ],
)
def test_a_release_serves_its_versions(plural: str, release: str, served: list[str]) -> None:
    definition = definition_of(plural, release)
    assert [version.name for version in definition.versions if version.served_by_default] == served


def test_status_doors_exist_where_a_status_does() -> None:
    for definition in all_definitions(gates()):
        has_status = {"spec", "status"} <= set(json_names(definition.type).values())
        assert ("status" in definition.subresources) >= has_status, definition.kind


def test_pods_have_doors_of_their_own() -> None:
    pods: ResourceDefinition[object] = definition_of("pods")
    assert set(pods.subresources) == {"status", "resize", "ephemeralcontainers"}
