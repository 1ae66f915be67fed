"""Defaults and validation of definitions of custom resources
(docs/spec/apimachinery.md §17)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace as with_fields

from cathedra.api.core.apiextensions_v1 import (
    CustomResourceConversion,
    CustomResourceDefinition,
    CustomResourceDefinitionVersion,
)
from cathedra.api.field import ErrorList, FieldError
from cathedra.api.formats import dns_label, dns_subdomain
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.custom.columns import parse_path
from cathedra.apiserver.custom.conversion import check_conversion, with_port
from cathedra.apiserver.custom.formats import pattern_problem, unrecognized_formats
from cathedra.apiserver.custom.rules import compile_rules
from cathedra.apiserver.custom.schema import MAX_DEPTH, deeper_than, read_schema
from cathedra.kinds.definition import AnyDefinition, RequestContext, Strategy
from cathedra.releases import behaviours
from cathedra.semantics.conditions import is_true

__all__ = ["CRDS", "DefinitionStatusStrategy", "DefinitionStrategy", "with_custom_rules"]

CRDS: Final = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")
APPROVED: Final = "api-approved.kubernetes.io"
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_FORBIDDEN: Final = (
    "$ref",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
)
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
_MUST_BE_TYPE: Final = f"must be one of {','.join(_COLUMN_TYPES)}"
_TOO_DEEP: Final = f"schemas may not be nested more deeply than {MAX_DEPTH} levels"
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def with_custom_rules(definition: AnyDefinition) -> AnyDefinition:
    """Return the kind CustomResourceDefinition with the strategies of this module, and every other kind unchanged."""
    if definition.group_resource != CRDS:
        return definition
    return with_fields(definition, strategy=DefinitionStrategy(), subresources={"status": DefinitionStatusStrategy()})


class DefinitionStrategy(Strategy[CustomResourceDefinition]):
    """The strategy of CustomResourceDefinitions."""

    returns_deleted_object = False
    is_lengthy = True

    def default(self, obj: CustomResourceDefinition, context: RequestContext) -> CustomResourceDefinition:
        """Set the names that follow from the kind, and no conversion."""
        names = obj.spec.names
        names = replace(
            names,
            singular=names.singular or names.kind.lower(),
            list_kind=names.list_kind or (f"{names.kind}List" if names.kind else ""),
        )
        conversion = with_port(obj.spec.conversion or CustomResourceConversion(strategy="None"))
        return replace(obj, spec=replace(obj.spec, names=names, conversion=conversion))

    def prepare_create(self, obj: CustomResourceDefinition, context: RequestContext) -> CustomResourceDefinition:
        """Reset the status except for the stored version, and start the generation at 1."""
        status = type(obj)().status
        stored = tuple(version.name for version in obj.spec.versions if version.storage)
        obj = replace(obj, status=replace(status, stored_versions=stored))
        return replace(obj, metadata=replace(obj.metadata, generation=1))

    def prepare_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, context: RequestContext
    ) -> CustomResourceDefinition:
        """Keep the status, add the stored version to it, and count a change of the spec."""
        stored = old.status.stored_versions
        stored += tuple(v.name for v in new.spec.versions if v.storage and v.name not in stored)
        new = replace(new, status=replace(old.status, stored_versions=stored))
        generation = old.metadata.generation + (new.spec != old.spec)
        return replace(new, metadata=replace(new.metadata, generation=generation))

    def validate_create(self, obj: CustomResourceDefinition, context: RequestContext) -> ErrorList:
        """Return the errors of a definition that must not be served."""
        return _errors(obj, context.interrupted)

    def validate_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, context: RequestContext
    ) -> ErrorList:
        """Return the same errors, and those of fields that cannot change."""
        errors = _errors(new, context.interrupted)
        if new.spec.group != old.spec.group:
            errors.invalid("spec.group", new.spec.group, "field is immutable")
        if new.spec.names.plural != old.spec.names.plural:
            errors.invalid("spec.names.plural", new.spec.names.plural, "field is immutable")
        # Until it is established no instance can exist, so the names may still be corrected.
        if is_true(old.status.conditions, "Established"):
            if new.spec.scope != old.spec.scope:
                errors.invalid("spec.scope", new.spec.scope, "field is immutable")
            if new.spec.names.kind != old.spec.names.kind:
                errors.invalid("spec.names.kind", new.spec.names.kind, "field is immutable")
        present = {version.name for version in new.spec.versions}
        for position, name in enumerate(old.status.stored_versions):
            if name not in present:
                errors.invalid(
                    f"status.storedVersions[{position}]",
                    name,
                    "missing from spec.versions; "
                    f"{name} was previously a storage version, and must remain in spec.versions until a storage "
                    "migration ensures no data remains persisted in "
                    f"{name} and removes {name} from status.storedVersions",
                )
        return errors

    def warnings(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition | None, context: RequestContext
    ) -> list[str]:
        """Return warnings of formats that are not checked, except those that the definition had before."""
        if not context.gates.has(behaviours.UNRECOGNIZED_FORMATS_WARN):
            return []
        known = set(unrecognized_formats(old)) if old is not None else set()
        return [f'unrecognized format "{name}"' for name in unrecognized_formats(new) if name not in known]


class DefinitionStatusStrategy(Strategy[CustomResourceDefinition]):
    """The strategy of their sub-resource ``status``."""

    def prepare_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, context: RequestContext
    ) -> CustomResourceDefinition:
        """Keep everything but the status."""
        return replace(new, spec=old.spec)


def _errors(obj: CustomResourceDefinition, interrupted: Callable[[], bool]) -> ErrorList:
    errors = ErrorList()
    spec = obj.spec
    wanted = f"{spec.names.plural}.{spec.group}"
    if obj.metadata.name != wanted:
        errors.invalid("metadata.name", obj.metadata.name, 'must be spec.names.plural+"."+spec.group')
    _group(errors, obj)
    if not spec.scope:
        errors.required("spec.scope")
    elif spec.scope not in {"Cluster", "Namespaced"}:
        errors.string_not_among("spec.scope", spec.scope, ["Cluster", "Namespaced"])
    if sum(version.storage for version in spec.versions) != 1:
        errors.invalid("spec.versions", None, "must have exactly one version marked as storage version")
    seen: set[str] = set()
    for position, version in enumerate(spec.versions):
        path = f"spec.versions[{position}]"
        for problem in dns_label(version.name):
            errors.invalid(f"{path}.name", version.name, problem)
        if version.name in seen:
            errors.invalid("spec.versions", None, "must contain unique version names")
        seen.add(version.name)
        if version.schema is None or version.schema.open_apiv3_schema is None:
            errors.required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    _versions(errors, spec.versions, interrupted)
    _names(errors, obj)
    _common(errors, spec.versions, interrupted)
    if spec.conversion is not None:
        check_conversion(errors, spec.conversion)
    if spec.preserve_unknown_fields:
        errors.invalid(
            "spec.preserveUnknownFields",
            True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        )
    return errors


def _group(errors: ErrorList, obj: CustomResourceDefinition) -> None:
    group = obj.spec.group
    if not group:
        errors.required("spec.group")
        return
    for problem in dns_subdomain(group):
        errors.invalid("spec.group", group, problem)
    if "." not in group:
        errors.invalid("spec.group", group, "should be a domain with at least one dot")
    if group.endswith((".k8s.io", ".kubernetes.io")) and APPROVED not in obj.metadata.annotations:
        errors.required(
            f"metadata.annotations[{APPROVED}]",
            f'protected groups must have approval annotation "{APPROVED}", see '
            "https://github.com/kubernetes/enhancements/pull/1111",
        )


def _names(errors: ErrorList, obj: CustomResourceDefinition) -> None:
    names = obj.spec.names
    for name, value in (("plural", names.plural), ("singular", names.singular)):
        _label(errors, f"spec.names.{name}", value)
    for name, value in (("kind", names.kind), ("listKind", names.list_kind)):
        _label(errors, f"spec.names.{name}", value, lowered=True)
    for position, value in enumerate(names.short_names):
        _label(errors, f"spec.names.shortNames[{position}]", value)
    if names.list_kind and names.kind == names.list_kind:
        errors.invalid("spec.names.listKind", names.list_kind, "kind and listKind may not be the same")


def _label(errors: ErrorList, path: str, value: str, *, lowered: bool = False) -> None:
    if not value:
        errors.required(path)
    elif not _LABEL_1035.fullmatch(value.lower() if lowered else value):
        words = "may have mixed case, but should otherwise match: " if lowered else ""
        errors.invalid(
            path,
            value,
            f"{words}a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
            "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used "
            "for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        )


def _has_same(versions: Sequence[CustomResourceDefinitionVersion], field: str) -> bool:
    """Return True if all versions have the same value.

    Kubernetes' errors then name the field of the definition itself, where it was before versions had their own.
    """
    return all(getattr(version, field) == getattr(versions[0], field) for version in versions)


def _versions(
    errors: ErrorList, versions: Sequence[CustomResourceDefinitionVersion], interrupted: Callable[[], bool]
) -> None:
    """Check the fields that differ between versions."""
    for position, version in enumerate(versions):
        path = f"spec.versions[{position}]"
        if not _has_same(versions, "schema"):
            _root(errors, version, f"{path}.schema.openAPIV3Schema", interrupted)
        if not _has_same(versions, "additional_printer_columns"):
            _columns(errors, version, path)
        if not _has_same(versions, "selectable_fields"):
            _selectable(errors, version, path)


def _common(
    errors: ErrorList, versions: Sequence[CustomResourceDefinitionVersion], interrupted: Callable[[], bool]
) -> None:
    """Check the fields that are the same in all versions."""
    if not versions:
        return
    if _has_same(versions, "schema"):
        _root(errors, versions[0], "spec.validation.openAPIV3Schema", interrupted)
    if _has_same(versions, "additional_printer_columns"):
        _columns(errors, versions[0], "spec")
    if _has_same(versions, "selectable_fields"):
        _selectable(errors, versions[0], "spec")


def _root(
    errors: ErrorList, version: CustomResourceDefinitionVersion, where: str, interrupted: Callable[[], bool]
) -> None:
    """Check the schema of a version, if it has one."""
    if version.schema is None or version.schema.open_apiv3_schema is None:
        return
    try:
        source = version.schema.open_apiv3_schema.load()
    except RecursionError:
        errors.forbidden(where, _TOO_DEEP)
        return
    if not isinstance(source, dict):
        errors.invalid(where, None, "must be an object")
        return
    if deeper_than(MAX_DEPTH, source):
        errors.forbidden(where, _TOO_DEEP)
        return
    before = len(errors)
    if source.get("type") != "object":
        given = source.get("type", "")
        if given:
            errors.invalid(f"{where}.type", given, "must be object at the root")
        else:
            errors.required(f"{where}.type", "must not be empty at the root")
    if source.get("nullable"):
        errors.forbidden(f"{where}.nullable", "nullable cannot be true at the root")
    _schema(errors, source, where, root=True)
    if len(errors) == before:
        for fault in compile_rules(read_schema(source), interrupted)[1]:
            errors.append(FieldError(fault.type, f"{where}{fault.path}", fault.rule, fault.detail))


def _columns(errors: ErrorList, version: CustomResourceDefinitionVersion, path: str) -> None:
    """Check the columns of tables."""
    for position, column in enumerate(version.additional_printer_columns):
        where = f"{path}.additionalPrinterColumns[{position}]"
        if not column.name:
            errors.required(f"{where}.name")
        if not column.type:
            errors.required(f"{where}.type", _MUST_BE_TYPE)
        elif column.type not in _COLUMN_TYPES:
            errors.invalid(f"{where}.type", column.type, _MUST_BE_TYPE)
        if column.format and column.format not in _COLUMN_FORMATS:
            errors.invalid(f"{where}.format", column.format, f"must be one of {','.join(_COLUMN_FORMATS)}")
        _path(errors, f"{where}.JSONPath", column.json_path)


def _selectable(errors: ErrorList, version: CustomResourceDefinitionVersion, path: str) -> None:
    """Check the fields that selectors may name."""
    for position, selectable in enumerate(version.selectable_fields):
        _path(errors, f"{path}.selectableFields[{position}].jsonPath", selectable.json_path)


def _path(errors: ErrorList, where: str, text: str) -> None:
    if not text:
        errors.required(where)
        return
    try:
        parse_path(text)
    except ValueError as error:
        errors.invalid(where, text, str(error))


def _schema(errors: ErrorList, source: Mapping[str, Any], path: str, *, root: bool = False) -> None:
    """Check that a schema is structural."""
    preserve = source.get("x-kubernetes-preserve-unknown-fields")
    kind = source.get("type", "")
    if not kind and not root and not preserve and not source.get("x-kubernetes-int-or-string"):
        errors.required(f"{path}.type", "must not be empty for specified object fields")
    elif kind and kind not in _TYPES:
        errors.string_not_among(f"{path}.type", kind, _TYPES)
    for name in _FORBIDDEN:
        if source.get(name):
            errors.forbidden(f"{path}.{name}", f"{name} is not supported")
    if source.get("uniqueItems"):
        errors.forbidden(
            f"{path}.uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        )
    if source.get("additionalProperties") is False:
        errors.forbidden(f"{path}.additionalProperties", "additionalProperties cannot be set to false")
    if source.get("properties") and source.get("additionalProperties"):
        errors.forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    _list_type(errors, source, path)
    _assertions(errors, source, path)
    for name, inner in (source.get("properties") or {}).items():
        if isinstance(inner, Mapping) and not (root and name == "metadata"):
            _schema(errors, inner, f"{path}.properties[{name}]")
    if isinstance(source.get("additionalProperties"), Mapping):
        _schema(errors, source["additionalProperties"], f"{path}.additionalProperties")
    if kind == "array":
        items = source.get("items")
        if isinstance(items, Mapping):
            _schema(errors, items, f"{path}.items")
        elif isinstance(items, list):
            errors.forbidden(f"{path}.items", "items must be a schema object and not an array")
        else:
            errors.required(f"{path}.items", "must be specified")


def _assertions(errors: ErrorList, source: Mapping[str, Any], path: str) -> None:
    """Check the assertions of a schema, also inside of ``allOf``, ``anyOf``, ``oneOf`` and ``not``."""
    pattern = source.get("pattern")
    if isinstance(pattern, str) and pattern and (problem := pattern_problem(pattern)):
        errors.invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {problem}")
    factor = source.get("multipleOf")
    if isinstance(factor, (int, float)) and not factor > 0:
        errors.invalid(f"{path}.multipleOf", factor, "must be greater than 0")
    for name in ("allOf", "anyOf", "oneOf"):
        for position, inner in enumerate(source.get(name) or ()):
            if isinstance(inner, Mapping):
                _nested_assertions(errors, inner, f"{path}.{name}[{position}]")
    if isinstance(source.get("not"), Mapping):
        _nested_assertions(errors, source["not"], f"{path}.not")


def _nested_assertions(errors: ErrorList, source: Mapping[str, Any], path: str) -> None:
    _assertions(errors, source, path)
    for name, inner in (source.get("properties") or {}).items():
        if isinstance(inner, Mapping):
            _nested_assertions(errors, inner, f"{path}.properties[{name}]")
    for name in ("additionalProperties", "items"):
        if isinstance(source.get(name), Mapping):
            _nested_assertions(errors, source[name], f"{path}.{name}")


def _list_type(errors: ErrorList, source: Mapping[str, Any], path: str) -> None:
    given = source.get("x-kubernetes-list-type")
    if given is None:
        return
    if given not in {"atomic", "map", "set"}:
        errors.string_not_among(f"{path}.x-kubernetes-list-type", given, ["atomic", "set", "map"])
    if source.get("type") != "array":
        errors.invalid(f"{path}.type", source.get("type", ""), "must be array if x-kubernetes-list-type is specified")
    if given == "map" and not source.get("x-kubernetes-list-map-keys"):
        errors.required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
