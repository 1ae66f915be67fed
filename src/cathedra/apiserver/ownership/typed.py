"""Values seen along their shape: their field set, what differs between two, one merged into another, parts removed.

The rules are those of structured merge: structs and maps are merged field by field, keyed lists element by element,
sets as sets, and what is atomic counts as one leaf.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.patches.schema import (
    ANYTHING,
    DocumentShape,
    Leaf,
    ListShape,
    MapShape,
    Shape,
    StructShape,
)

__all__ = ["Comparison", "TypedError", "check", "compare", "field_set", "merge", "remove"]

MISSING: Final[Any] = object()
"""No value at all, where None is an explicit null."""


class TypedError(ValueError):
    """A value does not fit its shape; the text begins with the path."""


@dataclass
class Comparison:
    """How a value differs from an older one."""

    added: FieldSet = field(default_factory=FieldSet)
    modified: FieldSet = field(default_factory=FieldSet)
    removed: FieldSet = field(default_factory=FieldSet)

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.added.empty and self.modified.empty and self.removed.empty

    def without(self, ignored: FieldSet) -> Comparison:
        """The same with everything at or below the ignored paths left out."""
        return Comparison(
            self.added.without_subtrees(ignored),
            self.modified.without_subtrees(ignored),
            self.removed.without_subtrees(ignored),
        )


# --- field sets ---------------------------------------------------------------------------------------------------


def field_set(value: Any, shape: Shape) -> FieldSet:
    """Every field that a value spells."""
    root = FieldSet()
    _collect(value, shape, root)
    root.member = False
    return root


def _collect(value: Any, shape: Shape, node: FieldSet) -> None:
    if _is_leaf(shape):
        node.member = True
    elif isinstance(shape, ListShape):
        if isinstance(value, list):
            for element, item in _elements(value, shape):
                child = node.children.setdefault(element, FieldSet())
                _collect(item, shape.element, child)
                child.member = True
    elif isinstance(value, dict):
        declared = isinstance(shape, (StructShape, DocumentShape))
        for key, item in value.items():
            child = node.children.setdefault(f"f:{key}", FieldSet())
            _collect(item, _field_shape(shape, key), child)
            if item is None or item == {} or not declared:
                child.member = True
            elif not child.member and not child.children:
                del node.children[f"f:{key}"]  # an empty keyed list: no node of a set is without members
    else:
        node.member = True


# --- comparison ---------------------------------------------------------------------------------------------------


def compare(old: Any, new: Any, shape: Shape) -> Comparison:
    """What was added, modified and removed from ``old`` to ``new``."""
    outcome = Comparison()
    _compare(old, new, shape, (), outcome)
    return outcome


def _compare(old: Any, new: Any, shape: Shape, path: tuple[str, ...], outcome: Comparison) -> None:
    if old is new or (old is not MISSING and old == new and _alike(old, new)):
        return
    if old is MISSING:
        _mark(new, shape, outcome.added.at(path))
        return
    pairs = None if _is_leaf(shape) else _pairs(old, new, shape)
    if pairs is None:
        _compare_leaf(old, new, path, outcome)
        return
    for element, below, before, after in pairs:
        _compare(before, after, below, (*path, element), outcome)
    if new is MISSING:
        outcome.removed.insert(path)


def _mark(value: Any, shape: Shape, node: FieldSet) -> None:
    """Enter a value that was not there before, with everything below. Most of what a new object costs is this."""
    node.member = True
    if _is_leaf(shape):
        return
    if isinstance(shape, ListShape):
        if isinstance(value, list):
            for element, below, _, item in _list_pairs([], value, shape):
                _mark(item, below, node.children.setdefault(element, FieldSet()))
    elif isinstance(value, dict):
        for key, item in value.items():
            child = node.children[f"f:{key}"] = FieldSet()
            _mark(item, _field_shape(shape, key), child)


def _alike(old: Any, new: Any) -> bool:
    """Whether equal values are of one type: a number and a truth can be equal and differ."""
    return type(old) is type(new)


def _compare_leaf(old: Any, new: Any, path: tuple[str, ...], outcome: Comparison) -> None:
    if new is MISSING:
        outcome.removed.insert(path)
    elif old != new:
        outcome.modified.insert(path)


def _pairs(old: Any, new: Any, shape: Shape) -> Iterator[tuple[str, Shape, Any, Any]] | None:
    """The elements of both sides; None if both are empty, and so a leaf."""
    if isinstance(shape, ListShape):
        before = old if isinstance(old, list) else []
        after = new if isinstance(new, list) else []
        if not before and not after:
            return None
        return _list_pairs(before, after, shape)
    before_map = old if isinstance(old, dict) else {}
    after_map = new if isinstance(new, dict) else {}
    if not before_map and not after_map:
        return None
    return (
        (f"f:{key}", _field_shape(shape, key), before_map.get(key, MISSING), after_map.get(key, MISSING))
        for key in dict.fromkeys((*before_map, *after_map))
    )


def _list_pairs(before: list[Any], after: list[Any], shape: ListShape) -> Iterator[tuple[str, Shape, Any, Any]]:
    old_items, new_items = dict(_elements(before, shape)), dict(_elements(after, shape))
    for element in dict.fromkeys((*old_items, *new_items)):
        yield element, shape.element, old_items.get(element, MISSING), new_items.get(element, MISSING)


# --- merging ------------------------------------------------------------------------------------------------------


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """``live`` with everything that ``applied`` spells."""
    if applied is MISSING:
        return live
    if live is MISSING or _is_leaf(shape):
        return applied
    if isinstance(shape, ListShape):
        if not isinstance(live, list) or not isinstance(applied, list):
            return applied
        return _merge_lists(live, applied, shape)
    if not isinstance(live, dict) or not isinstance(applied, dict):
        return applied
    merged = dict(live)
    for key, value in applied.items():
        merged[key] = merge(live.get(key, MISSING), value, _field_shape(shape, key))
    return merged


def _merge_lists(live: list[Any], applied: list[Any], shape: ListShape) -> list[Any]:
    """The applied order leads; elements that only live has stay where they were between the shared ones."""
    left, right = list(_elements(live, shape)), list(_elements(applied, shape))
    left_items, right_items = dict(left), dict(right)
    shared = [element for element, _ in right if element in left_items]
    merged: list[Any] = []
    done: set[str] = set()
    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right):
            element = left[i][0]
            if element == right[j][0]:
                done.add(element)
                merged.append(merge(left[i][1], right[j][1], shape.element))
                i, j = i + 1, j + 1
                shared = shared[1:]
                continue
            if element in right_items and shared and shared[0] != element:
                i += 1
                continue
        if i < len(left):
            element = left[i][0]
            if element not in right_items:
                merged.append(left[i][1])
                i += 1
                continue
            if element in done:
                i += 1
        if j < len(right):
            element, item = right[j]
            done.add(element)
            merged.append(merge(left_items.get(element, MISSING), item, shape.element))
            j += 1
            if shared and shared[0] == element:
                shared = shared[1:]
    return merged


# --- removal ------------------------------------------------------------------------------------------------------


def remove(value: Any, fields: FieldSet, shape: Shape) -> Any:
    """``value`` without the fields of a set."""
    if _is_leaf(shape) or not fields.children:
        return value
    if isinstance(shape, ListShape) and isinstance(value, list):
        kept = []
        for element, item in _elements(value, shape):
            below = fields.children.get(element)
            if below is None:
                kept.append(item)
            elif not below.member:
                kept.append(remove(item, below, shape.element))
        return kept
    if isinstance(value, dict):
        rest = {}
        for key, item in value.items():
            below = fields.children.get(f"f:{key}")
            if below is None:
                rest[key] = item
            elif not below.member:
                rest[key] = remove(item, below, _field_shape(shape, key))
        return rest
    return value


# --- checking -----------------------------------------------------------------------------------------------------


def check(value: Any, shape: Shape, path: str = "") -> list[str]:
    """What does not fit, as ``path: text`` lines; nothing if all fits."""
    if isinstance(shape, Leaf):
        wrong = _misfit(value, shape)
        return [f"{path or '.'}: {wrong}"] if wrong else []
    if value is None:
        return []
    if isinstance(shape, ListShape):
        return _check_list(value, shape, path)
    if not isinstance(value, dict):
        return [f"{path or '.'}: expected map, got &{{{_plain(value)}}}"]
    problems = []
    for key, item in value.items():
        if isinstance(shape, (StructShape, DocumentShape)) and key not in shape.fields:
            problems.append(f"{path}.{key}: field not declared in schema")
        else:
            problems.extend(check(item, _field_shape(shape, key), f"{path}.{key}"))
    return problems


def _misfit(value: Any, leaf: Leaf) -> str:
    """What is wrong with a value in the place of a scalar; nothing if it fits."""
    if value is None or not leaf.typed:
        return ""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if leaf.scalar == "string":
        fits = isinstance(value, str)
        return "" if fits else f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    if leaf.scalar == "numeric":
        return "" if number else f"expected numeric (int or float), got {_go_type(value)}"
    if leaf.scalar == "boolean":
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{_plain(value)}}}"
    return f"expected any scalar, got &{{{_plain(value)}}}" if isinstance(value, (dict, list)) else ""


def _check_list(value: Any, shape: ListShape, path: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{path}: expected list, got &{{{_plain(value)}}}"]
    problems: list[str] = []
    seen: set[str] = set()
    for position, item in enumerate(value):
        if shape.list_type == "atomic":
            problems.extend(check(item, shape.element, f"{path}[{position}]"))
            continue
        try:
            element = _element(item, shape)
        except TypedError as error:
            problems.append(f"{path}: element {position}: {error}")
            continue
        if element in seen:
            problems.append(f"{path}: duplicate entries for key {shown_element(element)}")
        seen.add(element)
        problems.extend(check(item, shape.element, f"{path}{shown_element(element)}"))
    return problems


# --- elements -----------------------------------------------------------------------------------------------------


def _is_leaf(shape: Shape) -> bool:
    if isinstance(shape, Leaf):
        return True
    if isinstance(shape, ListShape):
        return shape.list_type == "atomic"
    return shape.atomic


def _field_shape(shape: Shape, key: str) -> Shape:
    if isinstance(shape, MapShape):
        return shape.value
    if isinstance(shape, (StructShape, DocumentShape)):
        return shape.fields.get(key, ANYTHING)
    return ANYTHING


def _elements(items: list[Any], shape: ListShape) -> Iterator[tuple[str, Any]]:
    for item in items:
        yield _element(item, shape), item


def _element(item: Any, shape: ListShape) -> str:
    if shape.list_type == "set":
        return "v:" + _compact(item)
    if not isinstance(item, dict):
        raise TypedError("associative list with keys may not have non-map elements")
    defaults = dict(shape.defaults)
    keys: dict[str, Any] = {}
    for key in sorted(shape.keys):
        if key in item:
            keys[key] = item[key]
        elif key in defaults:
            keys[key] = defaults[key]
    if not keys:
        missing = ", ".join(f'"{key}"' for key in shape.keys)
        raise TypedError(
            f"associative list with keys has an element that omits key field {missing} (and doesn't have default value)"
        )
    return "k:" + _compact(keys)


def shown_element(element: str) -> str:
    """A path element as messages show it: ``.name``, ``[name="c"]``, ``["x"]``."""
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "k:":
        keys = json.loads(rest)
        return "[" + ",".join(f"{key}={_compact(value)}" for key, value in keys.items()) + "]"
    return f"[={rest}]"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _go_type(value: Any) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return "bool" if isinstance(value, bool) else "string"


def _go_syntax(value: Any) -> str:
    """A value as Go source would spell it."""
    if isinstance(value, dict):
        entries = ", ".join(f"{_compact(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{entries}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    return "interface {}(nil)" if value is None else _compact(value)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_plain(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
