"""Parts of a definition as Kubernetes shows them in errors: with the names of Go's internal types, every field present.

Inside Kubernetes a schema, columns and so on that all versions share stand in the definition itself, so that its
versions show none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinitionVersion
from cathedra.api.struct import to_dict

_PROPS: Final[Mapping[str, tuple[str, Any]]] = {
    "id": ("ID", ""), "$schema": ("Schema", ""), "$ref": ("Ref", None), "description": ("Description", ""),
    "type": ("Type", ""), "nullable": ("Nullable", False), "format": ("Format", ""), "title": ("Title", ""),
    "default": ("Default", None), "maximum": ("Maximum", None), "exclusiveMaximum": ("ExclusiveMaximum", False),
    "minimum": ("Minimum", None), "exclusiveMinimum": ("ExclusiveMinimum", False), "maxLength": ("MaxLength", None),
    "minLength": ("MinLength", None), "pattern": ("Pattern", ""), "maxItems": ("MaxItems", None),
    "minItems": ("MinItems", None), "uniqueItems": ("UniqueItems", False), "multipleOf": ("MultipleOf", None),
    "enum": ("Enum", None), "maxProperties": ("MaxProperties", None), "minProperties": ("MinProperties", None),
    "required": ("Required", None), "items": ("Items", None), "allOf": ("AllOf", None), "oneOf": ("OneOf", None),
    "anyOf": ("AnyOf", None), "not": ("Not", None), "properties": ("Properties", None),
    "additionalProperties": ("AdditionalProperties", None), "patternProperties": ("PatternProperties", None),
    "dependencies": ("Dependencies", None), "additionalItems": ("AdditionalItems", None),
    "definitions": ("Definitions", None), "externalDocs": ("ExternalDocs", None), "example": ("Example", None),
    "x-kubernetes-preserve-unknown-fields": ("XPreserveUnknownFields", None),
    "x-kubernetes-embedded-resource": ("XEmbeddedResource", False),
    "x-kubernetes-int-or-string": ("XIntOrString", False), "x-kubernetes-list-map-keys": ("XListMapKeys", None),
    "x-kubernetes-list-type": ("XListType", None), "x-kubernetes-map-type": ("XMapType", None),
    "x-kubernetes-validations": ("XValidations", None),
}  # fmt: skip
"""JSON name → Go's name and zero value, in the order of Go's fields."""
_LISTS: Final = frozenset({"allOf", "oneOf", "anyOf"})
_MAPS: Final = frozenset({"properties", "patternProperties", "definitions"})
_RULE: Final[Mapping[str, Any]] = {
    "rule": "", "message": "", "messageExpression": "", "reason": None, "fieldPath": "", "optionalOldSelf": None,
}  # fmt: skip


def rule_form(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of a CEL rule."""
    return {_capital(name): rule.get(name) or empty for name, empty in _RULE.items()}


def props_form(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form of a schema."""
    return {shown: _field(name, source.get(name), empty) for name, (shown, empty) in _PROPS.items()}


def _field(name: str, value: Any, empty: Any) -> Any:
    if value is None:
        return empty
    if name in _LISTS:
        return [props_form(one) for one in value]
    if name in _MAPS:
        return {key: props_form(value[key]) for key in sorted(value)}
    if name == "not":
        return props_form(value)
    if name == "items":
        many = isinstance(value, list)
        return {
            "Schema": None if many else props_form(value),
            "JSONSchemas": [props_form(one) for one in value] if many else None,
        }
    if name in {"additionalProperties", "additionalItems"}:
        is_schema = isinstance(value, Mapping)
        return {"Allows": True if is_schema else value, "Schema": props_form(value) if is_schema else None}
    return [rule_form(one) for one in value] if name == "x-kubernetes-validations" else value


def have_same(versions: Sequence[CustomResourceDefinitionVersion], field: str) -> bool:
    """Return True if all versions have the same value, which Kubernetes then keeps in the definition itself."""
    return all(getattr(version, field) == getattr(versions[0], field) for version in versions)


def versions_form(versions: Sequence[CustomResourceDefinitionVersion]) -> list[dict[str, Any]] | None:
    """Return the form of the versions of a definition; None if it has none."""
    own = {
        field: not have_same(versions, field)
        for field in ("schema", "subresources", "additional_printer_columns", "selectable_fields")
    }
    return [_version(version, own) for version in versions] or None


def _version(version: CustomResourceDefinitionVersion, own: Mapping[str, bool]) -> dict[str, Any]:
    schema = None
    if own["schema"] and version.schema is not None:
        source = version.schema.open_apiv3_schema
        schema = {"OpenAPIV3Schema": None if source is None else props_form(source.load())}
    subresources = None
    if own["subresources"] and (given := version.subresources) is not None:
        scale = (
            None
            if given.scale is None
            else _capitals(to_dict(given.scale)) | {"LabelSelectorPath": given.scale.label_selector_path}
        )
        subresources = {"Status": None if given.status is None else {}, "Scale": scale}
    columns = None
    if own["additional_printer_columns"] and version.additional_printer_columns:
        columns = [
            {
                "Name": one.name,
                "Type": one.type,
                "Format": one.format,
                "Description": one.description,
                "Priority": one.priority,
                "JSONPath": one.json_path,
            }
            for one in version.additional_printer_columns
        ]
    fields = None
    if own["selectable_fields"] and version.selectable_fields:
        fields = [{"JSONPath": one.json_path} for one in version.selectable_fields]
    return {
        "Name": version.name,
        "Served": version.served,
        "Storage": version.storage,
        "Deprecated": version.deprecated,
        "DeprecationWarning": version.deprecation_warning,
        "Schema": schema,
        "Subresources": subresources,
        "AdditionalPrinterColumns": columns,
        "SelectableFields": fields,
    }


def _capitals(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_capital(name): value for name, value in values.items()}


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
