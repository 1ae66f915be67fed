"""Conversion of a CustomResourceDefinition object to the `ResourceDefinition` that the server runs on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionVersion
from cathedra.api.core.apiextensions_v1 import WebhookConversion as ConversionConfig
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.field import ErrorList, ErrorType, FieldError
from cathedra.api.formats import Format, dns_1035_label, path_segment
from cathedra.api.jsonvalue import JSONObject, JSONValue
from cathedra.api.status import failure
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.apiserver.custom.columns import NAME, Path, cell, column_of, parse_fields, parse_path
from cathedra.apiserver.custom.conversion import Caller, WebhookConversion
from cathedra.apiserver.custom.objects import (
    CustomObject,
    ScalePaths,
    content,
    make_stored_type,
    make_type,
    normalized,
    plain_values,
    with_content,
)
from cathedra.apiserver.custom.rules import LazyRules
from cathedra.apiserver.custom.schema import DefaultRoom, Schema, read_schema
from cathedra.apiserver.custom.validation import Validator
from cathedra.apiserver.routes import version_order
from cathedra.kinds.definition import (
    AnyDefinition,
    Column,
    RequestContext,
    ResourceDefinition,
    Strategy,
    VersionDefinition,
)
from cathedra.kinds.metadata import validate_new_metadata
from cathedra.offload import DeadlineExceeded
from cathedra.releases import FeatureGates, behaviours
from cathedra.remembering import IDENTITY, remembered

_ROW: Final = 64 * 1024
"""Characters of text in a row of a table. Each of thousands of columns may show the whole object."""
_AGE = Column("Age", "date", "", "How long ago the object was created.")


class _Version(msgspec.Struct, frozen=True):
    """One version: its struct type and its rules."""

    source: CustomResourceDefinitionVersion
    type: type[CustomObject]
    rules: LazyRules

    @property
    def has_status(self) -> bool:
        return self.source.subresources is not None and self.source.subresources.status is not None


def kind_of_definition(obj: CustomResourceDefinition, caller: Caller | None = None) -> AnyDefinition:
    """Return the kind of an accepted definition; ``caller`` calls its conversion webhook, if it has one."""
    spec = obj.spec
    versions = [_read(version, spec.names.kind) for version in spec.versions]
    hub = next(version.type for version in versions if version.source.storage)
    served = sorted((v for v in versions if v.source.served), key=lambda v: version_order(v.source.name))
    by_api_version = {f"{spec.group}/{v.source.name}": v for v in versions}
    types = {name: version.type for name, version in by_api_version.items()}
    rules = {name: version.rules for name, version in by_api_version.items()}
    with_status = frozenset(name for name, version in by_api_version.items() if version.has_status)
    main = InstanceStrategy(types, rules, with_status)
    subresources: dict[str, Strategy[Any]] = {}
    if with_status:
        subresources["status"] = InstanceStatusStrategy(types, rules, with_status)
    columns, cells = _table(served[0].source if served else versions[0].source)
    definition: AnyDefinition = ResourceDefinition(
        group=spec.group,
        kind=spec.names.kind,
        plural=spec.names.plural,
        singular=spec.names.singular,
        namespaced=spec.scope == "Namespaced",
        type=hub,
        versions=tuple(_version(v, spec.group, spec.names.kind, hub) for v in served),
        strategy=main,
        subresources=subresources,
        short_names=spec.names.short_names,
        categories=spec.names.categories,
        columns=columns,
        cells=cells,
        field_selectors=_selectors(served),
    )
    conversion = spec.conversion
    if caller is None or conversion is None or conversion.strategy != "Webhook" or conversion.webhook is None:
        return definition
    return _converted_outside(definition, obj, by_api_version, conversion.webhook, caller)


def _converted_outside(
    definition: AnyDefinition,
    obj: CustomResourceDefinition,
    versions: dict[str, _Version],
    config: ConversionConfig,
    caller: Caller,
) -> AnyDefinition:
    """Return the kind with a definition for each version: verbs get objects in the version of the request."""
    group = obj.spec.group
    storage = next(name for name, version in versions.items() if version.source.storage)
    seen = {name: version.type for name, version in versions.items()}
    stored = {name: make_stored_type(kind, name) for name, kind in seen.items()}
    conversion = WebhookConversion(config, seen, stored, storage, caller)
    single: dict[str, AnyDefinition] = {}
    own_versions = tuple(msgspec.structs.replace(one, to_hub=_itself, from_hub=_itself) for one in definition.versions)
    for own in own_versions:
        version = versions[f"{group}/{own.name}"]
        columns, cells = _table(version.source)
        single[own.name] = msgspec.structs.replace(
            definition,
            type=version.type,
            versions=(own,),
            columns=columns,
            cells=cells,
            subresources=definition.subresources if version.has_status else {},
            conversion=conversion,
            equivalents=own_versions,
        )
    # Objects that were stored before the kind had a webhook have no version in their JSON. They are of the version that
    # has been stored for longest.
    oldest = next((f"{group}/{name}" for name in obj.status.stored_versions), storage)
    return msgspec.structs.replace(
        definition,
        type=stored[storage],
        versions=own_versions,
        stored_types={**stored, "": stored.get(oldest, stored[storage])},
        by_version=single,
    )


def _itself(obj: Any) -> Any:
    return obj


def _read(version: CustomResourceDefinitionVersion, kind: str) -> _Version:
    source: JSONObject = {"type": "object"}
    if version.schema is not None and version.schema.open_apiv3_schema is not None:
        source = version.schema.open_apiv3_schema.load()
    schema = read_schema(source)
    scale = version.subresources.scale if version.subresources is not None else None
    paths = None
    if scale is not None:
        paths = ScalePaths(scale.spec_replicas_path, scale.status_replicas_path, scale.label_selector_path or "")
    return _Version(version, make_type(kind, schema, paths), LazyRules(schema))


def _version(version: _Version, group: str, kind: str, hub: type[CustomObject]) -> VersionDefinition:
    own = version.type
    warning = ""
    if version.source.deprecated:
        warning = version.source.deprecation_warning or f"{group}/{version.source.name} {kind} is deprecated"
    return VersionDefinition(
        version.source.name,
        own,
        to_hub=lambda obj: with_content(hub, obj.metadata, content(obj)),
        from_hub=lambda obj: normalized(with_content(own, obj.metadata, content(obj))),
        subresources=("status",) if version.has_status else (),
        deprecation_warning=warning,
    )


def _table(
    version: CustomResourceDefinitionVersion,
) -> tuple[tuple[Column, ...], Callable[[Any, float], list[Any]]]:
    given = version.additional_printer_columns
    if not given:
        created = parse_path(".metadata.creationTimestamp")
        return (NAME, _AGE), lambda obj, now: [obj.metadata.name, cell(created, "date", plain_values(obj), now)]
    paths = [(parse_path(column.json_path), column.type) for column in given]

    def cells(obj: Any, now: float) -> list[Any]:
        values = plain_values(obj)
        row, room = [obj.metadata.name], _ROW
        for path, kind in paths:
            found = cell(path, kind, values, now)
            if isinstance(found, str):
                # Thousands of columns that each show the whole object would make a table of gigabytes.
                found = found[:room]
                room -= len(found)
            row.append(found)
        return row

    return (NAME, *(column_of(column) for column in given)), cells


def _selectors(versions: list[_Version]) -> dict[str, Callable[[Any], str]]:
    found: dict[str, Callable[[Any], str]] = {}
    for version in versions:
        for selectable in version.source.selectable_fields:
            found[selectable.json_path.lstrip(".")] = _reader(parse_path(selectable.json_path))
    return found


def _reader(path: Path) -> Callable[[Any], str]:
    def read(obj: Any) -> str:
        value = path.one(plain_values(obj))
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read


# Strategy of custom resources: instances are pruned, defaulted and validated, and their generation is counted
# (docs/spec/apimachinery.md §17).

_MOST_REPLICAS: Final = 2**31 - 1
_GO_TYPES: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
_BLOCKING: Final = frozenset(
    (ErrorType.NOT_SUPPORTED, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.TYPE_INVALID)
)
"""Errors after which rules are not evaluated: their values may not match the schema, or be expensive."""
_UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class InstanceStrategy(Strategy[CustomObject]):
    """The resource itself. ``types`` are the struct types by API version, ``rules`` the CEL rules of each."""

    allow_unconditional_update = False
    returns_deleted_object = False
    is_lengthy = True

    def __init__(
        self, types: Mapping[str, type[CustomObject]], rules: Mapping[str, LazyRules], with_status: frozenset[str]
    ) -> None:
        self._types = types
        self._rules = rules
        self._validators: dict[type[CustomObject], Validator] = {}
        self._with_status = with_status

    def default(self, obj: CustomObject, context: RequestContext) -> CustomObject:
        """Remove unknown fields and add the defaults.

        Raises:
            StatusError: 500, the defaults make the object larger than any store takes.
        """
        room = DefaultRoom()
        filled = normalized(obj, room)
        if room.exceeded:
            raise failure(500, "", "etcdserver: request is too large")
        return filled

    def prepare_create(self, obj: CustomObject, context: RequestContext) -> CustomObject:
        """Clear the status and set the first generation."""
        if context.api_version in self._with_status:
            obj = _without_status(obj)
        return replace(obj, metadata=replace(obj.metadata, generation=1))

    def prepare_update(self, new: CustomObject, old: CustomObject, context: RequestContext) -> CustomObject:
        """Keep the status, and increase the generation if anything else changed."""
        if context.api_version in self._with_status:
            new = _with_status_of(new, old)
        generation = old.metadata.generation
        if content(new) != content(old):
            generation += 1
        return replace(new, metadata=replace(new.metadata, generation=generation))

    def validate_create(self, obj: CustomObject, context: RequestContext) -> ErrorList:
        """Validate by the schema of the request's version and its rules."""
        return self._errors(obj, None, context)

    def validate_update(self, new: CustomObject, old: CustomObject, context: RequestContext) -> ErrorList:
        """Validate an update, with the rules on transitions."""
        return self._errors(new, old, context)

    def _errors(self, new: CustomObject, old: CustomObject | None, context: RequestContext) -> ErrorList:
        kind = self._types.get(context.api_version, type(new))
        lazy = self._rules.get(context.api_version)
        values = _plain(kind, new, context)

        def check() -> None:
            if context.interrupted():
                raise DeadlineExceeded(0.0)

        scale = _scale_errors(kind, values)
        names_few = context.gates.has(behaviours.TOO_FEW_ITEMS_NAMED)
        before = None if old is None else _plain(kind, old, context)
        errors = self._validator(kind).errors(values, "", check, names_few=names_few, old=before)
        if before is not None and any(error.type is ErrorType.DUPLICATE for error in errors):
            # Elements of sets and keyed lists may stay repeated in an object that was stored with some.
            known = self._validator(kind).errors(before, "", check)
            if any(error.type is ErrorType.DUPLICATE for error in known):
                errors = ErrorList(error for error in errors if error.type is not ErrorType.DUPLICATE)
        errors.extend(scale)
        if has_embedded(kind.schema):
            errors.extend(embedded_errors(kind.schema, values, "", context.gates))
        rules = None if lazy is None else lazy.compiled(context.interrupted)
        if rules is None or not rules.any:
            return errors
        if any(error.type in _BLOCKING for error in errors):
            errors.append(FieldError(ErrorType.INVALID, "<nil>", None, _UNCHECKED))
            return errors
        errors.extend(rules.broken(values, before, context.interrupted))
        return errors

    def _validator(self, kind: type[CustomObject]) -> Validator:
        """Return the schema of a version, compiled once."""
        found = self._validators.get(kind)
        if found is None:
            found = self._validators[kind] = Validator(kind.schema)
        return found


class InstanceStatusStrategy(InstanceStrategy):
    """The sub-resource ``status``: everything but the status is kept as it is."""

    reset_fields = ("spec",)

    def prepare_update(self, new: CustomObject, old: CustomObject, context: RequestContext) -> CustomObject:
        """Take only the status and, of the metadata, the managed fields."""
        kept = _with_status_of(old, new)
        metadata = replace(
            old.metadata,
            managed_fields=new.metadata.managed_fields,
            resource_version=new.metadata.resource_version,
        )
        return replace(kept, metadata=metadata)


def _scale_errors(kind: type[CustomObject], values: JSONObject) -> ErrorList:
    """Return the errors of the numbers and the selector that the sub-resource ``scale`` shows."""
    errors = ErrorList()
    paths = kind.scale
    if paths is None:
        return errors
    for path in (paths.spec_replicas, paths.status_replicas):
        number = parse_fields(path).one(values)
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool):
            words = f"{path} accessor error: {number} is of the type {_go_type(number)}, expected int64"
            errors.invalid(path, 0, words)
        elif number < 0:
            errors.invalid(path, number, "should be a non-negative integer")
        elif number > _MOST_REPLICAS:
            errors.invalid(path, number, f"should be less than or equal to {_MOST_REPLICAS}")
    selector = parse_fields(paths.selector).one(values) if paths.selector else None
    if selector is not None and not isinstance(selector, str):
        words = f"{paths.selector} accessor error: {selector} is of the type {_go_type(selector)}, expected string"
        errors.invalid(paths.selector, "", words)
    return errors


def _go_type(value: JSONValue) -> str:
    return _GO_TYPES.get(type(value), "<nil>")


def _plain(kind: type[CustomObject], obj: CustomObject, context: RequestContext) -> JSONObject:
    values = content(with_content(kind, obj.metadata, content(obj)))
    metadata = to_dict(obj.metadata)
    shown = {name: metadata[name] for name in ("name", "generateName") if name in metadata}
    return {"apiVersion": context.api_version, "kind": kind.__name__, "metadata": shown, **values}


def _without_status(obj: CustomObject) -> CustomObject:
    values = content(obj)
    values.pop("status", None)
    return with_content(type(obj), obj.metadata, values)


def _with_status_of(obj: CustomObject, other: CustomObject) -> CustomObject:
    values = content(obj)
    values.pop("status", None)
    status = content(other).get("status")
    if status is not None:
        values["status"] = status
    return with_content(type(obj), obj.metadata, values)


# Objects inside of custom objects (``x-kubernetes-embedded-resource``): their type and metadata.
#
# Kubernetes validates them as it does those of an object itself, except that a name may be missing
# (k8s.io/apiextensions-apiserver, pkg/apiserver/schema/objectmeta/validation.go).


class _Embedded(msgspec.Struct, frozen=True):
    """The rules of names of an embedded object."""

    namespaced: bool
    name_rule: Format = path_segment
    checks_generate_name: bool = True


@remembered("apiserver.custom.has_embedded", key=IDENTITY, size=1024)
def has_embedded(schema: Schema) -> bool:
    """Return True if values of the schema may have embedded objects: most kinds have none."""
    below = (*schema.properties.values(), schema.additional, schema.items)
    return schema.embedded or any(has_embedded(one) for one in below if one is not None)


def embedded_errors(schema: Schema, value: Any, path: str, gates: FeatureGates) -> Iterator[FieldError]:
    """Yield the errors of all embedded objects in a value, outer ones first."""
    if isinstance(value, list) and schema.items is not None:
        for position, item in enumerate(value):
            yield from embedded_errors(schema.items, item, f"{path}[{position}]", gates)
    if not isinstance(value, dict):
        return
    if schema.embedded:
        yield from _type_errors(value, path)
        if "metadata" in value:
            yield from _metadata_errors(value["metadata"], path, gates)
    for name, inner in value.items():
        if (known := schema.properties.get(name)) is not None:
            yield from embedded_errors(known, inner, f"{path}.{name}" if path else name, gates)
        elif schema.additional is not None:
            yield from embedded_errors(schema.additional, inner, f"{path}[{name}]", gates)


def _type_errors(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    errors = ErrorList()
    for name in ("apiVersion", "kind"):
        if name not in value:
            errors.required(f"{path}.{name}")
    for name in ("apiVersion", "kind"):
        where, given = f"{path}.{name}", value.get(name, "-")
        if not isinstance(given, str):
            errors.invalid(where, given, "must be a string")
        elif not given:
            errors.invalid(where, given, "must not be empty")
        elif name == "apiVersion" and given.count("/") > 1:
            errors.invalid(where, given, f"unexpected GroupVersion string: {given}")
        elif name == "kind" and name in value and (problems := list(dns_1035_label(given.lower()))):
            text = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            errors.invalid(where, given, text)
    yield from errors


_NAME: Final = "fakename"
"""A name in place of a missing one, which is no error here."""


def _metadata_errors(value: Any, path: str, gates: FeatureGates) -> Iterator[FieldError]:
    try:
        metadata = from_dict(ObjectMeta, value)
    except (msgspec.MsgspecError, TypeError) as error:
        errors = ErrorList()
        errors.invalid(f"{path}.metadata", value, str(error))
        yield from errors
        return
    if not metadata.name:
        metadata = replace(metadata, name=_NAME)
    for found in validate_new_metadata(_Embedded(bool(metadata.namespace)), metadata, gates):
        yield dataclasses.replace(found, field=f"{path}.{found.field}")
