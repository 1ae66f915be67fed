"""From a CustomResourceDefinition object to the `ResourceDefinition` that the server runs on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionVersion
from cathedra.api.struct import to_dict
from cathedra.apiserver.custom.columns import NAME, Path, cell, column_of, parse_path
from cathedra.apiserver.custom.objects import CustomObject, ScalePaths, content, make_type, normalized, with_content
from cathedra.apiserver.custom.rules import ValidationRules, compile_rules
from cathedra.apiserver.custom.schema import read_schema
from cathedra.apiserver.custom.strategy import InstanceStatusStrategy, InstanceStrategy
from cathedra.apiserver.versionorder import version_order
from cathedra.kinds.definition import Column, ResourceDefinition, Strategy, VersionDefinition

__all__ = ["kind_of_definition"]

_AGE = Column("Age", "date", "", "How long ago the object was created.")


@dataclass(frozen=True, slots=True)
class _Version:
    """One version: its struct type, its rules, what its table shows."""

    source: CustomResourceDefinitionVersion
    type: type[CustomObject]
    rules: ValidationRules

    @property
    def has_status(self) -> bool:
        return self.source.subresources is not None and self.source.subresources.status is not None


def kind_of_definition(obj: CustomResourceDefinition) -> ResourceDefinition[Any]:
    """The kind that an accepted definition adds."""
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
    return ResourceDefinition(
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


def _read(version: CustomResourceDefinitionVersion, kind: str) -> _Version:
    source: dict[str, Any] = {"type": "object"}
    if version.schema is not None and version.schema.open_apiv3_schema is not None:
        source = version.schema.open_apiv3_schema.load()
    schema = read_schema(source)
    scale = version.subresources.scale if version.subresources is not None else None
    paths = None
    if scale is not None:
        paths = ScalePaths(scale.spec_replicas_path, scale.status_replicas_path, scale.label_selector_path or "")
    return _Version(version, make_type(kind, schema, paths), compile_rules(schema)[0])


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
        return (NAME, _AGE), lambda obj, now: [obj.metadata.name, cell(created, "date", obj, now)]
    paths = [(parse_path(column.json_path), column.type) for column in given]

    def cells(obj: Any, now: float) -> list[Any]:
        return [obj.metadata.name, *(cell(path, kind, obj, now) for path, kind in paths)]

    return (NAME, *(column_of(column) for column in given)), cells


def _selectors(versions: list[_Version]) -> dict[str, Callable[[Any], str]]:
    found: dict[str, Callable[[Any], str]] = {}
    for version in versions:
        for selectable in version.source.selectable_fields:
            found[selectable.json_path.lstrip(".")] = _reader(parse_path(selectable.json_path))
    return found


def _reader(path: Path) -> Callable[[Any], str]:
    def read(obj: Any) -> str:
        value = path.one(to_dict(obj))
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read
