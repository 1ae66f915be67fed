"""Errors for which a definition is not accepted."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.struct import from_dict, replace
from cathedra.apiserver.custom.definitions import DefinitionStatusStrategy, DefinitionStrategy
from cathedra.kinds.definition import RequestContext
from cathedra.releases import FeatureGates

CONTEXT = RequestContext(gates=FeatureGates.for_release(), now=0.0)
STRATEGY = DefinitionStrategy()
OBJECT = {"type": "object"}


def definition(root: dict[str, Any] | None = None, *, version: str = "v1", **spec: Any) -> CustomResourceDefinition:
    body = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": root or OBJECT}}
            ],
            **spec,
        },
    }
    return STRATEGY.default(from_dict(CustomResourceDefinition, body), CONTEXT)


def fields(one: CustomResourceDefinition) -> list[str]:
    return [error.field for error in STRATEGY.validate_create(one, CONTEXT)]


def test_names_follow_from_the_kind() -> None:
    names = definition().spec.names
    assert (names.singular, names.list_kind) == ("thing", "ThingList")
    assert fields(definition()) == []


SCHEMA = "spec.validation.openAPIV3Schema"


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"scope": ""}, "spec.scope"),
        ({"scope": "Everywhere"}, "spec.scope"),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields"),
        ({"conversion": {"strategy": "Hope"}}, "spec.conversion.strategy"),
        ({"names": {"kind": "Thing", "plural": "things", "listKind": "Thing"}}, "spec.names.listKind"),
        ({"names": {"kind": "Thing", "plural": "things", "shortNames": ["A"]}}, "spec.names.shortNames[0]"),
        ({"root": {"type": "array"}}, f"{SCHEMA}.type"),
        ({"root": OBJECT | {"nullable": True}}, f"{SCHEMA}.nullable"),
        ({"root": OBJECT | {"properties": {"a": {}}}}, f"{SCHEMA}.properties[a].type"),
        ({"root": OBJECT | {"properties": {"a": {"type": "array"}}}}, f"{SCHEMA}.properties[a].items"),
        (
            {"root": OBJECT | {"properties": {"a": {"type": "string", "pattern": "("}}}},
            f"{SCHEMA}.properties[a].pattern",
        ),
        (
            {"root": OBJECT | {"properties": {"a": {"type": "number", "multipleOf": 0}}}},
            f"{SCHEMA}.properties[a].multipleOf",
        ),
    ],
)
def test_a_definition_that_breaks_the_rules_is_refused(spec: dict[str, Any], wrong: str) -> None:
    assert wrong in fields(definition(**spec))


def test_a_protected_group_needs_an_approval() -> None:
    one = definition(group="things.k8s.io")
    one = replace(one, metadata=replace(one.metadata, name="things.things.k8s.io"))
    assert fields(one) == ["metadata.annotations[api-approved.kubernetes.io]"]
    approved = replace(one.metadata, annotations={"api-approved.kubernetes.io": "https://example.com"})
    assert fields(replace(one, metadata=approved)) == []


def test_every_version_that_was_stored_is_remembered_and_must_stay() -> None:
    old = STRATEGY.prepare_create(definition(), CONTEXT)
    assert old.status.stored_versions == ("v1",)
    new = STRATEGY.prepare_update(definition(version="v2"), old, CONTEXT)
    assert new.status.stored_versions == ("v1", "v2")
    assert new.metadata.generation == 2
    errors = STRATEGY.validate_update(new, old, CONTEXT)
    assert [error.field for error in errors] == ["status.storedVersions[0]"]


def test_group_and_plural_never_change() -> None:
    old = definition()
    new = definition(group="other.com", names={"kind": "Thing", "plural": "stuff"})
    wrong = {error.field for error in STRATEGY.validate_update(new, old, CONTEXT)}
    assert {"spec.group", "spec.names.plural"} <= wrong


def test_the_status_is_written_alone() -> None:
    old, new = definition(), definition(scope="Cluster")
    new = replace(new, status=replace(new.status, stored_versions=("v1",)))
    written = DefinitionStatusStrategy().prepare_update(new, old, CONTEXT)
    assert (written.spec, written.status.stored_versions) == (old.spec, ("v1",))
