"""Defaults and validation of definitions of custom resources
(docs/spec/apimachinery.md §17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace as with_fields

from cathedra.api.core.apiextensions_v1 import (
    CustomResourceConversion,
    CustomResourceDefinition,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionVersion,
    CustomResourceSubresources,
)
from cathedra.api.field import ErrorList
from cathedra.api.formats import dns_1035_label, dns_subdomain
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.custom.columns import check_field_path, parse_path
from cathedra.apiserver.custom.conversion import check_conversion, with_port
from cathedra.apiserver.custom.definitionschemas import RATCHETED, RULE_COST, schema_errors
from cathedra.apiserver.custom.formats import unrecognized_formats
from cathedra.apiserver.custom.goforms import have_same, versions_form
from cathedra.apiserver.custom.schema import read_schema
from cathedra.apiserver.custom.structural import is_unsupported
from cathedra.kinds.definition import AnyDefinition, RequestContext, Strategy
from cathedra.releases import behaviours
from cathedra.semantics.conditions import is_true

CRDS: Final = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")
APPROVED: Final = "api-approved.kubernetes.io"
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
_NO_DOT: Final = "must be a simple json path starting with ."
_MUST_BE_SCALAR: Final = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)
_MOST_SELECTABLE: Final = 8
_WARNING_SIZE: Final = 256


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
        obj = replace(obj, spec=replace(obj.spec, names=names, conversion=conversion))
        stored = next((version.name for version in obj.spec.versions if version.storage), "")
        if stored and not obj.status.stored_versions:
            obj = replace(obj, status=replace(obj.status, stored_versions=(stored,)))
        return obj

    def prepare_create(self, obj: CustomResourceDefinition, context: RequestContext) -> CustomResourceDefinition:
        """Reset the status except for the stored version, and start the generation at 1."""
        status = type(obj)().status
        # A definition that wrongly has two stored versions is refused because the second is not named here.
        stored = tuple(version.name for version in obj.spec.versions if version.storage)[:1]
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
        errors = _errors(obj, context.interrupted)
        _approval(errors, obj, None)
        _unknown_fields(errors, obj, None)
        return errors

    def validate_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, context: RequestContext
    ) -> ErrorList:
        """Return the same errors, and those of fields that cannot change."""
        errors = _without_known(_errors(new, context.interrupted, old), new, old, context.interrupted)
        _approval(errors, new, old)
        _unknown_fields(errors, new, old)
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

    def validate_update(
        self, new: CustomResourceDefinition, old: CustomResourceDefinition, context: RequestContext
    ) -> ErrorList:
        """Return the errors of the accepted names."""
        errors = ErrorList()
        _name_formats(errors, new.status.accepted_names, "status.acceptedNames")
        return errors


def _errors(
    obj: CustomResourceDefinition, interrupted: Callable[[], bool], old: CustomResourceDefinition | None = None
) -> ErrorList:
    """Return the errors of a definition in Kubernetes' order, except for what an update may keep."""
    errors = ErrorList()
    spec = obj.spec
    if old is None and obj.metadata.name != f"{spec.names.plural}.{spec.group}":
        errors.invalid("metadata.name", obj.metadata.name, 'must be spec.names.plural+"."+spec.group')
    _group(errors, spec.group)
    if not spec.scope:
        errors.required("spec.scope")
    elif spec.scope not in {"Cluster", "Namespaced"}:
        errors.string_not_among("spec.scope", spec.scope, ["Cluster", "Namespaced"])
    # Definitions of v1beta1 could do without a schema. Such a version may stay as long as it is not served, for then no
    # write depends on it.
    had_schemas = old is None or all(_has_schema(version) for version in old.spec.versions)
    for position, version in enumerate(spec.versions):
        if not _has_schema(version) and (had_schemas or version.served):
            detail = "" if had_schemas else "because otherwise all fields are pruned"
            errors.required(f"spec.versions[{position}].schema.openAPIV3Schema", detail)
    _versions(errors, spec.versions, interrupted)
    for name in ("plural", "singular", "kind", "list_kind"):
        if not getattr(spec.names, name):
            errors.required(f"spec.names.{'listKind' if name == 'list_kind' else name}")
    _name_formats(errors, spec.names, "spec.names")
    _common(errors, spec.versions, interrupted)
    if spec.conversion is not None:
        check_conversion(errors, spec.conversion)
    if old is not None:
        _unchangeable(errors, obj, old)
    _name_formats(errors, obj.status.accepted_names, "status.acceptedNames")
    _stored_versions(errors, obj)
    return errors


def _has_schema(version: CustomResourceDefinitionVersion) -> bool:
    return version.schema is not None and version.schema.open_apiv3_schema is not None


def _without_known(
    errors: ErrorList, new: CustomResourceDefinition, old: CustomResourceDefinition, interrupted: Callable[[], bool]
) -> ErrorList:
    """Return the errors without those that the previous definition was accepted with, by earlier rules."""
    origins = {error.origin for error in errors} & (RATCHETED | {RULE_COST})
    if not origins:
        return errors
    known = {error.origin for error in _errors(old, interrupted)} & RATCHETED
    # An estimate of cost may rise with a release. An untouched schema must stay writable, or its definition could get
    # no version and no label.
    if [version.schema for version in new.spec.versions] == [version.schema for version in old.spec.versions]:
        known.add(RULE_COST)
    return ErrorList(error for error in errors if error.origin not in known)


def _unchangeable(errors: ErrorList, new: CustomResourceDefinition, old: CustomResourceDefinition) -> None:
    # Until it is established no instance can exist, so the names may still be corrected.
    if is_true(old.status.conditions or (), "Established"):
        if new.spec.scope != old.spec.scope:
            errors.invalid("spec.scope", new.spec.scope, "field is immutable")
        if new.spec.names.kind != old.spec.names.kind:
            errors.invalid("spec.names.kind", new.spec.names.kind, "field is immutable")
    if new.spec.group != old.spec.group:
        errors.invalid("spec.group", new.spec.group, "field is immutable")
    if new.spec.names.plural != old.spec.names.plural:
        errors.invalid("spec.names.plural", new.spec.names.plural, "field is immutable")


def _stored_versions(errors: ErrorList, obj: CustomResourceDefinition) -> None:
    path, stored = "status.storedVersions", obj.status.stored_versions
    if not stored:
        errors.invalid(path, None, "must have at least one stored version")
        return
    for version in obj.spec.versions:
        if version.storage and version.name not in stored:
            errors.invalid(path, list(stored), f"must have the storage version {version.name}")
    present = {version.name for version in obj.spec.versions}
    for position, name in enumerate(stored):
        if name not in present:
            errors.invalid(
                f"{path}[{position}]",
                name,
                "missing from spec.versions; "
                f"{name} was previously a storage version, and must remain in spec.versions until a storage "
                "migration ensures no data remains persisted in "
                f"{name} and removes {name} from status.storedVersions",
            )


def _unknown_fields(errors: ErrorList, new: CustomResourceDefinition, old: CustomResourceDefinition | None) -> None:
    if new.spec.preserve_unknown_fields and not (old is not None and old.spec.preserve_unknown_fields):
        errors.invalid(
            "spec.preserveUnknownFields",
            True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        )


def _approval(errors: ErrorList, new: CustomResourceDefinition, old: CustomResourceDefinition | None) -> None:
    """Check the approval of a definition in a group of Kubernetes; an update that does not change it passes."""
    group = new.spec.group
    if group not in {"k8s.io", "kubernetes.io"} and not group.endswith((".k8s.io", ".kubernetes.io")):
        return
    state = _approval_state(new)
    if state == "approved" or (old is not None and _approval_state(old) == state):
        return
    path = f"metadata.annotations[{APPROVED}]"
    words = f'protected groups must have approval annotation "{APPROVED}"'
    source = "see https://github.com/kubernetes/enhancements/pull/1111"
    if state == "missing":
        errors.required(path, f"{words}, {source}")
    else:
        detail = f'{words} with either a URL or a reason starting with "unapproved", {source}'
        errors.invalid(path, new.metadata.annotations[APPROVED], detail)


def _approval_state(obj: CustomResourceDefinition) -> str:
    given = obj.metadata.annotations.get(APPROVED, "")
    if not given:
        return "missing"
    if given.startswith("unapproved"):
        return "approved"
    try:
        url = urlsplit(given)
    except ValueError:
        return "invalid"
    return "approved" if url.scheme and url.netloc else "invalid"


def _group(errors: ErrorList, group: str) -> None:
    if not group:
        errors.required("spec.group")
    elif problems := dns_subdomain(group):
        errors.invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _name_formats(errors: ErrorList, names: CustomResourceDefinitionNames, path: str) -> None:
    for name in ("plural", "singular"):
        _label(errors, f"{path}.{name}", getattr(names, name))
    _label(errors, f"{path}.kind", names.kind, lowered=True)
    _label(errors, f"{path}.listKind", names.list_kind, lowered=True)
    for position, value in enumerate(names.short_names):
        _label(errors, f"{path}.shortNames[{position}]", value, required=True)
    if names.kind and names.kind == names.list_kind:
        errors.invalid(f"{path}.listKind", names.list_kind, "kind and listKind may not be the same")
    for position, value in enumerate(names.categories):
        _label(errors, f"{path}.categories[{position}]", value, required=True)


def _label(errors: ErrorList, path: str, value: str, *, lowered: bool = False, required: bool = False) -> None:
    problems = dns_1035_label(value.lower() if lowered else value)
    if problems and (value or required):
        words = "may have mixed case, but should otherwise match: " if lowered else ""
        errors.invalid(path, value, words + ",".join(problems))


def _versions(
    errors: ErrorList, versions: Sequence[CustomResourceDefinitionVersion], interrupted: Callable[[], bool]
) -> None:
    """Check each version with the fields that differ between versions, and all versions together."""
    for position, version in enumerate(versions):
        path = f"spec.versions[{position}]"
        if problems := dns_1035_label(version.name):
            errors.invalid(f"{path}.name", version.name, ",".join(problems))
        for problem in _deprecation_problems(version):
            errors.invalid(f"{path}.deprecationWarning", version.deprecation_warning, problem)
        # Kubernetes keeps fields that are equal in all versions once, at the top of its internal form, and the path of
        # an error is that of this form.
        if not have_same(versions, "schema"):
            _root(errors, version, f"{path}.schema", interrupted, with_status=_has_status(version))
        if not have_same(versions, "subresources"):
            _scale(errors, version.subresources, f"{path}.subresources")
        if not have_same(versions, "additional_printer_columns"):
            _columns(errors, version, path)
        if not have_same(versions, "selectable_fields"):
            _selectable(errors, version, path)
    names = [version.name for version in versions]
    if len(set(names)) < len(names):
        errors.invalid("spec.versions", versions_form(versions), "must contain unique version names")
    if sum(version.storage for version in versions) != 1:
        shown = versions_form(versions)
        errors.invalid("spec.versions", shown, "must have exactly one version marked as storage version")


def _has_status(version: CustomResourceDefinitionVersion) -> bool:
    return version.subresources is not None and version.subresources.status is not None


def _deprecation_problems(version: CustomResourceDefinitionVersion) -> list[str]:
    text = version.deprecation_warning
    if text is None:
        return []
    if not version.deprecated:
        return ["can only be set for deprecated versions"]
    problems = []
    if len(text.encode()) > _WARNING_SIZE:
        problems.append(f"must be <= {_WARNING_SIZE} characters long")
    if not text:
        problems.append("must not be an empty string")
    bad = next((position for position, character in enumerate(text) if not character.isprintable()), None)
    if bad is not None:
        # In bytes, as Go indexes strings.
        at = len(text[:bad].encode())
        problems.append(f"must only contain printable UTF-8 characters; non-printable character found at index {at}")
    return problems


def _common(
    errors: ErrorList, versions: Sequence[CustomResourceDefinitionVersion], interrupted: Callable[[], bool]
) -> None:
    """Check the fields that are the same in all versions."""
    if not versions:
        return
    first = versions[0]
    if have_same(versions, "schema"):
        with_status = any(_has_status(version) for version in versions)
        _root(errors, first, "spec.validation", interrupted, with_status=with_status)
    if have_same(versions, "subresources"):
        _scale(errors, first.subresources, "spec.subresources")
    if have_same(versions, "additional_printer_columns"):
        _columns(errors, first, "spec")
    if have_same(versions, "selectable_fields"):
        _selectable(errors, first, "spec")


def _root(
    errors: ErrorList,
    version: CustomResourceDefinitionVersion,
    path: str,
    interrupted: Callable[[], bool],
    *,
    with_status: bool,
) -> None:
    """Check the schema of a version, if it has one."""
    if version.schema is None or version.schema.open_apiv3_schema is None:
        return
    where = f"{path}.openAPIV3Schema"
    try:
        source = version.schema.open_apiv3_schema.load()
    except RecursionError:
        source = None
    errors.extend(schema_errors(source, where, interrupted, with_status=with_status))


def _scale(errors: ErrorList, subresources: CustomResourceSubresources | None, path: str) -> None:
    """Check the paths of a sub-resource ``scale``."""
    scale = subresources.scale if subresources is not None else None
    if scale is None:
        return
    for name, text, parent in (
        ("specReplicasPath", scale.spec_replicas_path, ".spec"),
        ("statusReplicasPath", scale.status_replicas_path, ".status"),
    ):
        where = f"{path}.scale.{name}"
        if not text:
            errors.required(where)
        elif not text.startswith("."):
            errors.invalid(where, text, _NO_DOT)
        elif not text.startswith(f"{parent}."):
            errors.invalid(where, text, f"should be a json path under {parent}")
    selector, where = scale.label_selector_path, f"{path}.scale.labelSelectorPath"
    if selector and not selector.startswith("."):
        errors.invalid(where, selector, _NO_DOT)
    elif selector and not selector.startswith((".spec.", ".status.")):
        errors.invalid(where, selector, "should be a json path under either .spec or .status")


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


def _path(errors: ErrorList, where: str, text: str) -> None:
    if not text:
        errors.required(where)
    elif not text.startswith("."):
        errors.invalid(where, text, _NO_DOT)
    else:
        # Kubernetes accepts paths that it cannot parse, and then serves no tables of the kind.
        try:
            parse_path(text)
        except ValueError as error:
            errors.invalid(where, text, str(error))


def _selectable(errors: ErrorList, version: CustomResourceDefinitionVersion, path: str) -> None:
    """Check the fields that selectors may name."""
    if not version.selectable_fields:
        return
    if version.schema is None or version.schema.open_apiv3_schema is None:
        errors.invalid(f"{path}.selectableFields", "", "may only be set when validations.schema is included")
        return
    source = version.schema.open_apiv3_schema.load()
    if is_unsupported(source):
        return
    schema, seen = read_schema(source), set[str]()
    for position, selectable in enumerate(version.selectable_fields):
        where, text = f"{path}.selectableFields[{position}].jsonPath", selectable.json_path
        if not text:
            errors.required(where)
            continue
        try:
            first, found = check_field_path(text, schema, brackets=False)
        except ValueError as error:
            errors.invalid(where, text, f"is an invalid path: {error}")
            continue
        if first == "metadata":
            errors.invalid(where, text, "must not point to fields in metadata")
        if found.type not in {"string", "boolean", "integer"}:
            errors.invalid(where, text, _MUST_BE_SCALAR)
        if text in seen:
            errors.duplicate(where, text)
        seen.add(text)
    if len(seen) > _MOST_SELECTABLE:
        errors.too_many(f"{path}.selectableFields", len(seen), _MOST_SELECTABLE)
