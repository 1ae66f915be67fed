"""Interfaces of stores: `Storage` is a log that this process alone writes, `SharedStorage` is one that servers share.

The registry keeps all objects in memory. Over a `Storage` it orders all writes itself, and the store makes them
durable. Over a `SharedStorage` (etcd, or the log of another server of the cluster) the store orders the writes of all
servers and assigns revisions; the registry follows. Either way a write is acknowledged and shown to watchers after the
store has settled it, never before.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec


class StorageError(Exception):
    """The store failed. No part of the failed write was stored."""


class StoreUnavailable(StorageError):
    """A shared store does not answer at present.

    ``unknown``: a write may have been kept nevertheless, because its answer was lost.
    """

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        self.unknown = unknown
        super().__init__(message)


class Superseded(Exception):
    """The object was written since the writer read it; ``revision`` is that of a later state."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        super().__init__(f"superseded at or before revision {revision}")


class HistoryLost(Exception):
    """Changes were compacted before they were read. Everything has to be loaded again."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One stored object: its key, the revision of its last write, its form in the store."""

    key: str
    revision: int
    value: bytes
    decoded: Any = None
    """The object itself, in a store that is filled with objects; ``value`` is then empty."""


class Write(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One write at one revision; ``value`` is None for a removal. Stores encode it as an array."""

    key: str
    revision: int
    value: bytes | None


class PastWrite(msgspec.Struct, frozen=True, gc=False):
    """A write that was settled before the store was opened, and what was stored under its key before it."""

    write: Write
    previous: Record | None


class StoreContent(msgspec.Struct, frozen=True):
    """Everything a store holds, the revision of its last write, and the last writes, if the store still has them."""

    revision: int
    records: Iterable[Record]
    """To be read once: a store may release each record when the next one is read."""
    recent: Sequence[PastWrite] = ()
    """In the order of their revisions."""
    recent_after: int | None = None
    """The revision after which ``recent`` has every write; None: there is no history."""


class StoreProgress(msgspec.Struct, frozen=True):
    """Writes of any server, in order, and the revision up to which nothing is missing."""

    revision: int
    writes: tuple[Write, ...] = ()


Settled = Callable[[StorageError | None], None]
"""Called on the event loop once a write is durable, or with the error that prevented it."""


class Storage(Protocol):
    """A durable log of writes that one process orders."""

    @property
    def healthy(self) -> bool:
        """Return True if the last attempt to write succeeded."""

    async def load(self) -> StoreContent:
        """Return everything that was ever settled. Keys are ``/group/resource/namespace/name``.

        Raises:
            StorageError: the store cannot be read, is of another version, or is in use by another process.
        """

    def commit(self, write: Write, settled: Settled) -> None:
        """Make ``write`` durable and call ``settled``, at once or in a later turn of the loop. Writes settle in the
        order in which they were committed.

        Writes that are committed in one turn of the loop are in one transaction: a crash keeps all of them or none.
        """

    async def close(self) -> None:
        """Settle writes under way and close files and connections."""


class MemoryStorage:
    """A `Storage` that keeps nothing, for tests, simulations and clusters that may vanish.

    It settles writes at once, so that a whole cluster can run in virtual time without threads.
    """

    healthy = True

    async def load(self) -> StoreContent:
        """Return no objects, at revision 0."""
        return StoreContent(0, ())

    def commit(self, write: Write, settled: Settled) -> None:
        """Settle the write at once: nothing is kept on disk."""
        settled(None)

    async def close(self) -> None:
        """Do nothing: there are no files."""


@runtime_checkable
class SharedStorage(Protocol):
    """A store that several servers write, and that orders their writes. Keys and values are those of a layout
    (`cathedra.apiserver.registry.layout`)."""

    shares_revisions: bool
    """True if several writes of a resource may get one revision. All servers on the store must then deliver all events
    of a revision to a client that has seen one of them (`Table.resume`)."""

    @property
    def problem(self) -> str:
        """Return the reason why the store does not answer at present; "" if it does."""

    async def load(self, compacted: Callable[[int], None]) -> StoreContent:
        """Return everything that is stored. ``compacted`` is called with a revision when the history before it is
        compacted.

        Raises:
            StorageError: the store cannot be read.
        """

    def write(self, key: str, value: bytes | None, *, expected: int) -> Awaitable[int]:
        """Write (None: remove) if the last write of ``key`` has the revision ``expected`` (0: there is none). Return
        the revision of this write.

        Raises:
            Superseded: it has another; nothing changed.
            StoreUnavailable: no answer.
            StorageError: the store refused; nothing changed.
        """

    def latest(self) -> Awaitable[int]:
        """Return a revision at or after every write that any server acknowledged before this call.

        Raises:
            StoreUnavailable: no answer.
        """

    async def nudge(self) -> int:
        """Make `follow` yield a revision at or after the latest, and return that.

        Raises:
            StoreUnavailable: no answer.
        """

    def follow(self, after: int) -> AsyncGenerator[StoreProgress, None]:
        """Yield all writes after a revision, without end; lost connections are made again, if that is possible.

        Raises:
            HistoryLost: they are not all there any more.
            StoreUnavailable: the store has gone for good.
        """

    async def close(self) -> None:
        """Close the connections to the shared store."""


@runtime_checkable
class FencedStorage(Protocol):
    """A shared store that compares further keys in the transaction of a write."""

    def write_fenced(
        self, key: str, value: bytes | None, *, expected: int, fences: Mapping[str, int]
    ) -> Awaitable[int]:
        """As `SharedStorage.write`, if the last write of each key of ``fences`` has its revision too (0: there is
        none). These keys are written without a value, at the revision that is returned.

        Raises:
            Superseded: one of the keys has another revision; nothing changed. The error has the highest of them.
            StoreUnavailable: no answer.
            StorageError: the store refused; nothing changed.
        """


@runtime_checkable
class ExpiringStorage(Protocol):
    """A shared store whose keys may expire by themselves."""

    async def keep(self, key: str, value: bytes, seconds: int) -> int:
        """Write a key, whatever it was, that expires after ``seconds`` unless it is kept again. Return the revision.

        Raises:
            StorageError: the store does not answer, or refuses.
        """

    async def values(self, prefix: str) -> Mapping[str, bytes]:
        """Return the values of all keys that begin with ``prefix``.

        Raises:
            StorageError: the store does not answer.
        """

    def write(self, key: str, value: bytes | None, *, expected: int) -> Awaitable[int]:
        """Write or delete one key if its last revision is ``expected``, as `SharedStorage.write` does."""
