"""The bound on how deeply a body may be nested, held before any decoder sees the bytes.

Decoders and everything that walks their values recurse once or more per level, so the depth of what a peer sends
decides how much stack is used. Go lets JSON be nested 10,000 levels deep; Python's default recursion limit of 1000
frames, which is never raised, leaves room for `MAX_DEPTH` levels with four frames each (docs/deviations.md).
`check_nesting` counts the levels of JSON bytes without decoding them: bodies with few brackets pass at the cost of two
counts, all others cost one pass over what is left of them without texts and numbers (a megabyte in about three
milliseconds).
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final

import msgspec

from cathedra.api.jsonvalue import JSONValue

MAX_DEPTH: Final = 200
"""Levels of arrays and objects that a body may have."""
WRAPPED_DEPTH: Final = MAX_DEPTH + 20
"""Levels in what a server answers or a store keeps: lists, events and reviews are written around objects."""
TOO_DEEP: Final = "exceeded max depth"
"""Error of Go's decoder for a body that is nested too deeply."""

_COUNTED: Final = 8192
"""Bytes of bodies that hardly ever have more brackets than levels are allowed; counting them settles it."""
_BRACES: Final = bytes.maketrans(b"[]", b"{}")
_OTHERS: Final = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_STEPS: Final = {ord("{"): 1, ord("}"): -1}
_ROUNDS: Final = 16
"""Levels that are taken away by replacing, which is all of nearly every body; what is left is counted one by one."""


class NestingError(msgspec.DecodeError):
    """A body is nested more deeply than `MAX_DEPTH`; the text is that of Go's decoder."""

    def __init__(self) -> None:
        super().__init__(TOO_DEEP)


def check_nesting(data: bytes | str, limit: int = MAX_DEPTH) -> None:
    """Check that JSON is nested at most ``limit`` levels deep; broken JSON is held to an upper bound of its depth.

    Raises:
        NestingError: it is nested more deeply.
    """
    if len(data) <= limit:
        return
    body = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(body) < _COUNTED and body.count(b"{") + body.count(b"[") <= limit:
        return
    if _depth(body, limit) > limit:
        raise NestingError


def _depth(body: bytes, limit: int) -> int:
    """Return the number of nesting levels."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Taking two quotes away that stand side by side leaves every bracket inside or outside of strings as it was.
    brackets = body.translate(_BRACES, _OTHERS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = b"".join(brackets.split(b'"')[::2])
    levels = 0
    for _ in range(_ROUNDS):
        inner = len(brackets)
        brackets = brackets.replace(b"{}", b"")
        if len(brackets) == inner:
            break
        levels += 1
    if not brackets:
        return levels
    if brackets.startswith(b"{" * (limit + 1)):
        return limit + 1
    return levels + max(0, *accumulate(map(_STEPS.__getitem__, brackets)))


def check_value_nesting(value: JSONValue, limit: int = MAX_DEPTH) -> None:
    """Check the same for plain values, such as a patch leaves behind.

    Raises:
        NestingError: they are nested more deeply.
    """
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        if not level:
            return
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, (dict, list))
        ]
    if level:
        raise NestingError


def load_json(data: bytes | str, limit: int = MAX_DEPTH) -> Any:
    """Decode JSON from a peer into plain values.

    Raises:
        msgspec.DecodeError: it is no JSON, or nested too deeply (`NestingError`).
        UnicodeDecodeError: its texts are not UTF-8.
    """
    check_nesting(data, limit)
    return msgspec.json.decode(data)
