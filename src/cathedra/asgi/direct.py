"""Answers that go out in one step, past ASGI's messages: what an application knows of a connection that takes them.

A server that can do so hands a `DirectAnswer` to the application with each request; on any other one the application
sends messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

__all__ = ["EXCHANGE", "DirectAnswer", "Headers", "framed"]

EXCHANGE: Final = "cathedra.exchange"
"""ASGI extension under which a request's `DirectAnswer` is found."""
Headers = Iterable[tuple[bytes, bytes]]


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

    def answer(self, status: int, headers: Headers, body: bytes, tail: bytes = b"") -> None:
        """Send a whole answer; ``tail`` is the rest of the body. Among ``headers`` is its length; how the connection
        goes on is not theirs to say.

        Raises:
            RuntimeError: an answer has begun already, or a header has a control character.
        """

    def write(self, frames: bytes) -> None:
        """Send more of a stream that has begun, as `framed` makes it."""

    def on_ready(self, callback: Callable[[], None] | None) -> None:
        """Call ``callback`` whenever the client takes again what it is sent, after it had not; None: no more."""


def framed(data: bytes) -> bytes:
    """A piece of a chunked stream (RFC 9112, section 7.1), for as many clients as get the same."""
    return b"%x\r\n%b\r\n" % (len(data), data)
