"""The schema of a definition: keywords, defaults and rules."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.apiserver.custom.definitionschemas import schema_errors

OBJECT: dict[str, Any] = {"type": "object"}
STRING: dict[str, Any] = {"type": "string"}
ITEM = OBJECT | {"properties": {"k": STRING, "o": OBJECT}, "required": ["k"]}


def never() -> bool:
    return False


def errors(root: dict[str, Any], *, with_status: bool = False) -> list[str]:
    return [str(error) for error in schema_errors(root, "openAPIV3Schema", never, with_status=with_status)]


def wrong(field: dict[str, Any]) -> list[str]:
    """The errors of a field ``a``, without their common path."""
    found = errors(OBJECT | {"properties": {"a": field}})
    return [error.removeprefix("openAPIV3Schema.properties[a].") for error in found]


def keyed(item: dict[str, Any] = ITEM, *keys: str) -> dict[str, Any]:
    extensions = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys or ("k",))}
    return {"type": "array", "items": item, **extensions}


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ({"type": "foo"}, 'type: Unsupported value: "foo": supported values: "array", "boolean"'),
        (STRING | {"id": "x"}, "id: Forbidden: id is not supported"),
        (STRING | {"uniqueItems": True}, "uniqueItems: Forbidden: uniqueItems cannot be set to true"),
        (
            OBJECT | {"properties": {"b": STRING}, "additionalProperties": STRING},
            "additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (STRING | {"x-kubernetes-preserve-unknown-fields": False}, "x-kubernetes-preserve-unknown-fields: Invalid"),
        (OBJECT | {"x-kubernetes-map-type": "foo"}, 'x-kubernetes-map-type: Unsupported value: "foo"'),
        (STRING | {"x-kubernetes-map-type": "atomic"}, 'type: Invalid value: "string": must be object if'),
        (STRING | {"x-kubernetes-list-type": "set"}, 'type: Invalid value: "string": must be array if'),
        (
            {"type": "array", "items": OBJECT, "x-kubernetes-list-type": "set"},
            "items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list",
        ),
        (
            {"type": "array", "items": STRING | {"nullable": True}, "x-kubernetes-list-type": "set"},
            "items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
        ),
        (keyed(ITEM, "z"), 'x-kubernetes-list-map-keys: Invalid value: ["z"]: entries must all be names of item'),
        (keyed(ITEM, "k", "k"), 'x-kubernetes-list-map-keys: Invalid value: ["k","k"]: must not contain duplicate'),
        (
            keyed(OBJECT | {"properties": {"k": STRING}}),
            "items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys",
        ),
        (keyed(STRING), 'items.type: Invalid value: "string": must be object if parent array\'s'),
        (
            {"type": "array", "items": ITEM, "x-kubernetes-list-map-keys": ["k"]},
            "x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
        ),
    ],
)
def test_a_keyword_that_does_not_fit_is_refused(field: dict[str, Any], error: str) -> None:
    (found,) = wrong(field)
    assert found.startswith(error)


def test_a_key_of_a_list_is_a_scalar() -> None:
    assert wrong(keyed(ITEM | {"required": ["o"]}, "o")) == [
        'items.properties[o].type: Invalid value: "object": must be a scalar type if parent array\'s '
        "x-kubernetes-list-type is map"
    ]


@pytest.mark.parametrize(
    ("field", "error"),
    [
        (STRING | {"default": 1}, 'default: Invalid value: "integer":  in body must be of type string: "integer"'),
        (STRING | {"default": "c", "enum": ["a", "b"]}, 'default: Unsupported value: "c": supported values: "a", "b"'),
        (
            OBJECT | {"properties": {"b": STRING}, "default": {"zz": 1}},
            'default: Invalid value: {"zz":1}: must not have unknown fields',
        ),
        (
            OBJECT | {"properties": {"b": STRING | {"maxLength": 1}}, "default": {"b": "long"}},
            "default.b: Too long: may not be more than 1 bytes",
        ),
        (
            {"type": "integer", "default": 5, "x-kubernetes-validations": [{"rule": "self < 3", "message": "m"}]},
            "default: Invalid value: 5: m",
        ),
    ],
)
def test_a_default_is_a_valid_value(field: dict[str, Any], error: str) -> None:
    assert wrong(field) == [error]


def test_metadata_of_the_root_has_no_defaults() -> None:
    root = OBJECT | {"properties": {"metadata": OBJECT | {"properties": {"name": STRING | {"default": "x"}}}}}
    (found,) = errors(root)
    assert found.endswith(".properties[name].default: Forbidden: must not be set in top-level metadata")


def ruled(**rule: Any) -> dict[str, Any]:
    fields = {"b": STRING, "m": OBJECT | {"additionalProperties": STRING}}
    return OBJECT | {"properties": fields, "x-kubernetes-validations": [{"rule": "true", **rule}]}


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"rule": " "}, "rule: Required value: rule is not specified"),
        ({"message": " "}, 'message: Invalid value: " ": must be non-empty if specified'),
        ({"message": "a\nb"}, 'message: Invalid value: "a\\nb": must not contain line breaks'),
        ({"rule": "true\n"}, ""),
        ({"rule": "true &&\ntrue"}, "message: Required value: message must be specified if rule contains line breaks"),
        ({"messageExpression": " "}, "messageExpression: Required value: messageExpression must be non-empty"),
        ({"reason": "Foo"}, 'reason: Unsupported value: "Foo": supported values: "FieldValueDuplicate"'),
        ({"fieldPath": ".zz"}, 'fieldPath: Invalid value: ".zz": must be a valid path'),
        ({"fieldPath": ".b"}, ""),
        ({"fieldPath": ".m['x.y']"}, ""),
        ({"optionalOldSelf": True}, "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used"),
        ({"rule": "self.nope"}, 'rule: Invalid value: {"Rule":"self.nope","Message":"","MessageExpression":"",'),
        (
            {"rule": "self.b"},
            'rule: Invalid value: {"Rule":"self.b","Message":"","MessageExpression":"","Reason":null,',
        ),
    ],
)
def test_a_rule_is_checked_with_its_definition(rule: dict[str, Any], error: str) -> None:
    found = [one.removeprefix("x-kubernetes-validations[0].") for one in wrong(ruled(**rule))]
    assert len(found) == bool(error)
    assert all(one.startswith(error) for one in found)


def test_a_rule_about_changes_needs_values_that_can_be_matched() -> None:
    rule = {"x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    (found,) = wrong({"type": "array", "maxItems": 9, "items": STRING | {"maxLength": 9} | rule})
    assert found == (
        'items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the '
        "uncorrelatable portion of the schema within openAPIV3Schema.properties[a]"
    )
    assert wrong(keyed(ITEM | rule) | {"maxItems": 9}) == []


def test_rules_of_the_root_see_its_metadata() -> None:
    assert errors(OBJECT | {"x-kubernetes-validations": [{"rule": "self.metadata.name.size() < 5"}]}) == []


def test_a_broken_keyword_hides_only_the_rules_around_it() -> None:
    bad = {"x-kubernetes-validations": [{"rule": "self.nope"}]}
    fields = {"a": OBJECT | {"properties": {"b": STRING | {"uniqueItems": True}}} | bad, "c": OBJECT | bad}
    assert [one.partition(":")[0] for one in errors(OBJECT | {"properties": fields})] == [
        "openAPIV3Schema.properties[a].properties[b].uniqueItems",
        "openAPIV3Schema.properties[c].x-kubernetes-validations[0].rule",
    ]


def test_the_root_beside_a_status_says_nothing_that_its_parts_could_not() -> None:
    (found,) = errors(OBJECT | {"anyOf": [{"required": ["a"]}], "properties": {"a": STRING}}, with_status=True)
    assert "only [Description Type Format" in found
    assert found.endswith("fields are allowed at the root of the schema if the status subresource is enabled")
