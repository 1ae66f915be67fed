"""An apply configuration merged into an object without a manager, as mutating admission policies do it."""

from __future__ import annotations

from collections.abc import Iterator

from cathedra.api.field import shortened_text
from cathedra.api.jsonvalue import JSONObject, JSONValue
from cathedra.apiserver.ownership.typed import check, field_shape, is_leaf, merge
from cathedra.apiserver.patches.schema import ListShape, Shape

__all__ = ["NotApplicable", "apply_configuration"]


class NotApplicable(ValueError):
    """The configuration does not fit the kind, or would replace what is atomic."""


def apply_configuration(live: JSONObject, configuration: JSONObject, shape: Shape) -> JSONObject:
    """``live`` with everything that the configuration spells; both are plain values of one kind.

    Raises:
        NotApplicable: the configuration cannot be merged.
    """
    applied = {name: value for name, value in configuration.items() if name not in {"kind", "apiVersion"}}
    if problems := check(applied, shape):
        text = problems[0] if len(problems) == 1 else shortened_text("errors:\n  " + "\n  ".join(problems))
        raise NotApplicable(f"failed to convert patch object to typed object: {text}")
    if atomics := list(_atomics(applied, shape, "")):
        raise NotApplicable(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: " + ", ".join(atomics)
        )
    merged: JSONObject = merge(live, applied, shape)
    return merged


def _atomics(value: JSONValue, shape: Shape, path: str) -> Iterator[str]:
    """The paths of what is one piece: to set a part of it would remove all others."""
    if not isinstance(value, (dict, list)):
        return
    if is_leaf(shape):
        yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _atomics(inner, field_shape(shape, name), f"{path}.{name}")
    elif isinstance(shape, ListShape):
        for position, inner in enumerate(value):
            yield from _atomics(inner, shape.element, f"{path}[{position}]")
