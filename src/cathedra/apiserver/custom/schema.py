"""Structural schemas: pruning, defaulting and merging of instances, by a schema that is read once.

Every instance passes through this module. Validation of values is in `validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, TypeAlias

import msgspec

from cathedra.api.decoding.reader import MOST_PROBLEMS, Place, place_text
from cathedra.apiserver.patches.schema import (
    ANYTHING,
    BOOLEAN,
    LEAF,
    NUMERIC,
    STRING,
    DocumentShape,
    Leaf,
    ListShape,
    MapShape,
    Shape,
)
from cathedra.apiserver.registry.layout import MAX_VALUE

MAX_DEPTH: Final = 100
"""Levels of a schema. Walks over schemas and their values are recursive; the deepest known definition has about 30."""

MOST_DEFAULTS: Final = MAX_VALUE
"""Bytes of JSON that defaults may add to one object: no stored object may have more."""

PythonType: TypeAlias = type[int] | type[str] | type[bool]

_ABSENT: Final = object()
_EMBEDDED: Final = frozenset({"apiVersion", "kind", "metadata"})
_SCALARS: Final[Mapping[str, PythonType]] = {"integer": int, "string": str, "boolean": bool}
_SAY_NOTHING_OF_VALUES: Final = frozenset({"type", "description", "title", "default", "nullable", "example"})
_LEAVES: Final[dict[str, Leaf]] = {"integer": NUMERIC, "number": NUMERIC, "boolean": BOOLEAN}


class DefaultRoom:
    """The bytes that defaults may add to one object. A list of ten thousand empty objects in a body of 30 kB can have a
    default of 20 kB for each."""

    __slots__ = ("_left", "exceeded")

    def __init__(self) -> None:
        self._left = MOST_DEFAULTS
        self.exceeded = False

    def take(self, size: int) -> bool:
        """Return True if there is room for ``size`` bytes, and use it up."""
        if size > self._left:
            self.exceeded = True
            return False
        self._left -= size
        return True


class Schema(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One node of a structural schema. ``source`` is its JSON in the definition, for validation and for OpenAPI."""

    source: Mapping[str, Any]
    type: str = ""
    properties: dict[str, Schema] = msgspec.field(default_factory=dict)
    additional: Schema | None = None
    items: Schema | None = None
    preserve: bool = False
    embedded: bool = False
    int_or_string: bool = False
    nullable: bool = False
    default: Any = _ABSENT
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()
    map_type: str = "granular"

    @property
    def has_default(self) -> bool:
        """True if an absent value is filled in."""
        return self.default is not _ABSENT

    @cached_property
    def scalar(self) -> PythonType | None:
        """The type, if the schema has no other assertion, so that every value of the type is valid; most are so."""
        return _SCALARS.get(self.type) if _SAY_NOTHING_OF_VALUES.issuperset(self.source) else None

    def pruned(self, value: Any, path: Place | None = None, problems: list[str] | None = None) -> Any:
        """Return ``value`` without unknown fields, with sorted maps.

        ``problems`` collects the dropped fields, up to `MOST_PROBLEMS`.
        """
        if isinstance(value, dict):
            kept = {}
            # Sorted, as Go encodes maps. Two writes of the same fields then have the same bytes, and the second is no
            # update.
            for name in sorted(value):
                inner = self._inner(name)
                if inner is None:
                    if problems is not None and len(problems) < MOST_PROBLEMS:
                        problems.append(f'unknown field "{place_text((path, f".{name}"))}"')
                    continue
                item = value[name]
                nested = isinstance(item, (dict, list))
                kept[name] = inner.pruned(item, (path, f".{name}"), problems) if nested else item
            return kept
        if isinstance(value, list):
            element = self.items or ANY
            return [
                element.pruned(item, (path, f"[{position}]"), problems) if isinstance(item, (dict, list)) else item
                for position, item in enumerate(value)
            ]
        return value

    def filled(self, value: Any, room: DefaultRoom | None = None) -> Any:
        """Return ``value`` with its defaults.

        Values without defaults are shared, and so is each default. A default that does not fit into ``room`` is left
        out, and the room is then `DefaultRoom.exceeded`.
        """
        room = room if room is not None else DefaultRoom()
        if isinstance(value, dict):
            filled = dict(value)
            for name, inner in self.properties.items():
                present = filled.get(name, _ABSENT)
                # A null in a field that may not be null counts as absent, as in Kubernetes' defaulting.
                if present is _ABSENT or (present is None and not inner.nullable):
                    if inner.has_default and room.take(len(name) + inner.default_size):
                        filled[name] = inner.filled_default
                elif isinstance(present, (dict, list)):
                    filled[name] = inner.filled(present, room)
            if self.additional is not None:
                for name, item in filled.items():
                    if name not in self.properties:
                        filled[name] = self.additional.filled(item, room)
            return {name: filled[name] for name in sorted(filled)}
        if isinstance(value, list) and self.items is not None:
            items = self.items
            return [items.filled(item, room) if isinstance(item, (dict, list)) else item for item in value]
        return value

    @cached_property
    def filled_default(self) -> Any:
        """The default, with the defaults of its own fields."""
        return self.filled(self.default)

    @cached_property
    def default_size(self) -> int:
        """Bytes of `filled_default` in JSON; more than any room if the defaults inside of it are too many."""
        room = DefaultRoom()
        made = self.filled(self.default, room)
        return MOST_DEFAULTS + 1 if room.exceeded else len(msgspec.json.encode(made))

    @cached_property
    def shape(self) -> Shape:
        """The shape of its values, by which patches and applies merge them."""
        if self.type == "object" and (self.properties or self.embedded):
            fields = {name: inner.shape for name, inner in self.properties.items()}
            if self.preserve:
                return MapShape(ANYTHING, atomic=self.map_type == "atomic") if not fields else _Open(fields)
            return DocumentShape(fields, atomic=self.map_type == "atomic")
        if self.type == "object" and self.additional is not None:
            return MapShape(self.additional.shape, atomic=self.map_type == "atomic")
        if self.type == "array":
            element = self.items or ANY
            # An element may leave out a key that has a default. Without it server-side apply would take the element for
            # a new one.
            defaults = tuple(
                (key, element.properties[key].default)
                for key in self.keys
                if key in element.properties and element.properties[key].has_default
            )
            return ListShape(element.shape, list_type=self.list_type, keys=self.keys, defaults=defaults)
        if self.preserve or self.type in {"", "object"}:
            return ANYTHING
        if self.type == "string":
            return STRING if self.source.get("format", "") in {"", "byte"} else LEAF
        return _LEAVES.get(self.type, LEAF)

    def _inner(self, name: str) -> Schema | None:
        found = self.properties.get(name)
        if found is not None:
            return found
        if self.additional is not None:
            return self.additional
        if self.preserve or (self.embedded and name in _EMBEDDED):
            return ANY
        return None


class _Open(DocumentShape):
    """A struct that preserves unknown fields."""

    def __init__(self, fields: dict[str, Shape]) -> None:
        super().__init__(_DeclaredFields(fields))


class _DeclaredFields(dict[str, Shape]):
    """Declared fields, and anything for every other name."""

    def __missing__(self, name: str) -> Shape:
        return ANYTHING

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the declared shape of a field; `ANYTHING` for every other name."""
        return self[name]


ANY: Final = Schema({}, preserve=True)
"""The schema of a value without any: it is kept as it is."""


class Correlated(msgspec.Struct, frozen=True, dict=True):
    """A value of a schema, and the previous value in its place."""

    schema: Schema
    new: Any
    old: Any

    @cached_property
    def is_unchanged(self) -> bool:
        """True if both are equal in Kubernetes' sense: lists with keys may be ordered differently, and no object is
        equal to another if it has fields without a schema."""
        new, old, schema = self.new, self.old, self.schema
        if isinstance(new, list) and isinstance(old, list):
            if len(new) != len(old):
                return False
            if schema.list_type != "map" or schema.items is None:
                return bool(identity(new) == identity(old))
            return all(found is not None and found.is_unchanged for found in self.elements)
        if isinstance(new, dict) and isinstance(old, dict):
            if len(new) != len(old):
                return False
            return all((found := self.field(name)) is not None and found.is_unchanged for name in new)
        return bool(identity(new) == identity(old))

    def field(self, name: str) -> Correlated | None:
        """Return the values of a field; None if they cannot be compared."""
        if not isinstance(self.new, dict) or not isinstance(self.old, dict):
            return None
        if name not in self.new or name not in self.old:
            return None
        schema = self.schema.properties.get(name) or self.schema.additional
        return None if schema is None or schema is ANY else Correlated(schema, self.new[name], self.old[name])

    @cached_property
    def elements(self) -> list[Correlated | None]:
        """The elements of a list with their previous values, which only lists with keys have."""
        new, schema = self.new, self.schema
        # Elements without keys cannot be matched: a change of one makes the whole list new, and errors that it had
        # before count again.
        if schema.list_type != "map" or schema.items is None or not isinstance(self.old, list):
            return [None] * len(new)
        # Of elements with equal keys the first counts. Old objects may have some: keys were not always checked.
        known = {_key(schema, item): item for item in reversed(self.old) if isinstance(item, dict)}
        return [
            Correlated(schema.items, item, known[key]) if (key := _key(schema, item)) in known else None for item in new
        ]


def _key(schema: Schema, item: Any) -> Any:
    """Return the key of an element of a list; None if it is no object."""
    return tuple([identity(item.get(key)) for key in schema.keys]) if isinstance(item, dict) else None


def identity(value: Any) -> Any:
    """Return a hashable key that two values share if they are equal as JSON, to search lists in linear time."""
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value, order="sorted")
    return isinstance(value, bool), value


def deeper_than(levels: int, source: Any) -> bool:
    """Return True if schemas nest more deeply in ``source``; each takes two levels of JSON at most."""
    level: list[Any] = [source]
    for _ in range(2 * levels):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def read_schema(source: Mapping[str, Any]) -> Schema:
    """Return the schema of an ``openAPIV3Schema``. A keyword that is null counts as absent, as a nil pointer in Go."""
    return _read_schema(_without_null_keywords(source))


def _without_null_keywords(source: Mapping[str, Any]) -> Mapping[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in source.items():
        if value is None:
            continue
        if name in _SCHEMA_MAPS and isinstance(value, Mapping):
            kept[name] = {key: _without_null_keywords(one or {}) for key, one in value.items()}
        elif name in _SCHEMA_LISTS and isinstance(value, list):
            kept[name] = [_without_null_keywords(one or {}) for one in value]
        elif name in _SCHEMAS and isinstance(value, Mapping):
            kept[name] = _without_null_keywords(value)
        else:
            # Values of instances, as in enum and default, keep their nulls.
            kept[name] = value
    return kept


_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "definitions"})
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf"})
_SCHEMAS: Final = frozenset({"items", "additionalProperties", "additionalItems", "not"})


def _read_schema(source: Mapping[str, Any]) -> Schema:
    additional = source.get("additionalProperties")
    inner: Schema | None = None
    if isinstance(additional, Mapping):
        inner = _read_schema(additional)
    elif additional is True:
        inner = ANY
    items = source.get("items")
    return Schema(
        source,
        type=source.get("type", ""),
        properties={name: _read_schema(one) for name, one in source.get("properties", {}).items()},
        additional=inner,
        items=_read_schema(items) if isinstance(items, Mapping) else None,
        preserve=bool(source.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(source.get("x-kubernetes-embedded-resource")),
        int_or_string=bool(source.get("x-kubernetes-int-or-string")),
        nullable=bool(source.get("nullable")),
        default=source.get("default", _ABSENT),
        list_type=source.get("x-kubernetes-list-type", "atomic"),
        keys=tuple(source.get("x-kubernetes-list-map-keys", ())),
        map_type=source.get("x-kubernetes-map-type", "granular"),
    )
