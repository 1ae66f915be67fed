"""Values seen along their shape: their field set, one merged into another, parts removed.

The rules are those of structured merge: structs and maps are merged field by field, keyed lists element by element,
sets as sets, and what is atomic counts as one leaf.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from cathedra.api.decoding.reader import MOST_PROBLEMS, Place, place_text
from cathedra.api.jsonvalue import JSONObject, JSONValue
from cathedra.api.nesting import load_json
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.patches.schema import (
    ANYTHING,
    STRING,
    DocumentShape,
    Leaf,
    ListShape,
    MapShape,
    Shape,
    StructShape,
)

MISSING: Final[Any] = object()
"""No value at all, where None is an explicit null."""


class TypedError(ValueError):
    """A value does not fit its shape; the text begins with the path."""


# --- field sets ---------------------------------------------------------------------------------------------------


def field_set(value: JSONValue, shape: Shape) -> FieldSet:
    """Return the set of all fields of a value."""
    root = FieldSet()
    _collect(value, shape, root)
    root.member = False
    return root


def _collect(value: JSONValue, shape: Shape, node: FieldSet) -> None:
    if is_leaf(shape):
        node.member = True
    elif isinstance(shape, ListShape):
        if isinstance(value, list):
            for element, item in elements(value, shape):
                child = node.children.setdefault(element, FieldSet())
                _collect(item, shape.element, child)
                child.member = True
    elif isinstance(value, dict):
        declared = isinstance(shape, (StructShape, DocumentShape))
        for key, item in value.items():
            child = node.children.setdefault(f"f:{key}", FieldSet())
            inner = field_shape(shape, key)
            if type(inner) is Leaf:
                child.member = True  # as most fields are, without another call
                continue
            _collect(item, inner, child)
            if item is None or item == {} or not declared:
                child.member = True
            elif not child.member and not child.children:
                del node.children[f"f:{key}"]  # an empty keyed list: no node of a set is without members
    else:
        node.member = True


# --- merging ------------------------------------------------------------------------------------------------------


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """Return ``live`` with all fields of ``applied`` merged into it."""
    if applied is MISSING:
        return live
    if live is MISSING or is_leaf(shape):
        return applied
    if isinstance(shape, ListShape):
        if not isinstance(live, list) or not isinstance(applied, list):
            return applied
        return _merge_lists(live, applied, shape)
    if not isinstance(live, dict) or not isinstance(applied, dict):
        return applied
    merged = dict(live)
    for key, value in applied.items():
        # A text takes the place of whatever was there; most fields are texts.
        merged[key] = value if type(value) is str else merge(live.get(key, MISSING), value, field_shape(shape, key))
    return merged


def _merge_lists(live: list[Any], applied: list[Any], shape: ListShape) -> list[Any]:
    """Merge two lists in the order of ``applied``. Elements of ``live`` alone stay between the same shared ones."""
    left, right = list(elements(live, shape)), list(elements(applied, shape))
    left_items, right_items = dict(left), dict(right)
    shared = [element for element, _ in right if element in left_items]
    next_shared = 0  # the place of the first element of both that has not been reached yet
    merged: list[Any] = []
    done: set[str] = set()
    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right):
            element = left[i][0]
            if element == right[j][0]:
                done.add(element)
                merged.append(merge(left[i][1], right[j][1], shape.element))
                i, j, next_shared = i + 1, j + 1, next_shared + 1
                continue
            if element in right_items and next_shared < len(shared) and shared[next_shared] != element:
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
            if next_shared < len(shared) and shared[next_shared] == element:
                next_shared += 1
    return merged


# --- removal ------------------------------------------------------------------------------------------------------


def remove(value: JSONValue, fields: FieldSet, shape: Shape) -> Any:
    """``value`` without the fields of a set."""
    if is_leaf(shape) or not fields.children:
        return value
    if isinstance(shape, ListShape) and isinstance(value, list):
        kept = []
        for element, item in elements(value, shape):
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
                rest[key] = remove(item, below, field_shape(shape, key))
        return rest
    return value


# --- checking -----------------------------------------------------------------------------------------------------


def check(value: JSONValue, shape: Shape) -> list[str]:
    """Return the mismatches as ``path: text`` lines; none if all fits. Of many faults the first `MOST_PROBLEMS`."""
    problems: list[str] = []
    _check(value, shape, None, problems)
    return problems


def _check(value: JSONValue, shape: Shape, path: Place | None, problems: list[str]) -> None:
    if isinstance(shape, Leaf):
        wrong = _misfit(value, shape)
        if wrong:
            _note(problems, path, f": {wrong}")
        return
    if value is None:
        return
    if isinstance(shape, ListShape):
        _check_list(value, shape, path, problems)
        return
    if not isinstance(value, dict):
        _note(problems, path, f": expected map, got &{{{_plain(value)}}}")
        return
    declared = shape.fields if isinstance(shape, (StructShape, DocumentShape)) else None
    for key, item in value.items():
        if declared is not None and key not in declared:
            _note(problems, (path, f".{key}"), ": field not declared in schema")
            continue
        inner = field_shape(shape, key)
        if inner is STRING and type(item) is str:
            continue  # as most fields are
        _check(item, inner, (path, f".{key}"), problems)


def _note(problems: list[str], path: Place | None, text: str) -> None:
    """Add a problem, unless there are many already."""
    if len(problems) < MOST_PROBLEMS:
        problems.append(f".{place_text(path)}{text}")


def _misfit(value: JSONValue, leaf: Leaf) -> str:
    """Return why a value is not of the scalar's type; "" if it is."""
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


def _check_list(value: JSONValue, shape: ListShape, path: Place | None, problems: list[str]) -> None:
    if not isinstance(value, list):
        _note(problems, path, f": expected list, got &{{{_plain(value)}}}")
        return
    seen: set[str] = set()
    for position, item in enumerate(value):
        if shape.list_type == "atomic":
            _check(item, shape.element, (path, f"[{position}]"), problems)
            continue
        try:
            element = element_of(item, shape)
        except TypedError as error:
            _note(problems, path, f": element {position}: {error}")
            continue
        if element in seen:
            _note(problems, path, f": duplicate entries for key {shown_element(element)}")
        seen.add(element)
        _check(item, shape.element, (path, shown_element(element)), problems)


# --- elements -----------------------------------------------------------------------------------------------------


def is_leaf(shape: Shape) -> bool:
    """Return True if values of that shape count as one field."""
    if isinstance(shape, Leaf):
        return True
    if isinstance(shape, ListShape):
        return shape.list_type == "atomic"
    return shape.atomic


def field_shape(shape: Shape, key: str) -> Shape:
    """Return the shape of a field or of a map's value; `ANYTHING` if it is unknown."""
    if isinstance(shape, MapShape):
        return shape.value
    if isinstance(shape, (StructShape, DocumentShape)):
        return shape.fields.get(key, ANYTHING)
    return ANYTHING


def elements(items: list[Any], shape: ListShape) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list that is not atomic, each after its path element.

    Raises:
        TypedError: an item has none.
    """
    for item in items:
        yield element_of(item, shape), item


def element_of_text(key: str, value: str) -> str:
    """Return the path element of an item with one key, whose value is a text."""
    return f'k:{{"{key}":{_encode_fast(value).decode()}}}'


def element_of(item: JSONValue, shape: ListShape) -> str:
    """Return the path element of a list's item. Of an item with keys, only the keys need to be present.

    Raises:
        TypedError: it has none.
    """
    if shape.list_type == "set":
        return "v:" + _compact(item)
    if not isinstance(item, dict):
        raise TypedError("associative list with keys may not have non-map elements")
    if len(shape.keys) == 1:
        only = item.get(shape.keys[0])
        if type(only) is str:  # as in most lists
            return element_of_text(shape.keys[0], only)
    defaults = dict(shape.defaults)
    keys: JSONObject = {}
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
    """Return a path element as messages show it: ``.name``, ``[name="c"]``, ``["x"]``."""
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "k:":
        try:
            keys = load_json(rest)
        except (msgspec.DecodeError, ValueError):
            keys = None
        if not isinstance(keys, dict):
            return f"[{rest}]"
        return "[" + ",".join(f"{key}={_compact(value)}" for key, value in keys.items()) + "]"
    return f"[={rest}]"


def _compact(value: Any) -> str:
    """JSON without blanks."""
    # Most elements are found by texts or integers. The faster encoder writes only fractions in another form.
    kind = type(value)
    if kind is str or kind is int or (kind is dict and all(type(item) is str for item in value.values())):
        return _encode_fast(value).decode()
    return _encode(value)


_encode_fast: Final = msgspec.json.encode
_encode: Final[Callable[[Any], str]] = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _go_type(value: JSONValue) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return "bool" if isinstance(value, bool) else "string"


def _go_syntax(value: JSONValue) -> str:
    """Return a value in Go's syntax, as in messages of structured-merge-diff."""
    if isinstance(value, dict):
        entries = ", ".join(f"{_compact(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{entries}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    return "interface {}(nil)" if value is None else _compact(value)


def _plain(value: JSONValue) -> str:
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_plain(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
