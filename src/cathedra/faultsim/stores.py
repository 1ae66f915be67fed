"""Played stores of simulated API servers: a disk of one server, and a store that several servers share.

SQLite and etcd themselves cannot run in virtual time: one has a thread, the other is a process. These stand in for them
with the same contracts (`cathedra.apiserver.storage.protocol`), and with the faults of the media below: a full disk, a
failed sync, a crash that keeps some of the writes under way, an elected leader that goes away, compaction.

Both call an observer with every write that becomes durable, in the order of revisions, before it is acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from random import Random
from typing import Final

from cathedra.apiserver.storage.protocol import (
    HistoryLost,
    PastWrite,
    Record,
    Settled,
    StorageError,
    StoreContent,
    StoreProgress,
    StoreUnavailable,
    Superseded,
    Write,
)

Observer = Callable[[Write], None]
SYNC_SECONDS: Final = 0.004
"""Time until a write is durable."""
RECENT: Final = 512
"""Writes that a server finds as history when it starts."""


class Disk:
    """The medium of one server's store. It outlives the server."""

    def __init__(self, random: Random, observer: Observer) -> None:
        self.random = random
        self.revision = 0
        self.records: dict[str, Record] = {}
        self.recent: deque[PastWrite] = deque(maxlen=RECENT)
        self.full = False
        self.failing_syncs = 0.0
        """Share of syncs that fail."""
        self.forgetful = False
        """True if a server that starts finds no history: watches cannot resume."""
        self._observer = observer

    def keep(self, write: Write) -> None:
        """Make a write durable."""
        previous = self.records.get(write.key)
        self.revision = write.revision
        if write.value is None:
            self.records.pop(write.key, None)
        else:
            self.records[write.key] = Record(write.key, write.revision, write.value)
        self.recent.append(PastWrite(write, previous))
        self._observer(write)

    def content(self) -> StoreContent:
        """Return the objects that a starting server finds."""
        if self.forgetful or not self.recent:
            return StoreContent(self.revision, tuple(self.records.values()))
        recent = tuple(self.recent)
        return StoreContent(self.revision, tuple(self.records.values()), recent, recent[0].write.revision - 1)


class DiskStore:
    """A `Storage` on a `Disk`, for one life of a server."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._turns: list[list[tuple[Write, Settled]]] = []
        self._open = False
        self._timer: asyncio.TimerHandle | None = None
        self._alive = True
        self._healthy = True

    @property
    def healthy(self) -> bool:
        """Return True if the last write was kept."""
        return self._healthy

    async def load(self) -> StoreContent:
        """Return everything that is durable."""
        return self._disk.content()

    def commit(self, write: Write, settled: Settled) -> None:
        """Make the write durable after a while, together with the others of this turn of the loop."""
        if not self._alive:
            settled(StorageError("the server has died"))
            return
        loop = asyncio.get_running_loop()
        if not self._open:
            self._open = True
            self._turns.append([])
            loop.call_soon(self._end_turn)
        self._turns[-1].append((write, settled))
        if self._timer is None:
            self._timer = loop.call_later(SYNC_SECONDS, self._sync)

    def die(self) -> None:
        """Lose power: of the transactions under way a beginning is kept, and none is acknowledged."""
        self._alive = False
        if self._timer is not None:
            self._timer.cancel()
        turns, self._turns = self._turns, []
        kept = self._disk.random.randint(0, len(turns)) if turns and not self._disk.full else 0
        for turn in turns[:kept]:
            for write, _ in turn:
                self._disk.keep(write)
        for turn in turns:
            for _, settled in turn:
                # Ends the requests of the dead server; their clients see a lost connection.
                settled(StorageError("the server has died"))

    async def close(self) -> None:
        """Settle the writes that are pending."""
        if self._alive:
            self._sync()
        self._alive = False

    def _end_turn(self) -> None:
        self._open = False

    def _sync(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        turns, self._turns = self._turns, []
        # The next write of this turn of the loop, if any, must not join a transaction that is settled.
        self._open = False
        error = self._problem()
        self._healthy = error is None
        for turn in turns:
            for write, settled in turn:
                if error is None:
                    self._disk.keep(write)
                settled(error)

    def _problem(self) -> StorageError | None:
        if self._disk.full:
            return StorageError("database or disk is full")
        if self._disk.failing_syncs and self._disk.random.random() < self._disk.failing_syncs:
            return StorageError("disk I/O error")
        return None


class SharedMedium:
    """The store of several servers: keys with revisions, a history that is compacted, a leader that may be lost."""

    def __init__(self, random: Random, observer: Observer) -> None:
        self.random = random
        self.revision = 1
        self.records: dict[str, Record] = {}
        self.history: list[Write] = []
        self.compacted = 0
        """The revision up to which there is no history."""
        self.attempts = 0
        """Number of writes, with those that were superseded."""
        self.leaderless = False
        self.failing = 0.0
        """Share of writes that fail without a leader's loss."""
        self._observer = observer
        self._changed = asyncio.Event()

    def write(self, key: str, value: bytes | None, expected: Mapping[str, int]) -> int:
        """Write a key if the last revisions of all keys are as expected; return the new revision. The other keys are
        written too, without a value.

        Raises:
            Superseded: one of them is another.
        """
        self.attempts += 1
        present = {name: self.records[name].revision if name in self.records else 0 for name in expected}
        if present != dict(expected):
            # As etcd: of a key that is not there no revision is known but that of the store.
            raise Superseded(max(present.values()) if all(present.values()) else self.revision)
        self.revision += 1
        for name in expected:
            self._keep(Write(name, self.revision, value if name == key else b""))
        self.wake()
        return self.revision

    def _keep(self, write: Write) -> None:
        if write.value is None:
            self.records.pop(write.key, None)
        else:
            self.records[write.key] = Record(write.key, write.revision, write.value)
        self.history.append(write)
        self._observer(write)

    def compact(self) -> None:
        """Drop the history up to this revision."""
        self.compacted, self.history = self.revision, []
        self.wake()

    def since(self, revision: int) -> list[Write]:
        """Return the writes after a revision.

        Raises:
            HistoryLost: they were compacted.
        """
        if revision < self.compacted:
            raise HistoryLost(f"revisions up to {self.compacted} were compacted")
        # From the end: readers are at most a few writes behind.
        start = len(self.history)
        while start and self.history[start - 1].revision > revision:
            start -= 1
        return self.history[start:]

    def wake(self) -> None:
        """Let followers look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()


class SharedStore:
    """A `SharedStorage` on a `SharedMedium`, for one life of a server."""

    shares_revisions = False

    def __init__(self, medium: SharedMedium) -> None:
        self._medium = medium
        self._alive = True
        self._compacted: Callable[[int], None] = lambda _: None

    @property
    def problem(self) -> str:
        """Return the reason why nothing can be written at present."""
        return "etcdserver: no leader" if self._medium.leaderless else ""

    async def load(self, compacted: Callable[[int], None]) -> StoreContent:
        """Return everything that is stored.

        Raises:
            StoreUnavailable: there is no leader.
        """
        await self._reach()
        self._compacted = compacted
        return StoreContent(self._medium.revision, tuple(self._medium.records.values()))

    async def write(self, key: str, value: bytes | None, *, expected: int) -> int:
        """As `write_fenced`, without fences."""
        return await self.write_fenced(key, value, expected=expected, fences={})

    async def write_fenced(self, key: str, value: bytes | None, *, expected: int, fences: Mapping[str, int]) -> int:
        """Write after a while.

        Raises:
            Superseded: one of the keys has another revision.
            StoreUnavailable: there is no leader, or the answer was lost.
        """
        medium = self._medium
        await self._reach()
        fails = medium.failing and medium.random.random() < medium.failing
        if fails and medium.random.random() < 0.5:
            raise StoreUnavailable("etcdserver: leader changed")
        revision = medium.write(key, value, {key: expected, **fences})
        await asyncio.sleep(SYNC_SECONDS / 2)
        if fails:
            raise StoreUnavailable("etcdserver: request timed out", unknown=True)
        return revision

    async def latest(self) -> int:
        """Return the present revision.

        Raises:
            StoreUnavailable: there is no leader.
        """
        await self._reach()
        return self._medium.revision

    async def nudge(self) -> int:
        """Let every `follow` yield the present revision.

        Raises:
            StoreUnavailable: there is no leader.
        """
        await self._reach()
        self._medium.wake()
        return self._medium.revision

    async def follow(self, after: int) -> AsyncGenerator[StoreProgress, None]:
        """Yield the writes after a revision.

        Raises:
            HistoryLost: they were compacted.
            StoreUnavailable: this store was closed.
        """
        compacted = self._medium.compacted
        while self._alive:
            if compacted != self._medium.compacted:
                compacted = self._medium.compacted
                self._compacted(compacted)
            if not self._medium.leaderless:
                writes = tuple(self._medium.since(after))
                after = self._medium.revision
                yield StoreProgress(after, writes)
            await self._medium.changed()
            await asyncio.sleep(SYNC_SECONDS / 4)
        # An end without an error would make the server follow again at once, for ever.
        raise StoreUnavailable("the connection was closed")

    async def close(self) -> None:
        """Disconnect this server from the store."""
        self._alive = False

    def die(self) -> None:
        """Disconnect without waiting for writes."""
        self._alive = False

    async def _reach(self) -> None:
        await asyncio.sleep(SYNC_SECONDS / 2)
        if self._medium.leaderless or not self._alive:
            raise StoreUnavailable("etcdserver: no leader")
