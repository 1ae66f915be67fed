"""Objects drawn from the types of their own structs, so that a field that is added is drawn as well."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from cathedra.api.struct import KubeStruct, MicroTime, Quantity, RawJSON, Time, replace

TEXTS = ("", "a", "b", "A", "a/b", "gpu.example.com", "*", "5b9b9b0e-8f4c-4c55-9f5d-1b7f5a9b0c11")
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-1, 3),
    str: st.sampled_from(TEXTS),
    bytes: st.sampled_from((b"", b"a")),
    Quantity: st.sampled_from(("0", "1", "1000m", "2Gi")).map(Quantity),
    Time: st.sampled_from((0.0, 1.0)).map(Time),
    MicroTime: st.sampled_from((0.0, 1.0)).map(MicroTime),
    RawJSON: st.sampled_from(({}, {"a": 1})).map(RawJSON.of),
    NoneType: st.none(),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Draw a value of a field's type."""
    if hint in SCALARS:
        return SCALARS[hint]
    origin, parameters = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return values_of(parameters[0])
    if origin in (Union, UnionType):
        return st.one_of(*map(values_of, parameters))
    if origin is tuple:
        return st.lists(values_of(parameters[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(values_of(parameters[0]), values_of(parameters[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, KubeStruct):
        return st.deferred(lambda: st.fixed_dictionaries(_fields(hint)).map(lambda values: hint(**values)))
    raise TypeError(f"no values are drawn of {hint}")


def variants_of(struct: KubeStruct) -> st.SearchStrategy[Any]:
    """Draw objects that differ from ``struct`` in one field, at any depth; or in none."""
    hints = get_type_hints(type(struct), include_extras=True)
    changes = [st.just(struct)]
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        changes.append(_changed(struct, name, values_of(hints[name])))
        if isinstance(value, KubeStruct):
            changes.append(_changed(struct, name, variants_of(value)))
        if isinstance(value, tuple) and value and isinstance(value[0], KubeStruct):
            rest = value[1:]
            changes.append(_changed(struct, name, variants_of(value[0]).map(lambda first, rest=rest: (first, *rest))))
    return st.one_of(changes)


def _changed(struct: KubeStruct, name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values.map(lambda value: replace(struct, **{name: value}))


def _fields(kind: type[KubeStruct]) -> dict[str, st.SearchStrategy[Any]]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: values_of(hints[name]) for name in kind.__struct_fields__}
