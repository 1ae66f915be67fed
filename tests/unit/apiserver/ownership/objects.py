"""Random objects of every kind, drawn from the types of their structs, so that an added field is drawn as well."""

from __future__ import annotations

from functools import cache
from random import Random
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from cathedra.api.struct import KubeStruct, MicroTime, Quantity, RawJSON, Time, replace
from cathedra.apiserver.patches.schema import StructShape, struct_shape
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates

TEXTS = ("a", "b", "a/b", 'c"ü', "")
DEEPEST = 9
SCALARS: dict[Any, tuple[Any, ...]] = {
    bool: (False, True),
    int: (0, 1, 2),
    float: (0.5, 1.0),
    str: TEXTS,
    bytes: (b"", b"a"),
    Quantity: tuple(map(Quantity, ("0", "1", "1000m", "1024Mi", "1Gi"))),
    Time: (Time(0), Time(10**6)),
    MicroTime: (MicroTime(0), MicroTime(10**6)),
    RawJSON: tuple(map(RawJSON.of, ({}, {"a": 1}, {"a": [1.0]}))),
    NoneType: (None,),
}


def kinds() -> list[type[KubeStruct]]:
    """Return the types of all served versions of all built-in kinds."""
    served = {
        version.type: None
        for definition in all_definitions(FeatureGates.for_release())
        for version in definition.versions
        if type(struct_shape(version.type)) is StructShape
    }
    return list(served)


def random_object(kind: type[KubeStruct], random: Random, depth: int = 0) -> Any:
    """Return an object in which some of the fields are set."""
    chance = 0.5 if depth < 3 else 0.25
    hints = _hints(kind)
    return kind(
        **{
            name: _value(hints[name], random, depth + 1)
            for name in kind.__struct_fields__
            if random.random() < chance and depth < DEEPEST
        }
    )


def changed_object(obj: Any, random: Random, depth: int = 0) -> Any:
    """Return an object that differs from ``obj`` in a few fields, at any depth."""
    changes: dict[str, Any] = {}
    for name, hint in _hints(type(obj)).items():
        value = getattr(obj, name)
        if random.random() < 0.3:
            changes[name] = changed_value(value, random, depth)
        elif random.random() < 0.1:
            changes[name] = getattr(type(obj)(), name) if random.random() < 0.5 else _value(hint, random, depth + 1)
    return replace(obj, **changes) if changes else obj


def changed_value(value: Any, random: Random, depth: int) -> Any:
    """Return a value that differs from ``value`` in some of its parts."""
    if isinstance(value, KubeStruct):
        return changed_object(value, random, depth + 1)
    if type(value) is tuple and value:
        kept = [changed_value(item, random, depth + 1) if random.random() < 0.5 else item for item in value]
        return tuple(kept[: random.randint(0, len(kept))]) if random.random() < 0.3 else tuple(kept)
    if type(value) is dict and value:
        return {key: changed_value(item, random, depth + 1) for key, item in value.items() if random.random() < 0.7}
    return value


@cache
def _hints(kind: type[KubeStruct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _value(hint: Any, random: Random, depth: int) -> Any:
    if hint in SCALARS:
        return random.choice(SCALARS[hint])
    origin, parameters = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _value(parameters[0], random, depth)
    if origin in (Union, UnionType):
        return _value(random.choice(parameters), random, depth)
    if origin is tuple:
        return tuple(_value(parameters[0], random, depth) for _ in range(random.randint(0, 3)))
    if origin is dict:
        return {random.choice(TEXTS): _value(parameters[1], random, depth) for _ in range(random.randint(0, 3))}
    if isinstance(hint, type) and issubclass(hint, KubeStruct):
        return random_object(hint, random, depth)
    raise TypeError(f"no values are drawn of {hint}")
