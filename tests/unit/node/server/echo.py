"""A process of a container that repeats its input, for tests of streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from cathedra.node.runtime.runtime import STDERR, STDOUT


class Echo:
    """Repeats its input on stdout, and in capitals on stderr with ``loud``; ends with its input."""

    def __init__(self, code: int = 0, *, loud: bool = False) -> None:
        self.code, self.loud = code, loud
        self.sizes: list[tuple[int, int]] = []
        self.closed = False
        self._heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        while data := await self._heard.get():
            yield STDOUT, data
            if self.loud:
                yield STDERR, data.upper()

    async def write(self, data: bytes) -> None:
        self._heard.put_nowait(data)

    async def close_input(self) -> None:
        self._heard.put_nowait(b"")

    def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))

    async def wait(self) -> int:
        return self.code

    async def close(self) -> None:
        self.closed = True
