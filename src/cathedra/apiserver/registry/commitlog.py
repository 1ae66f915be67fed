"""The commit log of a store that this process writes alone: it numbers writes and settles them one after the other."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.status import internal_error
from cathedra.api.struct import encode, replace
from cathedra.apiserver.registry.layout import check_size
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.primary.messages import Forward
from cathedra.apiserver.storage.protocol import Storage, StorageError, Write

__all__ = ["CommitLog", "Follower", "Forwarder", "WriteConflict"]


class WriteConflict(Exception):
    """The object was written since it was read: read it again and try once more."""


class Follower(Protocol):
    """Who hears of every write once it is settled, after the tables."""

    def settled(self, table: Table, change: StoredChange, body: bytes | None, origin: Forwarder | None) -> None:
        """``body`` is the object as it is stored, if it is; ``origin`` is what `CommitLog.take` was given."""
        ...


class Forwarder(Protocol):
    """Who hears whether a write of another server has failed."""

    def failed(self, error: Exception) -> None:
        """The write changed nothing."""
        ...


class CommitLog:
    """Writes of one process, numbered here. Writes that fail end with a StatusError (500) and change nothing.

    The future of a write may be cancelled; the write goes on all the same.
    """

    def __init__(self, storage: Storage, tables: Tables) -> None:
        self._storage = storage
        self._tables = tables
        self._assigned = 0
        self._settled = 0
        self.followers: list[Follower] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        """For the futures of writes: to find out takes longer than all else about one."""

    @property
    def revision(self) -> int:
        """The revision of the last settled write."""
        return self._settled

    @property
    def healthy(self) -> bool:
        """Whether the store takes writes."""
        return self._storage.healthy

    async def load(self) -> None:
        """Read everything that was settled.

        Raises:
            StorageError: it cannot be read.
        """
        self._loop = asyncio.get_running_loop()
        snapshot = await self._storage.load()
        self._assigned = self._settled = snapshot.revision
        self._tables.load(snapshot)

    async def catch_up(self) -> None:
        """There is no other writer: what was acknowledged is here."""

    def put(
        self, table: Table, key: str, previous: StoredObject | None, obj: KubeObject
    ) -> asyncio.Future[StoredObject]:
        """Settle a new state.

        Raises:
            StatusError: 500, it is too large.
        """
        entry, body = self._next(table, key, obj)
        check_size(body)
        self._assigned = entry.revision
        return self._commit(table, StoredChange(entry.revision, entry, previous), body)

    def remove(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Settle a removal."""
        self._assigned += 1
        revision = self._assigned
        last = replace(last, metadata=replace(last.metadata, resource_version=str(revision)))
        entry = StoredObject(previous.key, last, revision)
        return self._commit(table, StoredChange(revision, entry, previous, deleted=True), None)

    def end(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Settle a last state and its removal.

        Both are committed in one turn of the loop, so they are in one transaction of the store (`Storage.commit`).
        """
        shown, body = self._next(table, previous.key, last)
        self._assigned = shown.revision
        self._show(table, StoredChange(shown.revision, shown, previous), body)
        return self.remove(table, shown, last)

    def take(self, table: Table, key: str, previous: StoredObject | None, write: Forward, origin: Forwarder) -> None:
        """Settle what another server has made of ``previous``; followers are told ``origin`` with it, and ``origin``
        is told if it fails.

        Raises:
            StorageError: it was read, and is no object of this resource; nothing changed.
        """
        if write.shown:
            body = write.numbered(self._assigned + 1)
            shown = self._tables.later(table, key, self._assigned + 1, body, previous)
            self._assigned += 1
            self._show(table, StoredChange(shown.revision, shown, previous), body)
            previous = shown
        revision = self._assigned + 1
        body = write.numbered(revision)
        entry = self._tables.later(table, key, revision, body, previous)
        self._assigned = revision
        change = StoredChange(revision, entry, previous, deleted=write.removal)
        kept = None if write.removal else body

        def settled(error: StorageError | None) -> None:
            self._end(table, change, kept, error, origin)
            if error is not None:
                origin.failed(internal_error(str(error)))

        self._storage.commit(Write(write.key, revision, kept), settled)

    async def close(self) -> None:
        """Settle what is under way and let go of the store."""
        await self._storage.close()

    def _show(self, table: Table, change: StoredChange, body: bytes) -> None:
        """Commit a last state whose removal follows in this turn of the loop. The removal ends the write of the key,
        and its error is reported."""

        def settled(error: StorageError | None) -> None:
            if error is None:
                self._enter(table, change, body)

        self._storage.commit(Write(table.stored_under + change.entry.key, change.revision, body), settled)

    def _next(self, table: Table, key: str, obj: KubeObject) -> tuple[StoredObject, bytes]:
        """Return the object at the next revision, which is not assigned yet, and its form in the store."""
        revision = self._assigned + 1
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=str(revision)))
        body = encode(obj)
        return StoredObject(key, obj, revision, {table.definition.type: body}), body

    def _commit(self, table: Table, change: StoredChange, body: bytes | None) -> asyncio.Future[StoredObject]:
        done: asyncio.Future[StoredObject] = asyncio.Future(loop=self._loop)

        def settled(error: StorageError | None) -> None:
            self._end(table, change, body, error)
            try:
                if error is None:
                    done.set_result(change.entry)
                else:
                    done.set_exception(internal_error(str(error)))
            except asyncio.InvalidStateError:
                return  # the caller was cancelled meanwhile and asks no more

        self._storage.commit(Write(table.stored_under + change.entry.key, change.revision, body), settled)
        return done

    def _end(
        self,
        table: Table,
        change: StoredChange,
        body: bytes | None,
        error: StorageError | None,
        origin: Forwarder | None = None,
    ) -> None:
        """Enter a write, unless it failed, and let those go on who wait for its end."""
        if error is None:
            self._enter(table, change, body, origin)
        table.end(change.entry.key)

    def _enter(self, table: Table, change: StoredChange, body: bytes | None, origin: Forwarder | None = None) -> None:
        self._settled = change.revision
        table.apply(change)
        for follower in self.followers:
            follower.settled(table, change, body, origin)
