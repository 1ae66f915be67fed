"""Conversion of a CustomResourceDefinition object to the `ResourceDefinition` that the server runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionVersion
from cathedra.api.core.apiextensions_v1 import WebhookConversion as ConversionConfig
from cathedra.api.jsonvalue import JSONObject
from cathedra.apiserver.custom.columns import NAME, Path, cell, column_of, parse_path
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
from cathedra.apiserver.custom.schema import read_schema
from cathedra.apiserver.custom.strategy import InstanceStatusStrategy, InstanceStrategy
from cathedra.apiserver.routes import version_order
from cathedra.kinds.definition import AnyDefinition, Column, ResourceDefinition, Strategy, VersionDefinition

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
