"""The description of a kind."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import ConfigMap, Event
from cathedra.api.scheme import GroupResource, GroupVersionKind
from cathedra.kinds.definition import ResourceDefinition, Strategy, VersionDefinition
from tests.unit.kinds.objects import context


def data_of(event: Event) -> ConfigMap:
    return ConfigMap(data={"was": event.reason})


DEFINITION = ResourceDefinition(
    group="example.com",
    kind="Thing",
    plural="things",
    singular="thing",
    namespaced=True,
    type=ConfigMap,
    versions=(
        VersionDefinition("v1", ConfigMap),
        VersionDefinition("v1alpha1", Event, data_of, served_by_default=False),
    ),
    strategy=Strategy(),
)


def test_a_version_is_found_by_its_name() -> None:
    assert DEFINITION.version("v1alpha1").type is Event
    with pytest.raises(KeyError, match="Thing has no version 'v2'"):
        DEFINITION.version("v2")


def test_a_kind_is_named_by_group_and_plural_and_in_each_version() -> None:
    assert DEFINITION.group_resource == GroupResource("example.com", "things")
    assert DEFINITION.gvk("v1alpha1") == GroupVersionKind("example.com", "v1alpha1", "Thing")


def test_a_version_is_the_hub_unless_it_says_how_to_get_there() -> None:
    made = ConfigMap(data={"a": "b"})
    hub = DEFINITION.version("v1")
    assert hub.to_hub(made) is hub.from_hub(made) is made
    assert DEFINITION.version("v1alpha1").to_hub(Event(reason="r")).data == {"was": "r"}


def test_a_kind_without_rules_keeps_what_is_written() -> None:
    strategy: Strategy[ConfigMap] = Strategy()
    old, new, request = ConfigMap(), ConfigMap(data={"a": "b"}), context()
    assert strategy.prepare_create(strategy.default(new, request), request) is new
    assert strategy.prepare_update(new, old, request) is new
    assert [*strategy.validate_create(new, request), *strategy.validate_update(new, old, request)] == []
    assert strategy.warnings(new, old, request) == ()


def test_a_stored_kind_has_all_verbs_unless_it_says_which() -> None:
    verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert set(DEFINITION.verbs) == verbs
