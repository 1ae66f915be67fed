"""The protocol over a unix socket: who is at the other end, as the kernel knows it."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from pathlib import Path
from typing import Final

from cathedra.client.denials import Denials
from cathedra.client.local.connection import Connection

__all__ = ["LocalConnection", "peer_user"]

_CREDENTIALS: Final = struct.Struct("3i")
"""The kernel's ``ucred``: process, user and group."""


def peer_user(transport: asyncio.BaseTransport) -> int:
    """The user id of the process at the other end of a unix socket, as the kernel knows it.

    Raises:
        OSError: the connection has gone.
    """
    connection = transport.get_extra_info("socket")
    shown = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(shown)
    return int(user)


class LocalConnection(Connection):
    """A connection to the socket of an API server that runs as the same user."""

    def __init__(self, path: Path, denials: Denials | None = None) -> None:
        super().__init__(str(path), denials)
        self._path = path

    async def dial(self) -> None:
        """Connect, if a process of the same user listens there.

        Raises:
            OSError: nothing listens there, or another user's process does.
        """
        transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: self, str(self._path))
        if peer_user(transport) != os.geteuid():
            transport.close()
            raise ConnectionRefusedError("another user's process listens there")
