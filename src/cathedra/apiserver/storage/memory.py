"""Store that keeps nothing: for tests, simulations and clusters that may vanish.

It settles writes at once, so that a whole cluster can run in virtual time without threads.
"""

from __future__ import annotations

from cathedra.apiserver.storage.protocol import Settled, StoreContent, Write

__all__ = ["MemoryStorage"]


class MemoryStorage:
    """A `Storage` without files. The registry holds the objects."""

    healthy = True

    async def load(self) -> StoreContent:
        """Return no objects, at revision 0."""
        return StoreContent(0, ())

    def commit(self, write: Write, settled: Settled) -> None:
        """Settle at once."""
        settled(None)

    async def close(self) -> None:
        """Do nothing: there are no files."""
