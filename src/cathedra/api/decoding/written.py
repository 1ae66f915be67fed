"""Objects of a JSON List that are decoded straight from its bytes.

Dumps of large clusters are such lists. Their plain values would take most of the time of a command, and the tools read
few of them: nearly every object becomes a struct, by `decode_written`. `WrittenObject` decodes plain values for readers
that need them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.nesting import MAX_DEPTH, check_nesting

__all__ = ["WrittenObject", "written_items"]


class _List(msgspec.Struct, rename="camel"):
    """The parts of a List that are read."""

    kind: str = ""
    api_version: str = ""
    items: list[msgspec.Raw] | None = None


class _WrittenHead(msgspec.Struct, rename="camel"):
    """The fields that every object has, of whatever kind."""

    kind: str = ""
    api_version: str = ""


_WRITTEN_FIRST: Final = re.compile(rb'\{\s*"apiVersion":\s*"([\w./-]+)",\s*"kind":\s*"(\w+)"[,\s}]', re.ASCII)
_LISTS = msgspec.json.Decoder(_List)
_HEADS = msgspec.json.Decoder(_WrittenHead)


class WrittenObject(Mapping[str, Any]):
    """An object as plain values, which are decoded when one other than kind and apiVersion is read."""

    __slots__ = ("_values", "api_version", "body", "kind")

    def __init__(self, body: bytes, kind: str, api_version: str) -> None:
        """``body`` is a JSON object; the list names its kind if it does not."""
        self.body, self.kind, self.api_version = body, kind, api_version
        self._values: Mapping[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        # Readers look up the kind of every object, and the values of few.
        if key == "kind":
            return self.kind
        if key == "apiVersion":
            return self.api_version
        return self._decoded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded)

    def __len__(self) -> int:
        return len(self._decoded)

    @property
    def _decoded(self) -> Mapping[str, Any]:
        if self._values is None:
            self._values = {"kind": self.kind, "apiVersion": self.api_version, **_plain(self.body)}
        return self._values


def _plain(body: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = msgspec.json.decode(body)
    except msgspec.ValidationError:
        # The text of the list is JSON, which msgspec has checked; only a number such as 1e999 is left to refuse.
        found = json.loads(body)
    return found


def written_items(body: bytes) -> list[WrittenObject] | None:
    """Return the items of a List.

    Return None for everything that must be read value by value: other JSON, broken JSON, lists within lists, objects of
    no kind, and objects that are nested more deeply than `MAX_DEPTH`.
    """
    try:
        # Raw parts are checked to be JSON, but not to be UTF-8.
        if not body.isascii():
            body.decode()
        found = _LISTS.decode(body)
        if not found.kind.endswith("List") or not found.items:
            return None
        return [_item(bytes(raw), found) for raw in found.items]
    except (RecursionError, UnicodeDecodeError, msgspec.DecodeError):
        return None


def _item(body: bytes, of: _List) -> WrittenObject:
    """Return one item.

    Raises:
        msgspec.DecodeError: it must be read value by value.
    """
    # Two counts settle it for nearly every object of any length, because objects have few brackets.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        check_nesting(body)
    # Fast path: kubectl and Go write both fields first. Decoding them reads the object to its end.
    written = _WRITTEN_FIRST.match(body)
    if written is not None:
        return _written(body, written[2].decode(), written[1].decode())
    head = _HEADS.decode(body)
    return _written(body, head.kind or of.kind.removesuffix("List"), head.api_version or of.api_version)


def _written(body: bytes, kind: str, api_version: str) -> WrittenObject:
    if not kind or kind.endswith("List"):
        raise msgspec.DecodeError("a list within a list, or an object of no kind")
    return WrittenObject(body, kind, api_version)
