"""Changes of a dump: none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator


class Unchanging:
    """Stream of a dump, which reports once that nothing will change."""

    async def lines(self, since: float = 0.0) -> AsyncIterator[bytes]:
        """Yield one line, and wait until the client leaves."""
        yield b'{"type":"static"}'
        await asyncio.get_running_loop().create_future()
