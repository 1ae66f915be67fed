"""Objects of every kind in which lists and maps have as many entries as a test wants, made from the types alone."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from cathedra.api.struct import KubeStruct, MicroTime, Quantity, RawJSON, Time, json_names
from cathedra.kinds.definition import ResourceDefinition

__all__ = ["Part", "filled", "filled_whole", "parts_with_lists"]

Path = tuple[str | int, ...]
_TIMES = {Time: "2024-01-01T00:00:00Z", MicroTime: "2024-01-01T00:00:00.000000Z"}
_DEEPEST = 10
_DEEPEST_OF_WHOLE = 6
_NAMES: Mapping[str, str] = {
    "op": "Exists",
    "operator": "Exists",
    "effect": "NoExecute",
    "protocol": "TCP",
    "restartPolicy": "Always",
}
"""Values of fields that the rules read before all others."""
POD = {"containers": [{"name": "c", "image": "i"}]}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
_SPECS: Mapping[str, Any] = {
    "Pod": {"spec": POD},
    "PodTemplate": {"template": {"spec": POD}},
    "Deployment": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}},
    "Job": {"spec": {"template": _TEMPLATE}},
    "CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _TEMPLATE}}}},
}


@dataclass(frozen=True)
class Part:
    """A struct within the objects of a kind that has lists or maps: where it is, and the types of its lists."""

    definition: ResourceDefinition[Any]
    path: Path
    type: type[KubeStruct]
    fields: Mapping[str, Any]
    """JSON name → type of the list or map."""

    def __str__(self) -> str:
        return f"{self.definition.kind}.{'.'.join(map(str, self.path))}"


def parts_with_lists(definitions: tuple[ResourceDefinition[Any], ...]) -> list[Part]:
    """Each struct type once, in the kind where it lies nearest to the top; metadata of the first kind only."""
    nearest: dict[type[KubeStruct], Part] = {}
    for definition in definitions:
        for part in _parts(definition, definition.type, (), ()):
            known = nearest.get(part.type)
            if known is None or len(part.path) < len(known.path):
                nearest[part.type] = part
    return list(nearest.values())


def filled(part: Part, entries: int, *, first: int = 0, alike: bool = False) -> dict[str, Any]:
    """An object whose ``part`` has ``entries`` entries in each list and map, named by numbers from ``first`` on, or all
    ``alike``."""
    made = _with(_bare(part.definition), part.path, _content(part, entries, first, alike=alike))
    assert isinstance(made, dict)
    return made


def filled_whole(definition: ResourceDefinition[Any], entries: int, *, first: int = 0) -> dict[str, Any]:
    """An object with ``entries`` entries in each list and map of it, and of the first entry of each."""
    whole = _bare(definition)
    for part in _parts(definition, definition.type, (), ()):
        if len(part.path) <= _DEEPEST_OF_WHOLE:
            whole = _with(whole, part.path, _content(part, entries, first, alike=False))
    return whole


def _bare(definition: ResourceDefinition[Any]) -> dict[str, Any]:
    return {"metadata": {"name": "x", "namespace": "default"}, **_SPECS.get(definition.kind, {})}


def _content(part: Part, entries: int, first: int, *, alike: bool) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, hint in part.fields.items():
        element = _plain(typing.get_args(hint)[1 if typing.get_origin(hint) is dict else 0])
        if typing.get_origin(hint) is dict:
            content[name] = {f"k{number}": _value(element, number, name, 0) for number in range(first, first + entries)}
        elif alike:
            content[name] = [_value(element, first, name, 0)] * entries
        else:
            content[name] = [_value(element, number, name, 0) for number in range(first, first + entries)]
    return content


def _parts(
    definition: ResourceDefinition[Any], kind: type[KubeStruct], path: Path, above: tuple[type, ...]
) -> Iterator[Part]:
    if kind in above or len(path) > _DEEPEST:
        return
    lists: dict[str, Any] = {}
    for name, hint in _fields(kind):
        origin = typing.get_origin(hint)
        if origin is tuple or origin is dict:
            lists[name] = hint
            inner = _plain(typing.get_args(hint)[0 if origin is tuple else 1])
            step: Path = (name, 0) if origin is tuple else (name, "k")
        else:
            inner, step = hint, (name,)
        if _is_struct(inner):
            yield from _parts(definition, inner, path + step, (*above, kind))
    if lists:
        yield Part(definition, path, kind, lists)


@cache
def _fields(kind: type[KubeStruct]) -> tuple[tuple[str, Any], ...]:
    hints = typing.get_type_hints(kind)
    return tuple((name, _plain(hints[attribute])) for attribute, name in json_names(kind).items())


def _plain(hint: Any) -> Any:
    """The type itself of one that may be absent."""
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        return next(one for one in typing.get_args(hint) if one is not type(None))
    return hint


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, KubeStruct)


def _value(hint: Any, number: int, name: str, depth: int) -> Any:
    if hint is str:
        return _NAMES.get(name, f"n{number}")
    if hint is bool:
        return True
    if hint in {int, float}:
        return number
    if hint is Quantity:
        return str(number)
    if hint in _TIMES:
        return _TIMES[hint]
    if hint is RawJSON:
        return {"n": number}
    if hint is bytes:
        return "YQ=="
    if _is_struct(hint):
        return {} if depth else _struct(hint, number, depth)
    return [] if typing.get_origin(hint) is tuple and not depth else None


def _struct(kind: type[KubeStruct], number: int, depth: int) -> dict[str, Any]:
    values = ((name, _value(hint, number, name, depth + 1)) for name, hint in _fields(kind))
    return {name: value for name, value in values if value is not None and value != {}}


def _with(base: Any, path: Path, value: dict[str, Any]) -> Any:
    """``base`` with ``value`` added at a place, which is made if it is not there."""
    if not path:
        merged = {name: _joined((base or {}).get(name), content) for name, content in value.items()}
        return {**(base or {}), **merged}
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        before, *others = base or [{}]
        return [_with(before, rest, value), *others]
    return {**(base or {}), step: _with((base or {}).get(step), rest, value)}


def _joined(before: Any, content: Any) -> Any:
    """A list or map of an object, with more entries; its first entry keeps what it has."""
    if isinstance(content, dict):
        return {**content, **(before or {})}
    if not before:
        return content
    first = {**content[0], **before[0]} if isinstance(before[0], dict) else before[0]
    return [first, *content[1:]]
