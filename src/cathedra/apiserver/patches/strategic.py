"""Strategic merge patch: like merge patch, but lists with a merge key merge element by element.

Directives inside the patch (``$patch``, ``$retainKeys``, ``$setElementOrder/…``, ``$deleteFromPrimitiveList/…``) do the
rest (docs/spec/apimachinery.md §6.4). Kubernetes turns the patched map into an object by a converter of its own,
whose texts differ from those of its JSON decoder (`unrestorable`).
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from cathedra.api.decoding.gotypes import GoType, ValueForm
from cathedra.api.jsonvalue import JSONValue
from cathedra.apiserver.patches.schema import LEAF, DocumentShape, ListShape, MapShape, Shape, StructShape

PATCH: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
SET_ORDER: Final = "$setElementOrder/"
DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"


class StrategicPatchError(ValueError):
    """A directive or a list element cannot be understood. Kubernetes answers 500, as to an error of its own."""


class PatchFormatError(StrategicPatchError):
    """A directive does not have the form that it must have: 400."""


class ListOfListsError(StrategicPatchError):
    """Lists of lists cannot be merged: 422."""

    def __init__(self) -> None:
        super().__init__("lists of lists are not supported")


def strategic_patch(original: dict[str, Any], patch: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """Return ``original`` with ``patch`` merged in; neither is changed.

    Raises:
        StrategicPatchError: the patch cannot be understood.
    """
    return _merge_map(original, patch, shape)


def _merge_map(original: dict[str, Any], patch: dict[str, Any], shape: Shape) -> dict[str, Any]:
    patch = dict(patch)  # directives are taken out of it
    if PATCH in patch:
        directive = patch[PATCH]
        if directive not in ("replace", "delete", "merge"):
            raise StrategicPatchError(f"unknown patch type: {_go_value(directive)} in map: {go_map(patch)}")
        del patch[PATCH]
        # The rest of the map is taken as it is: with «replace» it is the new value.
        if directive != "merge":
            return patch if directive == "replace" else {}
    merged = dict(original)
    _retain_keys(merged, patch)
    _ordered_lists(merged, patch, shape)
    for key, value in patch.items():
        if key.startswith(DELETE_PRIMITIVES):
            name = key.removeprefix(DELETE_PRIMITIVES)
            if not isinstance(value, list):
                raise PatchFormatError("invalid patch format of primitive list")
            if isinstance(merged.get(name), list):
                deleted = {_hashable(item) for item in value}
                merged[name] = [item for item in merged[name] if _hashable(item) not in deleted]
            continue
        # Null removes the field. Storing it would make the next patch see a value.
        if value is None:
            merged.pop(key, None)
            continue
        # A new value is merged with nothing, but its nulls and directives must not be stored.
        merged[key] = _merged_value(merged.get(key), value, _field(shape, key)) if key in merged else _clean(value)
    return merged


def _merged_value(original: Any, value: JSONValue, shape: Shape) -> Any:
    if isinstance(original, dict) and isinstance(value, dict):
        return _merge_map(original, value, shape)
    if isinstance(original, list) and isinstance(value, list) and isinstance(shape, ListShape) and shape.merges:
        return _merge_list(original, value, shape)
    return value


def _clean(value: JSONValue) -> Any:
    """Return a new value without nulls and directives."""
    if isinstance(value, dict):
        if value.get(PATCH) == "delete":
            return {}
        return {
            key: _clean(item)
            for key, item in value.items()
            if item is not None
            and key not in {PATCH, RETAIN_KEYS}
            and not key.startswith((SET_ORDER, DELETE_PRIMITIVES))
        }
    if isinstance(value, list):
        return [_clean(item) for item in value if not (isinstance(item, dict) and item.get(PATCH) == "delete")]
    return value


def _field(shape: Shape, key: str) -> Shape:
    if isinstance(shape, (StructShape, DocumentShape)):
        return shape.fields.get(key, LEAF)
    if isinstance(shape, MapShape):
        return shape.value
    return LEAF


def _retain_keys(merged: dict[str, Any], patch: dict[str, Any]) -> None:
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    if not isinstance(retained, list):
        raise PatchFormatError("invalid patch format of retainKeys")
    # Other values are ignored: Go's type assertion skips them as well.
    kept = {item for item in retained if isinstance(item, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith((SET_ORDER, DELETE_PRIMITIVES)) and key not in kept:
            raise PatchFormatError("invalid patch format of retainKeys")
    # Keys are collected first; a dictionary must not change while it is iterated.
    for key in [key for key in merged if key not in kept]:
        del merged[key]


def _ordered_lists(merged: dict[str, Any], patch: dict[str, Any], shape: Shape) -> None:
    for directive in [key for key in patch if key.startswith(SET_ORDER)]:
        order = patch.pop(directive)
        name = directive.removeprefix(SET_ORDER)
        listed = _field(shape, name)
        original, wanted = merged.get(name), patch.get(name)
        if not isinstance(listed, ListShape) or not isinstance(order, list):
            continue
        if isinstance(original, list) and isinstance(wanted, list):
            both = _merge_list(original, wanted, listed) if listed.merges else wanted
        elif isinstance(wanted, list):
            both = _clean(wanted)
        elif isinstance(original, list):
            both = original
        else:
            continue
        # The list is finished here; merging it again below would undo the order.
        patch.pop(name, None)
        ordered, others = _partitioned(both, order, listed)
        merged[name] = _interleave(others, ordered, original if isinstance(original, list) else [], listed)


def _merge_list(original: list[Any], patch: list[Any], shape: ListShape) -> list[Any]:
    if not original and not patch:
        return original
    if not all(isinstance(item, dict) for item in (*original, *patch)):
        return _merge_primitives(original, patch, shape)
    if not shape.merge_key:
        raise StrategicPatchError("cannot merge lists without merge key for type map")
    original, plain = _list_directives(original, patch, shape)
    if plain is None:
        return original
    merged = list(original)
    places = _places(merged, shape)
    for item in plain:
        identity = _required_identity(item, shape)
        position = places.get(identity)
        if position is None:
            places[identity] = len(merged)
            merged.append(_clean(item))
        else:
            # The first element of that key only, as in Kubernetes: duplicates in the stored list stay.
            merged[position] = _merge_map(merged[position], item, shape.element)
    patched, others = _partitioned(merged, plain, shape)
    return _interleave(others, patched, original, shape)


def _places(items: list[Any], shape: ListShape) -> dict[Any, int]:
    """Return the first position of each identity."""
    places: dict[Any, int] = {}
    for position, item in enumerate(items):
        places.setdefault(_identity(item, shape), position)
    return places


def _partitioned(items: list[Any], order: list[Any], shape: ListShape) -> tuple[list[Any], list[Any]]:
    """Return the items in ``order``, in its order, and the others."""
    places = _places(order, shape)
    named = [item for item in items if _identity(item, shape) in places]
    named.sort(key=lambda item: places[_identity(item, shape)])
    return named, [item for item in items if _identity(item, shape) not in places]


def _merge_primitives(original: list[Any], patch: list[Any], shape: ListShape) -> list[Any]:
    if any(isinstance(item, list) for item in (*original, *patch)):
        raise ListOfListsError
    if any(item is None for item in (*original, *patch)):
        raise PatchFormatError("invalid patch format of primitive list")
    kinds = {type(item) for item in (*original, *patch)}
    if len(kinds) > 1 or dict in kinds:
        raise StrategicPatchError(f"list element types are not identical: {_go_value(patch)}")
    wanted = dict.fromkeys(patch)
    # ``dict.fromkeys`` removes duplicates and keeps the order; a set would lose it.
    others = [item for item in dict.fromkeys(original) if item not in wanted]
    return _interleave(others, list(wanted), original, shape)


def _list_directives(
    original: list[Any], patch: list[Any], shape: ListShape
) -> tuple[list[Any], list[dict[str, Any]] | None]:
    """Return the list after deletions, and the elements to merge; None if the patch replaces the list."""
    plain: list[dict[str, Any]] = []
    deleted: set[Any] = set()
    replaced = False
    for item in patch:
        directive = item.get(PATCH)
        # Collected first: a replacement anywhere in the patch makes all deletions void.
        if directive is None:
            plain.append(item)
        elif directive == "delete":
            deleted.add(_required_identity(item, shape))
        elif directive == "replace":
            replaced = True
        elif directive == "merge":
            raise StrategicPatchError("merging lists cannot yet be specified in the patch")
        else:
            raise StrategicPatchError(f"unknown patch type: {_go_value(directive)} in map: {go_map(item)}")
    if deleted:
        original = [present for present in original if _identity(present, shape) not in deleted]
    return (plain, None) if replaced else (original, plain)


def _identity(item: JSONValue, shape: ListShape) -> Any:
    return _hashable(item.get(shape.merge_key) if isinstance(item, dict) else item)


def _hashable(value: JSONValue) -> Any:
    """Return a hashable key that equal values share; true and 1 are different, lists and maps compare by their JSON."""
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value, order="sorted")
    return type(value), value


def _required_identity(item: dict[str, Any], shape: ListShape) -> Any:
    if shape.merge_key not in item:
        raise StrategicPatchError(f"map: {go_map(item)} does not contain declared merge key: {shape.merge_key}")
    return _identity(item, shape)


def _interleave(others: list[Any], patched: list[Any], order: list[Any], shape: ListShape) -> list[Any]:
    """Merge two lists: two elements of the original list keep their order; otherwise those of the patch come first."""
    places = _places(order, shape)

    def place(item: JSONValue) -> int:
        return places.get(_identity(item, shape), -1)

    result: list[Any] = []
    left, right = deque((place(item), item) for item in others), deque((place(item), item) for item in patched)
    while left and right:
        first, second = left[0][0], right[0][0]
        # Elements that the stored list does not have yet go to the front of what is left.
        source = left if first >= 0 and second >= 0 and first < second else right
        result.append(source.popleft()[1])
    return [*result, *(item for _, item in left), *(item for _, item in right)]


def go_map(value: dict[str, Any]) -> str:
    """Return a map in Go's format, with sorted keys: ``map[a:1 b:2]``."""
    return f"map[{' '.join(f'{key}:{_go_value(value[key])}' for key in sorted(value))}]"


def _go_value(value: JSONValue) -> str:
    if isinstance(value, dict):
        return go_map(value)
    if isinstance(value, list):
        return f"[{' '.join(_go_value(item) for item in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


# --- maps that cannot become objects --------------------------------------------------------------------------------


_KINDS: Final = {str: "string", bool: "bool", int: "int64", float: "float64", dict: "map", list: "slice"}
_GO_KINDS: Final = {
    ValueForm.STRING: "string",
    ValueForm.BOOL: "bool",
    ValueForm.FLOAT: "float64",
}
_OWN_DECODERS: Final = frozenset(
    {
        ValueForm.QUANTITY,
        ValueForm.TIME,
        ValueForm.MICRO_TIME,
        ValueForm.DURATION,
        ValueForm.INT_OR_STRING,
        ValueForm.OPAQUE,
    }
)


def unrestorable(value: JSONValue, shape: GoType) -> str:
    """Return the text of the first value that does not fit; "" if the text of the JSON decoder applies."""
    if value is None or shape.form in _OWN_DECODERS:
        return ""
    kind = _KINDS[type(value)]
    if shape.form is ValueForm.STRUCT:
        if not isinstance(value, dict):
            return f"cannot restore struct from: {kind}"
        return _first(unrestorable(value.get(name), inner) for name, inner in shape.fields.items())
    if shape.form is ValueForm.MAP:
        if not isinstance(value, dict):
            return f"cannot restore map from {kind}"
        element = shape.element
        return _first(unrestorable(item, element) for item in value.values()) if element else ""
    if shape.form is ValueForm.LIST:
        if not isinstance(value, list):
            return f"cannot restore slice from {kind}"
        element = shape.element
        return _first(unrestorable(item, element) for item in value) if element else ""
    return _scalar(value, kind, shape)


def _first(problems: Any) -> str:
    return next((problem for problem in problems if problem), "")


def _scalar(value: JSONValue, kind: str, shape: GoType) -> str:
    if shape.form is ValueForm.BYTES:
        return "" if isinstance(value, str) else f"cannot restore slice from {kind}"
    wanted = _GO_KINDS.get(shape.form, f"int{shape.bits}")
    if isinstance(value, (dict, list)):
        return f"unrecognized type: {wanted}"
    if shape.form is ValueForm.STRING:
        if isinstance(value, str):
            return ""
        # Go calls whole numbers convertible to text, and then refuses them one by one.
        return f"cannot convert {kind} to {shape.name}" if kind == "int64" else "unrecognized type: string"
    if shape.form is ValueForm.BOOL:
        return "" if isinstance(value, bool) else "unrecognized type: bool"
    if isinstance(value, (bool, str)):
        return f"unrecognized type: {wanted}"
    if isinstance(value, float) and shape.form is ValueForm.INTEGER and not value.is_integer():
        return f"cannot convert {kind} to {shape.name}"
    return ""
