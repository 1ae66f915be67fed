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
import os
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


class _Arrivals:
    """A socket from which connections arrive. While none can be taken, it is left alone for a second at a time."""

    def __init__(self, arriving: socket.socket, take: Callable[[], None]) -> None:
        """``take`` is called when the socket is readable."""
        self._arriving = arriving
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self.shortage = ""
        """The reason why connections wait; "" if they do not."""
        self._resume()

    def wait(self, error: OSError) -> None:
        """Take nothing for a while, because of an error such as too many open files."""
        reason = error.strerror or str(error)
        if not self.shortage:
            LOG.error("no connection can be accepted now, and they wait: %s", reason)
        self.shortage = reason
        self._loop.remove_reader(self._arriving.fileno())
        self._pause = self._loop.call_later(_PAUSE_SECONDS, self._resume)

    def taken(self) -> None:
        """Note that a connection was taken, which ends a shortage."""
        if self.shortage:
            self.shortage = ""
            LOG.warning("connections are accepted again")

    def close(self) -> None:
        """Take no more connections, and close the socket."""
        if self._pause is not None:
            self._pause.cancel()
        if self._arriving.fileno() >= 0:
            self._loop.remove_reader(self._arriving.fileno())
            self._arriving.close()

    def _resume(self) -> None:
        self._loop.add_reader(self._arriving.fileno(), self._take)


class Dealer:
    """Accepts the connections of a socket and distributes them in turn."""

    def __init__(self, listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        """``serve`` takes the connections that stay here."""
        self._listening = listening
        self._serve = serve
        self._lines: list[socket.socket] = []
        self._turns: Iterator[socket.socket | None] = itertools.repeat(None)
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._arrivals = _Arrivals(listening, self._accept)

    @property
    def shortage(self) -> str:
        """The reason why connections wait to be accepted; "" if they do not."""
        return self._arrivals.shortage

    def join(self, line: socket.socket) -> None:
        """Pass a share of further connections to the process at the other end of ``line`` (`line_pair`)."""
        line.setblocking(False)
        self._lines.append(line)
        self._begin_turns()

    def close(self) -> None:
        """Accept no more connections; those that were passed on stay open."""
        self._arrivals.close()
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
                self._arrivals.wait(error)
                return
            self._arrivals.taken()
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
        self._arrivals: _Arrivals | None = None

    @property
    def shortage(self) -> str:
        """The reason why connections wait at this end of the line; "" if they do not."""
        return self._arrivals.shortage if self._arrivals is not None else ""

    async def start(self) -> None:
        """Start the server, and take connections from the first process."""
        self._server.start()
        self._line.setblocking(False)
        self._arrivals = _Arrivals(self._line, self._receive)

    async def stop(self) -> None:
        """Take no more connections and close every one; answers in progress have a second."""
        if self._arrivals is not None:
            self._arrivals.close()
        self._line.close()
        await self._server.stop()

    def _receive(self) -> None:
        assert self._arrivals is not None
        for _ in range(_AT_ONCE):
            try:
                # Without a free descriptor the kernel would deliver the message and close the connection.
                os.close(os.dup(self._line.fileno()))
            except OSError as error:
                self._arrivals.wait(error)
                return
            try:
                data, descriptors, _, _ = socket.recv_fds(self._line, len(_CONNECTION), 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._arrivals.close()
                return
            self._arrivals.taken()
            for descriptor in descriptors:
                self._server.serve(socket.socket(fileno=descriptor))
