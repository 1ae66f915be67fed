"""The socket for trusted processes of the same cluster: a file of this user alone, below the cluster's directory."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from pathlib import Path
from typing import Any, Final

from cathedra.apiserver.local.session import Session
from cathedra.apiserver.local.sessionstate import LocalServer
from cathedra.client.local.unix import peer_user

__all__ = ["LocalListener"]

LOG: Final = logging.getLogger(__name__)


class LocalSession(Session):
    """A session with a process of the same user."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let in processes of the same user alone."""
        user = peer_user(transport)
        if user != os.geteuid():
            LOG.warning("a process of user %d was not let in", user)
            connection: Any = transport
            connection.close()
            return
        super().connection_made(transport)


class LocalListener:
    """Listens on a unix socket until it is closed."""

    def __init__(self, server: LocalServer, path: Path) -> None:
        self._server = server
        self.path = path
        self._listening: asyncio.AbstractServer | None = None
        self._sessions: set[Session] = set()

    async def start(self) -> None:
        """Make the socket, in place of one that a killed server left.

        Raises:
            OSError: it cannot be made there.
        """
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.setblocking(False)
        try:
            # Nothing can connect before `listen`, so the file is closed to others before it can be used.
            listening.bind(str(self.path))
            os.chmod(self.path, 0o600)
            self._listening = await asyncio.get_running_loop().create_unix_server(
                lambda: LocalSession(self._server, self._sessions), sock=listening
            )
        except BaseException:
            listening.close()
            raise

    async def close(self) -> None:
        """End every connection and remove the socket."""
        if self._listening is None:
            return
        self._listening.close()
        for session in tuple(self._sessions):
            session.close()
        await self._listening.wait_closed()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
