"""The first process of a running container, as `kubectl attach` sees it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from cathedra.node.runtime.runtime import STDERR, STDOUT, RuntimeFailure
from cathedra.node.shim.client import ShimConnection
from cathedra.node.shim.protocol import ShimLost

MOST_WAITING: Final = 256 * 1024
"""Bytes of output that may wait for a client."""


class AttachedProcess:
    """Input and output of a container from `open` on. Closing it does not affect the container.

    A client that reads slowly blocks the container, as with other container runtimes: after `MOST_WAITING` unread bytes
    no more output is read, for the log neither, until the client has read or disconnected.
    """

    def __init__(self, shim: ShimConnection, container_id: str) -> None:
        self._shim = shim
        self._id = container_id
        self._output: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._attached = False
        self._waiting = 0

    async def open(self) -> None:
        """Begin to listen.

        Raises:
            RuntimeFailure: the container does not run.
            ShimLost: the shim ended before it answered.
        """
        error = await self._shim.attach(self._id, self._received)
        if error:
            raise RuntimeFailure("NotFound", error)
        self._attached = True

    def _received(self, stream: str, data: bytes) -> None:
        self._output.put_nowait((stream, data))
        self._waiting += len(data)
        if self._waiting > MOST_WAITING:
            self._shim.pause(self._id, self._received)

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the container's output until it closes its streams."""
        while True:
            stream, data = await self._output.get()
            self._waiting -= len(data)
            if self._waiting < MOST_WAITING // 2:
                self._shim.resume(self._id, self._received)
            if not data:
                return
            yield STDERR if stream == "stderr" else STDOUT, data

    async def write(self, data: bytes) -> None:
        """Send to its input; returns when there is room for more."""
        await self._call({"do": "input", "data": base64.b64encode(data).decode()})

    async def close_input(self) -> None:
        """End this client's input. It closes the input of a container with ``stdinOnce``."""
        await self._call({"do": "close-input"})

    def resize(self, width: int, height: int) -> None:
        """Set the terminal's size in characters."""
        self._shim.send({"do": "resize", "id": self._id, "width": width, "height": height})

    async def wait(self) -> int:
        """Return 0: attaching has no exit code of its own."""
        return 0

    async def close(self) -> None:
        """Go away; the container goes on."""
        if self._attached:
            self._attached = False
            await self._shim.detach(self._id, self._received)

    async def _call(self, request: dict[str, object]) -> None:
        with contextlib.suppress(ShimLost):
            await self._shim.call(request | {"id": self._id})
