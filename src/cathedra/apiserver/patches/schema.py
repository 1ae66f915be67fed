"""The shape of an object as patches and server-side apply need it: structs, maps, lists and how they merge.

Built from the struct types and the facts about merging; a custom resource's shape is built from its schema instead.
Shapes are made with their first use and kept, since types refer to each other in circles.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import msgspec

from cathedra.api.jsonvalue import JSONObject, JSONValue
from cathedra.api.struct import KubeStruct, RawJSON, json_names
from cathedra.api.typeinfo import FieldInfo, info_of


class Leaf(msgspec.Struct, frozen=True):
    """A scalar, or any value that counts as one piece. ``typed`` is False for free-form values.

    ``scalar`` is the type of applied values: ``string``, ``numeric``, ``boolean``, or ``untyped`` for any scalar.
    """

    typed: bool = True
    scalar: str = "untyped"


class MapShape(msgspec.Struct, frozen=True, eq=False):
    """A map from text to values of one shape."""

    value: Shape
    atomic: bool = False


class ListShape(msgspec.Struct, frozen=True, eq=False):
    """A list. ``list_type`` (atomic, set, map) is for apply, ``merges`` and ``merge_key`` for strategic patches."""

    element: Shape
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()
    merges: bool = False
    merge_key: str = ""
    defaults: tuple[tuple[str, Any], ...] = ()
    """Values of keys that were left out."""


@dataclass(eq=False)
class StructShape:
    """A struct; its fields are found with their first use."""

    type: type[KubeStruct]
    atomic: bool = False

    @cached_property
    def fields(self) -> dict[str, Shape]:
        """JSON name → shape."""
        return _fields(self.type)


@dataclass(frozen=True, eq=False)
class DocumentShape:
    """A struct that is given field by field, as in a custom resource's schema."""

    fields: dict[str, Shape] = field(default_factory=dict)
    atomic: bool = False


Shape = Leaf | MapShape | ListShape | StructShape | DocumentShape

LEAF: Final = Leaf()
STRING: Final = Leaf(scalar="string")
NUMERIC: Final = Leaf(scalar="numeric")
BOOLEAN: Final = Leaf(scalar="boolean")
ANYTHING: Final = Leaf(typed=False)
_SCALARS: Final[dict[Any, Leaf]] = {str: STRING, bytes: STRING, int: NUMERIC, float: NUMERIC, bool: BOOLEAN}
"""Quantities and times are not here: any scalar passes for them, until they are parsed."""
_ATOMIC: Final = frozenset(
    {
        "ConfigMapKeySelector",
        "CrossVersionObjectReference",
        "EndpointAddress",
        "EndpointPort",
        "EvictionResponder",
        "FileKeySelector",
        "LabelSelector",
        "LocalObjectReference",
        "MatchResources",
        "NamedRuleWithOperations",
        "NodeSelector",
        "NodeSelectorTerm",
        "ObjectFieldSelector",
        "ObjectReference",
        "OwnerReference",
        "ParamKind",
        "ParamRef",
        "PersistentVolumeClaimSource",
        "ResourceFieldSelector",
        "RoleRef",
        "ScopeSelector",
        "SecretKeySelector",
        "SecretReference",
        "ServiceBackendPort",
        "Subject",
        "TopologySelectorTerm",
        "TypedLocalObjectReference",
        "Variable",
    }
)
_GRANULAR: Final = frozenset(
    {
        ("admissionregistration/v1alpha1", "Variable"),
        ("autoscaling/v2", "CrossVersionObjectReference"),
        ("flowcontrol/v1", "Subject"),
        ("flowcontrol/v1beta3", "Subject"),
        ("scheduling/v1alpha2", "TypedLocalObjectReference"),
        ("scheduling/v1alpha3", "TypedLocalObjectReference"),
        ("scheduling/v1beta1", "TypedLocalObjectReference"),
    }
)
"""Structs that lack Kubernetes' marker, although structs of their name in other packages have it."""
_EMPTY: Final[JSONObject] = {"string": "", "types.UID": "", "int32": 0, "int64": 0}


class _Shapes(dict[type[KubeStruct], Shape]):
    """The shapes of built-in types, each made when it is first read."""

    def __missing__(self, kind: type[KubeStruct]) -> Shape:
        # Types made at run time go with their definitions, so they are not kept here.
        own: Shape | None = kind.__dict__.get("shape")
        if own is not None:
            return own
        info = info_of(kind)
        made = StructShape(kind, atomic=info is not None and is_atomic(info.package, kind.__name__))
        return self.setdefault(kind, made)


struct_shape: Final[Callable[[type[KubeStruct]], Shape]] = _Shapes().__getitem__
"""The shape of a struct type; a type that was made at run time brings its own. Each write reads several."""


def is_atomic(package: str, name: str) -> bool:
    """Return True if apply replaces a struct as a whole. ``package`` is as ``core/v1``."""
    return name in _ATOMIC and (package, name) not in _GRANULAR


def _fields(kind: type[KubeStruct]) -> dict[str, Shape]:
    hints = typing.get_type_hints(kind)
    info = info_of(kind)
    known = info.fields if info is not None else {}
    return {name: _shape(hints[attribute], known.get(name)) for attribute, name in json_names(kind).items()}


def _shape(hint: Any, field_info: FieldInfo | None = None) -> Shape:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        inner = [argument for argument in arguments if argument is not type(None)]
        return _shape(inner[0], field_info) if len(inner) == 1 else LEAF
    if origin is tuple:
        return _list_shape(arguments[0], field_info)
    if origin is dict:
        return MapShape(_shape(arguments[1]), atomic=field_info is not None and field_info.map_type == "atomic")
    if hint is RawJSON or hint is Any:
        return ANYTHING
    if isinstance(hint, type) and issubclass(hint, KubeStruct):
        # The tag of the field overrides the type: the same struct may be one piece here and not there.
        if field_info is not None and (tag := field_info.struct_type or field_info.map_type):
            return StructShape(hint, atomic=tag == "atomic")
        return struct_shape(hint)
    return _SCALARS.get(hint, LEAF)


def _list_shape(element: Any, field_info: FieldInfo | None) -> ListShape:
    if field_info is None:
        return ListShape(_shape(element))
    return ListShape(
        element=_shape(element),
        list_type=field_info.list_type or "atomic",
        keys=field_info.list_map_keys,
        merges="merge" in field_info.patch_strategy,
        merge_key=field_info.patch_merge_key,
        defaults=_key_defaults(element, field_info.list_map_keys),
    )


def _key_defaults(element: Any, keys: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    """Return the values of keys that an element leaves out: the field's default, or the empty value if it is
    required."""
    info = info_of(element) if keys and isinstance(element, type) and issubclass(element, KubeStruct) else None
    if info is None:
        return ()
    defaults: list[tuple[str, Any]] = []
    for key in keys:
        field_info = info.fields.get(key)
        if field_info is not None and field_info.default:
            defaults.append((key, json.loads(field_info.default)))
        elif field_info is None or not (field_info.optional or field_info.omitempty):
            defaults.append((key, _EMPTY.get(field_info.go if field_info is not None else "", "")))
    return tuple(defaults)


def without_nulls(value: JSONValue, shape: Shape) -> Any:
    """Return values without explicit nulls, which mean absence; opaque parts are left as they are."""
    if isinstance(shape, Leaf):
        return value
    if isinstance(shape, ListShape):
        return [without_nulls(item, shape.element) for item in value] if isinstance(value, list) else value
    if not isinstance(value, dict):
        return value
    if isinstance(shape, MapShape):
        return {key: without_nulls(item, shape.value) for key, item in value.items()}
    fields = shape.fields
    return {
        # Most values are texts; they need no call.
        key: item if type(item) is str else without_nulls(item, fields.get(key, ANYTHING))
        for key, item in value.items()
        if item is not None
    }
