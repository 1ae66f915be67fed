"""Answers that go out in one step, past ASGI's messages: what an application knows of a connection that takes them.

A server that can do so hands a `DirectAnswer` to the application with each request; on any other one the application
sends messages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, Protocol

__all__ = ["EXCHANGE", "DirectAnswer", "Headers", "framed", "header_lines"]

EXCHANGE: Final = "cathedra.exchange"
"""ASGI extension under which a request's `DirectAnswer` is found."""
Headers = tuple[tuple[bytes, bytes], ...]
_CONTROLS: Final = bytes(code for code in (*range(32), 127) if code != ord("\t"))
"""What no header may have, but for the two that end its line."""


class DirectAnswer(Protocol):
    """The answer to one request, as bytes that the connection takes at once."""

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        ...

    @property
    def ready(self) -> bool:
        """Whether the client is there and takes what it is sent."""
        ...

    def arrived(self) -> bytes | None:
        """The body of the request, if all of it is there; asked at most once, and before anything is received."""
        ...

    def answer(self, status: int, head: bytes, body: bytes, tail: bytes = b"") -> None:
        """Send a whole answer; ``tail`` is the rest of the body. ``head`` are the lines of its headers, as
        `header_lines` makes them, its length among them; how the connection goes on is not theirs to say.

        Raises:
            RuntimeError: an answer has begun already.
        """

    def write(self, frames: bytes | memoryview) -> None:
        """Send more of a stream that has begun, as `framed` makes it."""

    def abort(self) -> None:
        """Close the connection at once; what the client has not taken is dropped."""

    def break_off(self) -> None:
        """Close the connection in the middle of an answer, so that the client notices that the rest is missing."""

    def on_ready(self, callback: Callable[[], None] | None) -> None:
        """Call ``callback`` whenever the client takes again what it is sent, after it had not; None: no more."""


def framed(data: bytes) -> bytes:
    """A piece of a chunked stream (RFC 9112, section 7.1), for as many clients as get the same."""
    return b"%x\r\n%b\r\n" % (len(data), data)


@lru_cache(maxsize=1024)
def header_lines(headers: Headers) -> bytes:
    """Return headers as they stand in the head of an answer. Most are the same in every answer of a kind, so the lines
    are kept; of headers with any text, as warnings, call ``header_lines.__wrapped__``.

    Raises:
        RuntimeError: one has a control character, or ends its line.
    """
    text = b"".join([b"%b: %b\r\n" % header for header in headers])
    if len(text) - len(text.translate(None, _CONTROLS)) != 2 * len(headers) or text.count(b"\r\n") != len(headers):
        raise RuntimeError("a header has a control character")
    return text
