"""The headers of a request, with what is asked of them in every one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Self, TypeAlias

__all__ = ["Pairs", "RequestHeaders"]

_LENGTH: Final = b"content-length"
Pairs: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Names and values, in order."""


class RequestHeaders(Pairs):
    """Names in lower case and values, in order.

    A client says the same with each of its requests, so a connection has one of these for all that are alike.
    """

    texts: Mapping[bytes, str]
    """The last value of each name."""
    names: bytes
    """Every name between line feeds, which no name has: whether one begins in some way is one look."""

    def __new__(cls, pairs: Iterable[tuple[bytes, bytes]]) -> Self:
        """Those of a request."""
        headers = super().__new__(cls, pairs)
        headers.texts = {name: value.decode("latin-1") for name, value in headers}
        headers.names = b"".join([b"\n%b\n" % name for name, _ in headers])
        return headers

    def of_other_length(self, was: Pairs, now: Pairs) -> RequestHeaders | None:
        """These headers, which a client wrote as ``was``, for a request whose headers are written as ``now``; None if
        more than the length of the body is another, which is so for nearly every object that a client writes."""
        if len(was) != len(now):
            return None
        others = [position for position, pair in enumerate(now) if pair != was[position]]
        position = others[0]
        name, value = now[position]
        if len(others) > 1 or self[position][0] != _LENGTH or name != was[position][0]:
            return None
        headers = tuple.__new__(RequestHeaders, (*self[:position], (_LENGTH, value), *self[position + 1 :]))
        headers.texts = {**self.texts, _LENGTH: value.decode("latin-1")}
        headers.names = self.names
        return headers
