"""JSON patch (RFC 6902) as the Go library carries it out that Kubernetes uses (docs/spec/apimachinery.md §6.2).

Its leniency is kept: replacing a missing key adds it, an operation without a value puts null, testing what is not there
against null succeeds, negative indices count from the end. So are its limits: what ``copy`` adds may have the size of a
request body in all. No operation recurses, and what moving elements within lists costs is bounded, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from cathedra.api.goquote import go_quote
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.nesting import NestingError, check_value_nesting

COPY_LIMIT: Final = 3 * 1024 * 1024
"""Bytes of JSON that all copies of a patch may add."""
_SHIFT_LIMIT: Final = 500_000_000
"""Elements of lists that the insertions and removals of a patch may shift: about a second of work."""
_INDEX: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LONGEST_INDEX: Final = 18
_NO_PATH: Final = "operation failed to decode path: operation missing path field: missing value"
_NO_ORIGIN: Final = "operation failed to decode from: operation, missing from field: missing value"


class JSONPatchError(ValueError):
    """An operation cannot be carried out."""


class PatchTestFailed(JSONPatchError):
    """An operation ``test`` found another value."""


class _NotAnIndex(JSONPatchError):
    """A key in a list is no number."""


def malformed_operation(operations: Sequence[Any]) -> str:
    """Return Go's decoding error of the operations; "" if they can be decoded."""
    # Strictly in order: each operation sees the result of those before it.
    for operation in operations:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            return f"json: cannot unmarshal {go_kind(operation)} into Go value of type handlers.jsonPatchOp"
        for name in ("op", "path", "from"):
            found = operation.get(name)
            if found is not None and not isinstance(found, str):
                kind = go_kind(found)
                return f"json: cannot unmarshal {kind} into Go struct field jsonPatchOp.{name} of type string"
    return ""


def go_kind(value: Any) -> str:
    """Return the kind of a JSON value, in the words of Go's decoder."""
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def json_patch(target: Any, operations: Sequence[Any]) -> Any:
    """Return ``target`` after all operations; neither it nor the operations are changed.

    Raises:
        JSONPatchError: an operation fails, or a limit is exceeded.
    """
    # A copy: a patch that fails in the middle must leave the stored object untouched.
    patching = _Patching(_copied(target))
    for operation in operations:
        patching.apply(operation if isinstance(operation, dict) else {})
    try:
        check_value_nesting(patching.document)
    except NestingError as error:
        raise JSONPatchError(str(error)) from error
    return patching.document


def _copied(value: Any) -> Any:
    """Return a copy that shares no list or map. By way of JSON, which is several times faster than `copy`."""
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
            JSONPatchError: it fails, in the library's words.
        """
        op = operation.get("op")
        if op == "add":
            self._add(_text(operation, "path", "add operation failed to decode path: missing value"), operation)
        elif op == "remove":
            self._remove(_text(operation, "path", "remove operation failed to decode path: missing value"))
        elif op == "replace":
            self._replace(_text(operation, "path", f"replace {_NO_PATH}"), operation)
        elif op == "test":
            self._test(_text(operation, "path", f"test {_NO_PATH}"), operation)
        elif op == "move":
            self._move(operation)
        elif op == "copy":
            self._copy(operation)
        else:
            raise JSONPatchError(f"Unexpected kind: {'unknown' if op is None else op}")

    def _holder(self, path: str, missing: str) -> tuple[Any, str]:
        """Return the object or list of a path's last part, and that part; ``missing`` is the error if there is none."""
        first, *parts = path.split("/")
        del first  # Kubernetes' library ignores the text before the first slash
        if not parts:
            raise JSONPatchError(missing)
        holder = self.document
        for part in parts[:-1]:
            try:
                holder = _get(holder, _decoded(part))
            except JSONPatchError:
                holder = None  # an index outside of the list is a missing path, not an error of its own
            if not isinstance(holder, (dict, list)):
                raise JSONPatchError(missing)
        return holder, _decoded(parts[-1])

    def _add(self, path: str, operation: JSONObject) -> None:
        holder, key = self._holder(path, f'add operation does not apply: doc is missing path: "{path}": missing value')
        with _told(f"error in add for path: '{path}'"):
            # A copy: later operations may change the value inside the document, and the request must stay as it is.
            self._put(holder, key, _copied(operation.get("value")))

    def _put(self, holder: Any, key: str, value: Any) -> None:
        if isinstance(holder, dict):
            holder[key] = value
        elif key == "-":
            holder.append(value)
        else:
            with _told(f"value was not a proper array index: '{key}'", of=_NotAnIndex):
                position = _position(key, len(holder) + 1)
            # Ten thousand insertions at the front of a long list would shift elements for minutes.
            self._shift(len(holder) - position)
            holder.insert(position, value)

    def _remove(self, path: str) -> None:
        holder, key = self._holder(
            path, f'remove operation does not apply: doc is missing path: "{path}": missing value'
        )
        with _told(f"error in remove for path: '{path}'"):
            self._take(holder, key)

    def _take(self, holder: Any, key: str) -> None:
        if isinstance(holder, list):
            position = _position(key, len(holder))
            self._shift(len(holder) - position)
            del holder[position]
        elif key in holder:
            del holder[key]
        else:
            raise JSONPatchError(f"Unable to remove nonexistent key: {key}: missing value")

    def _replace(self, path: str, operation: JSONObject) -> None:
        value = _copied(operation.get("value"))
        if not path:
            if not isinstance(value, (dict, list)):
                raise JSONPatchError("replace operation value must be object or array: %!w(<nil>)")
            self.document = value
            return
        holder, key = self._holder(
            path, f"replace operation does not apply: doc is missing path: {path}: missing value"
        )
        if isinstance(holder, dict):
            holder[key] = value
            return
        try:
            holder[_position(key, len(holder))] = value
        except JSONPatchError:
            text = f"replace operation does not apply: doc is missing key: {path}: missing value"
            raise JSONPatchError(text) from None

    def _test(self, path: str, operation: JSONObject) -> None:
        if not path:
            found = self.document
        else:
            holder, key = self._holder(path, f"test operation does not apply: is missing path: {path}: missing value")
            with _told(f"error in test for path: '{path}'"):
                found = _get(holder, key)
        if not _equal(found, operation.get("value")):
            raise PatchTestFailed(f"testing value {path} failed: test failed")

    def _move(self, operation: JSONObject) -> None:
        origin = _text(operation, "from", f"move {_NO_ORIGIN}")
        holder, key = self._holder(
            origin, f"move operation does not apply: doc is missing from path: {origin}: missing value"
        )
        with _told(f"error in move for path: '{key}'"):
            value = _get(holder, key)
            self._take(holder, key)
        path = _text(operation, "path", f"move {_NO_PATH}")
        holder, key = self._holder(
            path, f"move operation does not apply: doc is missing destination path: {path}: missing value"
        )
        with _told(f"error in move for path: '{path}'"):
            self._put(holder, key, value)

    def _copy(self, operation: JSONObject) -> None:
        origin = _text(operation, "from", f"copy {_NO_ORIGIN}")
        holder, key = self._holder(
            origin, f"copy operation does not apply: doc is missing from path: {origin}: missing value"
        )
        with _told(f"error in copy for from: '{origin}'"):
            value = _get(holder, key)
        path = _text(operation, "path", "copy operation failed to decode path: missing value")
        holder, key = self._holder(
            path, f"copy operation does not apply: doc is missing destination path: {path}: missing value"
        )
        # Counted before it is stored: a few dozen copies of the document into itself would fill the memory.
        value = self._counted(value)
        with _told("error while adding value during copy"):
            self._put(holder, key, value)

    def _counted(self, value: Any) -> Any:
        """Return a copy of ``value``, and count its size: copies of copies grow exponentially."""
        if value is None:
            return None
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
        return msgspec.json.decode(text)

    def _shift(self, elements: int) -> None:
        self._shifted += elements
        if self._shifted > _SHIFT_LIMIT:
            raise JSONPatchError(f"the patch shifts more than {_SHIFT_LIMIT} elements of lists")


def _decoded(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _text(operation: JSONObject, name: str, missing: str) -> str:
    """Return a path of the operation; ``missing`` is the error if there is none."""
    found = operation.get(name)
    if not isinstance(found, str):
        raise JSONPatchError(missing)
    return found


@contextmanager
def _told(where: str, *, of: type[JSONPatchError] = JSONPatchError) -> Iterator[None]:
    """Put ``where`` in front of the errors of a step."""
    try:
        yield
    except of as error:
        raise JSONPatchError(f"{where}: {error}") from None


def _get(holder: Any, key: str) -> Any:
    """Return the value there; None if an object does not have the key, as in Kubernetes' library."""
    return holder.get(key) if isinstance(holder, dict) else holder[_position(key, len(holder))]


def _position(key: str, end: int) -> int:
    """Return the position of an index in a list with ``end`` positions.

    Raises:
        JSONPatchError: the index is no number, or outside of the list.
    """
    if not _INDEX.fullmatch(key):
        raise _NotAnIndex(f"strconv.Atoi: parsing {go_quote(key)}: invalid syntax")
    if len(key.lstrip("+-0")) > _LONGEST_INDEX:
        raise _NotAnIndex(f"strconv.Atoi: parsing {go_quote(key)}: value out of range")
    index = int(key)
    position = index + end if index < 0 else index
    if not 0 <= position < end:
        raise JSONPatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return position


def _equal(found: Any, wanted: Any) -> bool:
    """Return True if values are equal as JSON texts: true and 1 are not, nor are ``1`` and ``1.0``."""
    # Python takes True for 1 and 1 for 1.0; JSON does not.
    if type(found) is not type(wanted):
        return False
    if isinstance(found, dict):
        return found.keys() == wanted.keys() and all(_equal(item, wanted[key]) for key, item in found.items())
    if isinstance(found, list):
        return len(found) == len(wanted) and all(map(_equal, found, wanted))
    return bool(found == wanted)
