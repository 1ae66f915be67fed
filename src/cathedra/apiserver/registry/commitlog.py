"""Commit log of a store that this process alone writes: it assigns revisions and settles writes in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.status import internal_error
from cathedra.api.struct import encode_in, replace
from cathedra.apiserver.registry.layout import MAX_VALUE, check_size, numbered
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table, wake
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.protocol import Storage, StorageError, Write


class WriteConflict(Exception):
    """The object was written since it was read. Read it again and retry."""


Origin = tuple[object, int]
"""The connection that a write came over, and its number there."""


class Follower(Protocol):
    """Is notified of every settled write, after the tables."""

    def settled(self, write: Write, origin: Origin | None) -> None:
        """``origin`` is that of `CommitLog.take`; None for a write of this server."""

    def close(self) -> None:
        """End: the log is closed."""


class CommitLog:
    """Writes in the order of the revisions that are assigned here. One that fails ends with a StatusError (500) and
    changes nothing.

    The key of a write is locked (`Table.under_way`) until its end. The future of a write may be cancelled; the write is
    completed nevertheless.
    """

    def __init__(self, storage: Storage, tables: Tables) -> None:
        self._storage = storage
        self._tables = tables
        self._assigned = 0
        self.revision = 0
        """The revision of the last settled write."""
        self.followers: list[Follower] = []
        self._buffer = bytearray()
        """For the encoder. It is replaced after an object that is too large."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """For the futures of writes: looking up the running loop is a system call, which costs more than the future."""

    @property
    def problem(self) -> str:
        """That the store accepts no writes at present; "" if it does."""
        return "" if self._storage.healthy else "the last write could not be stored"

    async def load(self) -> None:
        """Read everything that was settled.

        Raises:
            StorageError: it cannot be read.
        """
        self._loop = asyncio.get_running_loop()
        snapshot = await self._storage.load()
        self._assigned = self.revision = snapshot.revision
        self._tables.load(snapshot)

    async def catch_up(self) -> None:
        """Return at once: this process is the only one that acknowledges writes."""

    def put(
        self, table: Table, key: str, previous: StoredObject | None, obj: KubeObject, fences: Collection[str] = ()
    ) -> asyncio.Future[StoredObject]:
        """Settle a new state. ``fences`` guard against writes of other servers, so they have no effect here.

        Raises:
            StatusError: 500, it is too large.
        """
        revision = self._assigned + 1
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=str(revision)))
        body = encode_in(self._buffer, obj)
        size = len(body)
        # Checked before the revision is assigned, so that a refused write leaves no gap.
        if size > MAX_VALUE:
            self._buffer = bytearray()
            check_size(body)
        self._assigned = revision
        entry = StoredObject(key, obj, revision, body, size)
        done: asyncio.Future[StoredObject] = asyncio.Future(loop=self._loop)
        table.under_way[key] = ()
        change, write = StoredChange(revision, entry, previous), Write(table.stored_under + key, revision, body)
        self._storage.commit(write, _Commit(self, table, change, write, done).settled)
        return done

    def retire_fence(self, fence: str, vacant: Callable[[], bool]) -> None:
        """Do nothing: as for `put`, there are no fences."""

    def remove(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Assign a revision to a removal; the future has the last state once it is durable."""
        # Assigned before the store has accepted the write. A failed write leaves a gap; reusing its number could give
        # one revision to two states.
        self._assigned += 1
        revision = self._assigned
        # A watcher resumes from the revision of the event, so the last state carries that of the removal.
        last = replace(last, metadata=replace(last.metadata, resource_version=str(revision)))
        entry = StoredObject(previous.key, last, revision)
        done: asyncio.Future[StoredObject] = asyncio.Future(loop=self._loop)
        table.under_way[entry.key] = ()
        change = StoredChange(revision, entry, previous, deleted=True)
        write = Write(table.stored_under + previous.key, revision, None)
        self._storage.commit(write, _Commit(self, table, change, write, done).settled)
        return done

    def end(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Settle a last state and its removal.

        Both are committed in one turn of the loop, so they are in one transaction of the store (`Storage.commit`).
        """
        # Kubernetes shows watchers the last state before its removal: without it they would miss the finalizer's end.
        # Its size is not checked: it may be larger than the state before, and the object could never be removed.
        self._assigned += 1
        revision, key = self._assigned, previous.key
        last = replace(last, metadata=replace(last.metadata, resource_version=str(revision)))
        body = encode_in(self._buffer, last)
        shown = StoredObject(key, last, revision, body, len(body))
        change, write = StoredChange(revision, shown, previous), Write(table.stored_under + key, revision, body)
        self._storage.commit(write, _Commit(self, table, change, write, None).settled)
        return self.remove(table, shown, last)

    def take(
        self,
        key: str,
        value: bytes | None,
        located: tuple[Table, str] | None,
        origin: Origin,
        failed: Callable[[str], None],
    ) -> None:
        """Settle a write of another server, which `LogLayout.write` encoded (None: a removal).

        The caller has compared the key's revision, and noted the write as under way in the table of ``located``, or in
        `Tables.under_way`. ``failed`` is called if the store did not keep it.
        """
        revision = self._assigned = self._assigned + 1
        write = Write(key, revision, None if value is None else numbered(value, revision))

        def settled(error: StorageError | None) -> None:
            # A resource that was not served when the write began may be now. The note is then in its table.
            place = located or self._tables.locate(key)
            if error is None:
                self.revision = revision
                self._tables.take(write, place)
                # After the tables: a follower that answers its client must not be ahead of what can be read here.
                for follower in self.followers:
                    follower.settled(write, origin)
            else:
                failed(str(error))
            if place is None:
                wake(self._tables.under_way.pop(key, ()))
            else:
                place[0].end(place[1])

        # ``settled`` may run within this call (memory store), so everything that it uses is set up before.
        self._storage.commit(write, settled)

    async def close(self) -> None:
        """Settle writes that are under way and close the store."""
        # A copy, since followers take themselves off the list when they are closed.
        for follower in tuple(self.followers):
            follower.close()
        await self._storage.close()


class _Commit(msgspec.Struct, frozen=True, gc=False):
    """A write that was handed to the store. ``done`` is its future; None for a last state whose removal is in the same
    transaction and reports the error of both."""

    log: CommitLog
    table: Table
    change: StoredChange
    write: Write
    done: asyncio.Future[StoredObject] | None

    def settled(self, error: StorageError | None) -> None:
        """Enter the change if the store has settled it, and end the write."""
        log, table, change = self.log, self.table, self.change
        if error is None:
            # Before the table is changed: observers and watchers that read the revision must not find one before their
            # event.
            log.revision = change.revision
            table.apply(change)
            if log.followers:
                for follower in log.followers:
                    follower.settled(self.write, None)
        done = self.done
        if done is None:
            return
        entry = change.entry
        if waiting := table.under_way.pop(entry.key, None):
            wake(waiting)
        try:
            if error is None:
                done.set_result(entry)
            else:
                done.set_exception(internal_error(str(error)))
        # The caller was cancelled meanwhile. The write must not be undone, because the store has it: its result has no
        # reader.
        except asyncio.InvalidStateError:
            pass
