"""Headers of a request, indexed once for the questions that every request raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self, TypeAlias

Pairs: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Names and values, in order."""


class RequestHeaders(Pairs):
    """Names in lower case and values, in order; what ASGI's scope has under ``headers``."""

    texts: Mapping[bytes, str]
    """The last value of each name."""
    names: bytes
    """All names, each between line feeds, which no name contains: a search in it finds names by their beginning."""

    def __new__(cls, pairs: Iterable[tuple[bytes, bytes]]) -> Self:
        """Index ``pairs``, whose names are in lower case."""
        headers = super().__new__(cls, pairs)
        headers.texts = {name: value.decode("latin-1") for name, value in headers}
        headers.names = b"".join([b"\n%b\n" % name for name, _ in headers])
        return headers
