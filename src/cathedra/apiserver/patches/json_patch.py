"""JSON patch (RFC 6902) as the Go library carries it out that Kubernetes uses (docs/spec/apimachinery.md §6.2).

Its leniency is kept: replacing a missing key adds it, an operation without a value puts null, testing what is not there
against null succeeds, negative indices count from the end. So are its limits: what ``copy`` adds may have the size of a
request body in all. No operation recurses, and what moving elements within lists costs is bounded, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.api.nesting import NestingError, check_value_nesting

__all__ = ["COPY_LIMIT", "JSONPatchError", "PatchTestFailed", "json_patch", "malformed_operation"]

COPY_LIMIT: Final = 3 * 1024 * 1024
"""Bytes of JSON that all copies of a patch may add."""
_SHIFT_LIMIT: Final = 500_000_000
"""Elements of lists that the insertions and removals of a patch may shift: about a second of work."""
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class JSONPatchError(ValueError):
    """An operation cannot be carried out."""


class PatchTestFailed(JSONPatchError):
    """An operation ``test`` found another value."""


def malformed_operation(operations: Sequence[Any]) -> str:
    """Why the operations cannot be decoded, in the words of Go's decoder; "" if they can."""
    for operation in operations:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            return f"json: cannot unmarshal {_go_kind(operation)} into Go value of type handlers.jsonPatchOp"
        for name in ("op", "path", "from"):
            found = operation.get(name)
            if found is not None and not isinstance(found, str):
                kind = _go_kind(found)
                return f"json: cannot unmarshal {kind} into Go struct field jsonPatchOp.{name} of type string"
    return ""


def _go_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def json_patch(target: Any, operations: Sequence[Any]) -> Any:
    """``target`` after all operations; neither it nor the operations are changed.

    Raises:
        JSONPatchError: an operation fails, or a limit is exceeded; none counts.
    """
    patching = _Patching(_copied(target))
    for operation in operations:
        patching.apply(operation if isinstance(operation, dict) else {})
    try:
        check_value_nesting(patching.document)
    except NestingError as error:
        raise JSONPatchError(str(error)) from error
    return patching.document


def _copied(value: Any) -> Any:
    """A copy that shares nothing that could change. By way of JSON, which is several times faster than `copy`."""
    return msgspec.json.decode(msgspec.json.encode(value)) if isinstance(value, (dict, list)) else value


class _Patching:
    """A document between the operations of one patch."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._copied = 0
        self._shifted = 0

    def apply(self, operation: JSONObject) -> None:
        """Carry out one operation on the document.

        Raises:
            JSONPatchError: it fails.
        """
        op = operation.get("op")
        path = operation.get("path")
        if not isinstance(path, str):
            raise JSONPatchError(f"{op} operation failed to decode path: missing value")
        if op == "add":
            self._add(path, _copied(operation.get("value")))
        elif op == "remove":
            self._remove(path)
        elif op == "replace":
            self._replace(path, _copied(operation.get("value")))
        elif op == "test":
            self._test(path, operation)
        elif op in ("move", "copy"):
            origin = operation.get("from")
            if not isinstance(origin, str):
                raise JSONPatchError(f"{op} operation failed to decode from: missing value")
            self._move(origin, path) if op == "move" else self._copy(origin, path)
        else:
            raise JSONPatchError(f"Unexpected kind: {op}")

    def _holder(self, path: str) -> tuple[Any, str]:
        """The object or list that a path's last part is in, and that part."""
        first, *parts = path.split("/")
        del first  # what stands before the first slash does not count
        if not parts:
            raise JSONPatchError(f'doc is missing path: "{path}": missing value')
        holder = self.document
        for part in parts[:-1]:
            try:
                holder = _get(holder, _decoded(part))
            except JSONPatchError:
                holder = None
            if not isinstance(holder, (dict, list)):
                raise JSONPatchError(f'doc is missing path: "{path}": missing value')
        return holder, _decoded(parts[-1])

    def _add(self, path: str, value: Any) -> None:
        holder, key = self._holder(path)
        if isinstance(holder, dict):
            holder[key] = value
        elif key == "-":
            holder.append(value)
        else:
            position = _position(key, len(holder) + 1)
            self._shift(len(holder) - position)
            holder.insert(position, value)

    def _remove(self, path: str) -> None:
        holder, key = self._holder(path)
        if isinstance(holder, list):
            position = _position(key, len(holder))
            self._shift(len(holder) - position)
            del holder[position]
        elif key in holder:
            del holder[key]
        else:
            raise JSONPatchError(f"Unable to remove nonexistent key: {key}: missing value")

    def _replace(self, path: str, value: Any) -> None:
        if not path:
            if not isinstance(value, (dict, list)):
                raise JSONPatchError("replace operation value must be object or array")
            self.document = value
            return
        holder, key = self._holder(path)
        if isinstance(holder, dict):
            holder[key] = value
        else:
            holder[_position(key, len(holder))] = value

    def _test(self, path: str, operation: JSONObject) -> None:
        wanted = operation.get("value")
        if not path:
            found = self.document
        else:
            holder, key = self._holder(path)
            found = _get(holder, key)
        if not _equal(found, wanted):
            raise PatchTestFailed(f"testing value {path} failed: test failed")

    def _move(self, origin: str, path: str) -> None:
        holder, key = self._holder(origin)
        value = _get(holder, key)
        self._remove(origin)
        self._add(path, value)

    def _copy(self, origin: str, path: str) -> None:
        holder, key = self._holder(origin)
        value = _get(holder, key)
        if value is not None:
            try:
                check_value_nesting(value)
            except NestingError as error:
                raise JSONPatchError(str(error)) from error
            text = msgspec.json.encode(value)
            self._copied += len(text)
            if self._copied > COPY_LIMIT:
                raise JSONPatchError(
                    f"Unable to complete the copy, the accumulated size increase of copy is {self._copied}, "
                    f"exceeding the limit {COPY_LIMIT}"
                )
            value = msgspec.json.decode(text)
        self._add(path, value)

    def _shift(self, elements: int) -> None:
        self._shifted += elements
        if self._shifted > _SHIFT_LIMIT:
            raise JSONPatchError(f"the patch shifts more than {_SHIFT_LIMIT} elements of lists")


def _decoded(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _get(holder: Any, key: str) -> Any:
    """What is there; None where an object does not have the key, as the library answers."""
    if isinstance(holder, dict):
        return holder.get(key)
    if isinstance(holder, list):
        return holder[_position(key, len(holder))]
    raise JSONPatchError(f"{key} is not there")


def _position(key: str, end: int) -> int:
    """The place in a list of ``end`` places that an index names."""
    if not _INDEX.fullmatch(key):
        raise JSONPatchError(f"value was not a proper array index: '{key}'")
    index = int(key)
    position = index + end if index < 0 else index
    if not 0 <= position < end:
        raise JSONPatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return position


def _equal(found: Any, wanted: Any) -> bool:
    """Whether values are spelled alike: a truth and a number, ``1`` and ``1.0`` are not."""
    if type(found) is not type(wanted):
        return False
    if isinstance(found, dict):
        return found.keys() == wanted.keys() and all(_equal(item, wanted[key]) for key, item in found.items())
    if isinstance(found, list):
        return len(found) == len(wanted) and all(map(_equal, found, wanted))
    return bool(found == wanted)
