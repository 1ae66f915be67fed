"""Connections of one port, dealt out among the processes of a server: one accepts them, each serves its share.

A process that does not take its connections is in the way of its own clients alone: the accepting process keeps what
cannot be handed over, and one that has gone is dealt nothing any more. Connections travel as file descriptors over a
pair of sockets that the other process inherited, so that one process alone listens, and a second server on the same
port is refused as ever.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

from cathedra.asgi.serving import ConnectionServer, TLSFiles

__all__ = ["Dealer", "DealtConnections", "line_pair"]

LOG: Final = logging.getLogger(__name__)
SHARES: Final = 2
"""Connections for each other process to one for the process that accepts: this one has the store's work as well."""
_AT_ONCE: Final = 64
"""Connections that are accepted in one turn of the loop."""
_PAUSE_SECONDS: Final = 1.0
"""For which nothing is accepted when there are too many open files."""
_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF})
_CONNECTION: Final = b"c"
"""What goes with a descriptor: without a byte of data none is sent."""


def line_pair() -> tuple[socket.socket, socket.socket]:
    """A line from the process that accepts, and its other end for a process that it starts."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Dealer:
    """Accepts the connections of a socket, and deals them out in turn."""

    def __init__(self, listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        """``serve`` takes the connections that stay here."""
        self._listening = listening
        self._serve = serve
        self._lines: list[socket.socket] = []
        self._turns: Iterator[socket.socket | None] = itertools.repeat(None)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._loop.add_reader(listening.fileno(), self._accept)

    def join(self, line: socket.socket) -> None:
        """From now on the process at the other end of ``line`` (`line_pair`) serves its share."""
        line.setblocking(False)
        self._lines.append(line)
        self._begin_turns()

    def close(self) -> None:
        """Accept nothing any more; what was dealt goes on."""
        self._loop.remove_reader(self._listening.fileno())
        if self._pause is not None:
            self._pause.cancel()
        self._listening.close()
        for line in self._lines:
            line.close()

    def _begin_turns(self) -> None:
        once = [None, *self._lines] if self._lines else [None]
        self._turns = itertools.cycle([*once, *self._lines * (SHARES - 1)])

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connected, _ = self._listening.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._rest(error)
                return
            self._deal(connected)

    def _rest(self, error: OSError) -> None:
        """Accept nothing for a moment: what could not be accepted would wake the loop again and again."""
        LOG.error("no connection can be accepted now: %s", error)
        descriptor = self._listening.fileno()
        self._loop.remove_reader(descriptor)
        self._pause = self._loop.call_later(_PAUSE_SECONDS, self._loop.add_reader, descriptor, self._accept)

    def _deal(self, connected: socket.socket) -> None:
        line = next(self._turns)
        if line is None or not self._hand_over(line, connected):
            self._serve(connected)

    def _hand_over(self, line: socket.socket, connected: socket.socket) -> bool:
        """Whether the process at the other end has it now."""
        try:
            socket.send_fds(line, [_CONNECTION], [connected.fileno()])
        except OSError as error:
            if error.errno in _GONE:
                self._leave(line)
            return False
        connected.close()
        return True

    def _leave(self, line: socket.socket) -> None:
        line.close()
        self._lines.remove(line)
        self._begin_turns()


class DealtConnections:
    """An application on the connections that another process has accepted and dealt to this one."""

    def __init__(self, app: Any, line: socket.socket, tls: TLSFiles | None) -> None:
        """``line`` is the other end of what a `Dealer` was given; it is closed with this."""
        self._server = ConnectionServer(app, tls)
        self._line = line

    async def start(self) -> None:
        """Begin to serve."""
        await self._server.start()
        self._line.setblocking(False)
        asyncio.get_running_loop().add_reader(self._line.fileno(), self._receive)

    async def stop(self) -> None:
        """Take nothing any more and close every connection; what is being answered has a second."""
        self._let_go()
        await self._server.stop()

    def _receive(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                data, descriptors, _, _ = socket.recv_fds(self._line, len(_CONNECTION), 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._let_go()
                return
            for descriptor in descriptors:
                self._server.serve(socket.socket(fileno=descriptor))

    def _let_go(self) -> None:
        if self._line.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._line.fileno())
            self._line.close()
