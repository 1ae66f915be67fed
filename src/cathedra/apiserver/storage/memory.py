"""A store that remembers nothing: for tests, simulations and clusters that may vanish.

It settles each write at once, on the spot, so that a whole cluster can run in virtual time without threads.
"""

from __future__ import annotations

from cathedra.apiserver.storage.protocol import Settled, StoreContent, Write

__all__ = ["MemoryStorage"]


class MemoryStorage:
    """Keeps nothing beyond the registry's own memory."""

    healthy = True
    settles_at_once = True

    async def load(self) -> StoreContent:
        """An empty snapshot at revision 0."""
        return StoreContent(0, ())

    def commit(self, write: Write, settled: Settled) -> None:
        """Settle at once."""
        settled(None)

    async def close(self) -> None:
        """Nothing to let go of."""
