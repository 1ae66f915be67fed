"""Parts of definitions in errors."""

from __future__ import annotations

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinitionVersion
from cathedra.api.struct import from_dict
from cathedra.apiserver.custom.goforms import props_form, rule_form, versions_form


def test_a_rule_is_shown_with_all_fields() -> None:
    assert rule_form({"rule": "true", "reason": "FieldValueInvalid"}) == {
        "Rule": "true",
        "Message": "",
        "MessageExpression": "",
        "Reason": "FieldValueInvalid",
        "FieldPath": "",
        "OptionalOldSelf": None,
    }


def test_a_schema_is_shown_with_the_schemas_inside() -> None:
    shown = props_form({"type": "array", "items": {"type": "string"}, "additionalProperties": False})
    assert (shown["Type"], shown["Items"]["Schema"]["Type"], shown["Items"]["JSONSchemas"]) == ("array", "string", None)
    assert shown["AdditionalProperties"] == {"Allows": False, "Schema": None}
    assert list(shown)[:5] == ["ID", "Schema", "Ref", "Description", "Type"]


def test_what_all_versions_share_is_not_shown_in_them() -> None:
    def version(name: str, kind: str) -> CustomResourceDefinitionVersion:
        body = {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": kind}}}
        return from_dict(CustomResourceDefinitionVersion, body)

    shared = versions_form([version("v1", "object"), version("v2", "object")])
    assert shared is not None
    assert [one["Schema"] for one in shared] == [None, None]
    different = versions_form([version("v1", "object"), version("v2", "array")])
    assert different is not None
    assert different[1]["Schema"]["OpenAPIV3Schema"]["Type"] == "array"
    assert versions_form([]) is None
