"""Acceptance of one port's connections, and their distribution among the processes of a server.

One process accepts them. It serves all itself, or passes a share to each other process, as file descriptors over a pair
of sockets that the other inherited. So one process alone listens, and a second server on the same port is refused as
usual. What cannot be passed on stays with the accepting process, so a process that takes no connections delays its own
clients alone.
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

LOG: Final = logging.getLogger(__name__)
SHARES: Final = 2
"""Connections for each other process to one for the process that accepts: this one has the store's work as well."""
BACKLOG: Final = 2048
"""Connections that the kernel holds until they are accepted."""
_AT_ONCE: Final = 64
"""Connections that are accepted in one turn of the loop."""
_PAUSE_SECONDS: Final = 1.0
"""Pause after an error such as too many open files. The socket stays readable, so the loop would spin without it."""
_GONE: Final = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF})
_CONNECTION: Final = b"c"
"""The data beside a descriptor: the kernel sends no descriptor without any."""


def line_pair() -> tuple[socket.socket, socket.socket]:
    """Return the accepting process' end of a line, and the end for a process that it starts."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Dealer:
    """Accepts the connections of a socket and distributes them in turn."""

    def __init__(self, listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        """``serve`` takes the connections that stay here."""
        self._listening = listening
        self._serve = serve
        self._lines: list[socket.socket] = []
        self._turns: Iterator[socket.socket | None] = itertools.repeat(None)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._failing = False
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._loop.add_reader(listening.fileno(), self._accept)

    def join(self, line: socket.socket) -> None:
        """Pass a share of further connections to the process at the other end of ``line`` (`line_pair`)."""
        line.setblocking(False)
        self._lines.append(line)
        self._begin_turns()

    def close(self) -> None:
        """Accept no more connections; those that were passed on stay open."""
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
                if not self._failing:
                    self._failing = True
                    LOG.error("no connection can be accepted now, and they wait: %s", error.strerror or error)
                descriptor = self._listening.fileno()
                self._loop.remove_reader(descriptor)
                self._pause = self._loop.call_later(_PAUSE_SECONDS, self._loop.add_reader, descriptor, self._accept)
                return
            if self._failing:
                self._failing = False
                LOG.warning("connections are accepted again")
            line = next(self._turns)
            if line is None or not self._pass_on(line, connected):
                self._serve(connected)

    def _pass_on(self, line: socket.socket, connected: socket.socket) -> bool:
        """Return True if the process at the other end has the connection now."""
        try:
            socket.send_fds(line, [_CONNECTION], [connected.fileno()])
        except OSError as error:
            if error.errno in _GONE:
                line.close()
                self._lines.remove(line)
                self._begin_turns()
            return False
        connected.close()
        return True


class DealtConnections:
    """An application on the connections that another process has accepted and passed to this one."""

    def __init__(self, app: Any, line: socket.socket, tls: TLSFiles | None) -> None:
        """``line`` is the other end of one that a `Dealer` has; it is closed with this."""
        self._server = ConnectionServer(app, tls)
        self._line = line

    async def start(self) -> None:
        """Start the server, and take connections from the first process."""
        self._server.start()
        self._line.setblocking(False)
        asyncio.get_running_loop().add_reader(self._line.fileno(), self._receive)

    async def stop(self) -> None:
        """Take no more connections and close every one; answers in progress have a second."""
        self._close_line()
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
                self._close_line()
                return
            for descriptor in descriptors:
                self._server.serve(socket.socket(fileno=descriptor))

    def _close_line(self) -> None:
        if self._line.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._line.fileno())
            self._line.close()
