"""Instances as they are written."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.apiserver.custom.kinds import embedded_errors, has_embedded
from cathedra.apiserver.custom.objects import content
from cathedra.apiserver.custom.schema import read_schema
from cathedra.releases import FeatureGates
from tests.unit.apiserver.custom.things import context, kind, thing, version

KIND = kind()
STATUS = KIND.subresources["status"]


def test_what_is_unknown_goes_and_defaults_come() -> None:
    assert content(KIND.strategy.default(thing(KIND, spec={"odd": 1}), context())) == {"spec": {"size": 1}}


@pytest.mark.parametrize(("with_status", "kept"), [(True, None), (False, {"ready": True})])
def test_a_status_is_created_only_where_it_is_no_sub_resource(with_status: bool, kept: object) -> None:
    definition = kind(version(status=with_status))
    made = definition.strategy.prepare_create(thing(definition, spec={}, status={"ready": True}), context())
    assert content(made).get("status") == kept
    assert made.metadata.generation == 1


def test_a_change_keeps_the_status_and_counts() -> None:
    old = thing(KIND, 3, spec={"size": 1}, status={"ready": True})
    made = KIND.strategy.prepare_update(thing(KIND, 9, spec={"size": 2}, status={}), old, context())
    assert content(made) == {"spec": {"size": 2}, "status": {"ready": True}}
    assert made.metadata.generation == 4
    same = KIND.strategy.prepare_update(thing(KIND, 9, spec={"size": 1}), old, context())
    assert (content(same), same.metadata.generation) == (content(old), 3)


def test_without_the_sub_resource_a_status_counts_as_everything_else_does() -> None:
    definition = kind(version(status=False))
    old = thing(definition, 3, status={"ready": True})
    made = definition.strategy.prepare_update(thing(definition, status={"ready": False}), old, context())
    assert (content(made), made.metadata.generation) == ({"status": {"ready": False}}, 4)


def test_the_sub_resource_takes_the_status_alone() -> None:
    old = thing(KIND, 3, spec={"size": 1}, status={"ready": False})
    made = STATUS.prepare_update(thing(KIND, 9, spec={"size": 2}, status={"ready": True}), old, context())
    assert (content(made), made.metadata.generation) == ({"spec": {"size": 1}, "status": {"ready": True}}, 3)
    gone = STATUS.prepare_update(thing(KIND), old, context())
    assert content(gone) == {"spec": {"size": 1}}
    assert STATUS.reset_fields == ("spec",)


def test_values_are_judged_by_the_schema_of_the_version_that_they_were_sent_in() -> None:
    wide = version("v2")
    wide["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = kind(version(), wide)
    large = thing(definition, spec={"size": 10})
    (error,) = definition.strategy.validate_create(large, context())
    assert error.field == "spec.size"
    assert definition.strategy.validate_create(large, context("v2")) == []


RULE = {"rule": "self.size >= oldSelf.size", "message": "may only grow"}
GROWING = kind(version(rules=(RULE,)))


def test_rules_about_changes_see_what_was_there() -> None:
    small, large = thing(GROWING, spec={"size": 1}), thing(GROWING, spec={"size": 2})
    assert GROWING.strategy.validate_create(small, context()) == []
    assert GROWING.strategy.validate_update(large, small, context()) == []
    (error,) = GROWING.strategy.validate_update(small, large, context())
    assert str(error) == "spec: Invalid value: may only grow"


def test_rules_are_not_asked_about_what_does_not_fit_the_schema() -> None:
    wrong = thing(GROWING, spec={"size": "large"})
    found = [str(error) for error in GROWING.strategy.validate_update(wrong, thing(GROWING), context())]
    assert len(found) == 2
    assert found[0].startswith("spec.size: Invalid value: ")
    assert found[1].startswith("<nil>: Invalid value: null: some validation rules were not checked")


def test_an_instance_is_written_in_the_version_that_was_read_and_its_deletion_answers_a_status() -> None:
    assert not KIND.strategy.allow_unconditional_update
    assert not KIND.strategy.returns_deleted_object


def _ratcheted(*rules: dict[str, Any]) -> Any:
    """A kind with a list without keys, a keyed one and scalars, each with an assertion that old objects may break."""
    name = {"type": "string", "maxLength": 2}
    item = {"type": "object", "properties": {"k": {"type": "string"}, "v": name}, "required": ["k"]}
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    spec = {
        "type": "object",
        "properties": {
            "a": name,
            "b": {"type": "integer", "maximum": 9},
            "plain": {"type": "array", "items": name},
            "keyed": {"type": "array", "items": item, **keyed},
        },
        "x-kubernetes-validations": list(rules),
    }
    own = version()
    own["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return kind(own)


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ({"a": "long"}, {"a": "long", "b": 1}, []),
        ({"a": "long"}, {"a": "longer"}, ["spec.a"]),
        ({}, {"a": "long"}, ["spec.a"]),
        ({"b": 10}, {"b": 11}, ["spec.b"]),
        ({"plain": ["long"]}, {"plain": ["long"], "b": 1}, []),
        ({"plain": ["long"]}, {"plain": ["long", "b"]}, ["spec.plain[0]"]),
        ({"keyed": [{"k": "x", "v": "long"}]}, {"keyed": [{"k": "y"}, {"k": "x", "v": "long"}]}, []),
        ({"keyed": [{"k": "x", "v": "long"}]}, {"keyed": [{"k": "x", "v": "other"}]}, ["spec.keyed[0].v"]),
        ({"keyed": [{"k": "x"}, {"k": "x"}]}, {"keyed": [{"k": "x"}, {"k": "x"}], "b": 1}, []),
        ({"keyed": [{"k": "x"}]}, {"keyed": [{"k": "x"}, {"k": "x"}]}, ["spec.keyed[1]"]),
    ],
)
def test_an_update_may_keep_what_was_wrong_before(old: dict[str, Any], new: dict[str, Any], wrong: list[str]) -> None:
    """Kubernetes' ratcheting: a tightened schema does not lock existing objects (CRDValidationRatcheting)."""
    definition = _ratcheted()
    before, after = thing(definition, spec=old), thing(definition, spec=new)
    assert [error.field for error in definition.strategy.validate_update(after, before, context())] == wrong


def test_a_rule_that_the_unchanged_value_broke_is_no_error() -> None:
    definition = _ratcheted({"rule": "!has(self.b) || self.b < 5", "message": "m"})
    old = thing(definition, spec={"b": 7})
    again = thing(definition, spec={"b": 7}, other=1)
    assert definition.strategy.validate_update(again, old, context()) == []
    changed = thing(definition, spec={"b": 7, "a": "x"})
    assert [str(error) for error in definition.strategy.validate_update(changed, old, context())] == [
        "spec: Invalid value: m"
    ]


def test_a_bracket_in_the_path_of_a_scale_is_part_of_a_field_name() -> None:
    own = version()
    own["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    own["subresources"]["scale"] = {"specReplicasPath": ".spec.n[[", "statusReplicasPath": ".status.n"}
    definition = kind(own)
    for spec, wrong in (
        ({"n": -1}, []),
        ({"n[[": -1}, [".spec.n[[: Invalid value: -1: should be a non-negative integer"]),
    ):
        obj = thing(definition, spec=spec)
        assert [str(error) for error in definition.strategy.validate_create(obj, context())] == wrong


def test_the_numbers_of_a_scale_fit_into_it() -> None:
    own = version()
    own["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    own["subresources"]["scale"] = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    definition = kind(own)

    def wrong(number: object) -> list[str]:
        obj = thing(definition, spec={"n": number})
        return [str(error) for error in definition.strategy.validate_create(obj, context())]

    assert wrong(3) == []
    assert wrong(-1) == [".spec.n: Invalid value: -1: should be a non-negative integer"]
    assert wrong(2**31) == [".spec.n: Invalid value: 2147483648: should be less than or equal to 2147483647"]
    assert wrong("x")[0].endswith("accessor error: x is of the type string, expected int64")


# Objects inside of custom objects are validated as objects are.

EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
OBJECT = {"apiVersion": "v1", "kind": "Pod"}


def found(value: Any, *, schema: dict[str, Any] = EMBEDDED) -> list[str]:
    outer = read_schema({"type": "object", "properties": {"a": schema}})
    return [str(error) for error in embedded_errors(outer, {"a": value}, "", FeatureGates.for_release("1.37"))]


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        (OBJECT, []),
        (OBJECT | {"metadata": {"labels": {"x": "y"}}}, []),
        ({}, ["a.apiVersion: Required value", "a.kind: Required value"]),
        (OBJECT | {"kind": 5}, ["a.kind: Invalid value: 5: must be a string"]),
        (OBJECT | {"apiVersion": ""}, ['a.apiVersion: Invalid value: "": must not be empty']),
        (
            OBJECT | {"apiVersion": "a/b/c"},
            ['a.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
        ),
        (
            OBJECT | {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "n"}]}},
            ["a.metadata.ownerReferences[0].uid: Required value: must not be empty"],
        ),
    ],
)
def test_type_and_metadata_of_an_embedded_object_are_validated(value: Any, errors: list[str]) -> None:
    assert found(value) == errors


def test_a_kind_is_a_label_in_any_case() -> None:
    assert found(OBJECT | {"kind": "MyKind"}) == []
    (text,) = found(OBJECT | {"kind": "X_Y"})
    assert text.startswith('a.kind: Invalid value: "X_Y": may have mixed case, but should otherwise match: a DNS-1035')


def test_metadata_of_the_wrong_type_is_named() -> None:
    (text,) = found(OBJECT | {"metadata": {"labels": 5}})
    assert text.startswith("a.metadata: Invalid value")


def test_objects_are_found_in_lists_and_maps() -> None:
    assert found([OBJECT, {"kind": "A"}], schema={"type": "array", "items": EMBEDDED}) == [
        "a[1].apiVersion: Required value"
    ]
    assert found({"k": {"kind": "A"}}, schema={"type": "object", "additionalProperties": EMBEDDED}) == [
        "a[k].apiVersion: Required value"
    ]


def test_schemas_without_embedded_objects_are_known() -> None:
    assert has_embedded(read_schema({"type": "object", "properties": {"a": {"type": "array", "items": EMBEDDED}}}))
    assert not has_embedded(read_schema({"type": "object", "properties": {"a": {"type": "string"}}}))
