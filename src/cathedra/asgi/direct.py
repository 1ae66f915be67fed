"""Responses in one call, beside ASGI's messages.

A server that supports them puts a `DirectAnswer` into the scope of each request. Under any other server the application
sends messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from cathedra.remembering import remembered

DIRECT_ANSWER: Final = "cathedra.direct_answer"
"""ASGI extension under which a request's `DirectAnswer` is found."""
Headers = tuple[tuple[bytes, bytes], ...]
_CONTROLS: Final = bytes(code for code in (*range(32), 127) if code != ord("\t"))
"""Control characters. A header line has none but CR and LF at its end."""


class DirectAnswer(Protocol):
    """The response to one request, written as bytes."""

    @property
    def gone(self) -> bool:
        """Return True if the client has disconnected."""

    @property
    def ready(self) -> bool:
        """Return True if the client is connected and its buffer has room."""

    def arrived(self) -> bytes | None:
        """Return the request's body if it is complete, else None. May be called once, before anything is received."""

    def answer(self, status: int, head: bytes, body: bytes, tail: bytes = b"") -> None:
        """Send a whole response: header lines as `header_lines` makes them, and the body in two parts.

        ``head`` contains ``content-length`` and does not contain ``connection``.

        Raises:
            RuntimeError: a response has already begun.
        """

    def write(self, frames: bytes | memoryview) -> None:
        """Send frames, made by `framed`, of a response that has begun."""

    def abort(self) -> None:
        """Close the connection at once. Bytes that are still buffered are dropped."""

    def break_off(self) -> None:
        """Close the connection within a response, so that the client notices that the rest is missing."""

    def on_ready(self, callback: Callable[[], None] | None) -> None:
        """Call ``callback`` whenever the client's buffer has room again; None: stop."""


def framed(data: bytes) -> bytes:
    """Return a chunk (RFC 9112, section 7.1). Clients that get the same data share it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def lines_of(headers: Headers) -> bytes:
    """Return the header lines of a response, for headers with free text, such as warnings.

    Raises:
        RuntimeError: a header contains a control character.
    """
    text = b"".join([b"%b: %b\r\n" % header for header in headers])
    if len(text) - len(text.translate(None, _CONTROLS)) != 2 * len(headers) or text.count(b"\r\n") != len(headers):
        raise RuntimeError("a header has a control character")
    return text


header_lines: Final = remembered("asgi.direct.header_lines", size=1024)(lines_of)
"""`lines_of`, for headers without free text: most responses of a kind have the same headers."""
