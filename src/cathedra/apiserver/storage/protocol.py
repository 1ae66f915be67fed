"""What the registry asks of a store: to load everything once, and to make each write durable in order.

The registry keeps all objects in memory and orders all writes; a store only remembers. A write is acknowledged and
shown to watchers after the store has settled it, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Record", "Settled", "Snapshot", "Storage", "StorageError", "Write"]


class StorageError(Exception):
    """The store could not do its work; nothing of the failed write was kept."""


@dataclass(frozen=True, slots=True)
class Record:
    """One stored object: ``/group/resource/namespace/name``, the revision of its last write, its JSON."""

    key: str
    revision: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a store holds, and the revision of its last write."""

    revision: int
    records: Iterable[Record]


@dataclass(frozen=True, slots=True)
class Write:
    """One write at one revision; ``value`` is None for a removal."""

    key: str
    revision: int
    value: bytes | None


Settled = Callable[[StorageError | None], None]
"""Called on the event loop once a write is durable, or with the error that kept it from being so."""


class Storage(Protocol):
    """A durable log of writes."""

    async def load(self) -> Snapshot:
        """Everything that was ever settled.

        Raises:
            StorageError: the store cannot be read, is of another version, or is in use by another process.
        """
        ...

    def commit(self, write: Write, settled: Settled) -> None:
        """Make ``write`` durable and call ``settled``; writes settle in the order in which they were committed."""
        ...

    async def close(self) -> None:
        """Settle what is under way and let go of files and connections."""
        ...
