"""The headers of a request, with what is asked of them in every one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

__all__ = ["RequestHeaders"]


class RequestHeaders(tuple[tuple[bytes, bytes], ...]):
    """Names in lower case and values, in order.

    A client says the same with each of its requests, so a connection has one of these for all that are alike.
    """

    texts: Mapping[bytes, str]
    """The last value of each name."""
    names: bytes
    """Every name behind a line feed, which no name has: whether one begins in some way is one look."""

    def __new__(cls, pairs: Iterable[tuple[bytes, bytes]]) -> Self:
        """Those of a request."""
        headers = super().__new__(cls, pairs)
        headers.texts = {name: value.decode("latin-1") for name, value in headers}
        headers.names = b"".join([b"\n%b" % name for name, _ in headers])
        return headers
