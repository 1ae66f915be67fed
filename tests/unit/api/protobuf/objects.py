"""Random objects of any struct, for comparing forms of them."""

from __future__ import annotations

import types
import typing
from typing import Any

from hypothesis import strategies as st

from cathedra.api.struct import Int32, Int64, KubeStruct, MicroTime, Quantity, RawJSON, Time, json_names
from cathedra.api.typeinfo import type_info
from cathedra.releases import NEWEST
from cathedra.releases.fields import is_known

_DEPTH = 5
_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=6)
_SCHEMAS = st.fixed_dictionaries(
    {"type": st.sampled_from(["object", "string"])},
    optional={
        "maximum": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "maxLength": st.integers(0, 2**40),
        "nullable": st.just(True),
        "default": st.one_of(st.integers(0, 5), st.lists(_TEXTS, max_size=2)),
        "enum": st.lists(_TEXTS.map(lambda text: f"e{text}"), min_size=1, max_size=2),
        "items": st.just({"type": "string"}) | st.just([{"type": "string"}, {"type": "integer"}]),
        "additionalProperties": st.booleans() | st.just({"type": "string"}),
        "dependencies": st.just({"a": ["b"]}) | st.just({"a": {"type": "string"}}),
        "properties": st.just({"a": {"type": "object", "x-kubernetes-map-type": "atomic"}, "z": {"type": "string"}}),
        "x-kubernetes-validations": st.just([{"rule": "self.x", "message": "m"}]),
    },
)
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXTS,
    bytes: st.binary(max_size=4),
    bool: st.booleans(),
    int: st.integers(-(2**31), 2**31 - 1),
    Int32: st.integers(-(2**31), 2**31 - 1),
    Int64: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    Time: st.integers(-(2**30), 2**33).map(Time),
    MicroTime: st.integers(-(2**50), 2**52).map(MicroTime.of_micros),
    Quantity: st.sampled_from(["0", "1", "500m", "64Gi", "1e3", "-2", "1500M"]).map(Quantity),
    RawJSON: st.sampled_from([b'{"a":1}', b"[1, 2]", b'"text"']).map(RawJSON),
}


def objects(kind: type[KubeStruct]) -> st.SearchStrategy[Any]:
    """Objects of that type; parts below a few levels are empty."""
    return _objects(kind, _DEPTH)


def _objects(kind: Any, depth: int) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    parts = {
        name: _values(hint, depth - 1, name, kind)
        for name, hint in hints.items()
        if name not in {"kind", "api_version"} and is_known(kind.__name__, json_names(kind)[name], NEWEST)
    }
    # Most fields stay empty, as in real objects; each example fills a few.
    return st.fixed_dictionaries({}, optional=parts).map(lambda values: kind(**values))


def _values(hint: Any, depth: int, name: str, owner: Any) -> st.SearchStrategy[Any]:
    if owner.__name__ == "CustomResourceValidation":
        return _SCHEMAS.map(_in_wire_order).map(RawJSON.of)
    if owner.__name__ == "CustomResourceSubresources" and name == "status":
        return st.just(RawJSON(b"{}"))
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        choices = [part for part in typing.get_args(hint) if part is not types.NoneType]
        return st.one_of([_values(choice, depth, name, owner) for choice in choices])
    if hint in _SCALARS:
        return _SCALARS[hint]
    if typing.get_origin(hint) is tuple:
        elements = _values(typing.get_args(hint)[0], depth, name, owner)
        return st.lists(elements, min_size=1, max_size=2).map(tuple)
    if typing.get_origin(hint) is dict:
        return st.dictionaries(_TEXTS, _values(typing.get_args(hint)[1], depth, name, owner), min_size=1, max_size=3)
    if depth <= 0:
        return st.builds(hint)
    return st.deferred(lambda: _objects(hint, depth))


def _in_wire_order(schema: dict[str, Any]) -> dict[str, Any]:
    """Fields in the order of their numbers, in which a message gives them back."""
    fields = type_info("apiextensions/v1", "JSONSchemaProps").fields
    return {name: schema[name] for name in sorted(schema, key=lambda name: fields[name].number)}
