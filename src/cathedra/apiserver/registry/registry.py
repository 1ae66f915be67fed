"""Every object of the cluster: one table per resource, one revision counter, one order of writes.

A write is compared with the state it was made from, handed to the store, and entered and shown to watchers only when
the store has settled it. Meanwhile no other request can write the same object, and readers see the old state.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.registry.commitlog import CommitLog, WriteConflict
from cathedra.apiserver.registry.layout import LogLayout, SharedLayout
from cathedra.apiserver.registry.replicalog import ReplicaLog
from cathedra.apiserver.registry.replicas import Replicas
from cathedra.apiserver.registry.sharedcommitlog import SharedCommitLog
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.primary.store import PrimaryStore
from cathedra.apiserver.storage.protocol import SharedStorage, Storage
from cathedra.kinds.definition import AnyDefinition

__all__ = ["AnyStorage", "Registry", "WriteConflict"]

AnyStorage = Storage | SharedStorage | PrimaryStore
"""A store of this process' own, one that servers share, or another server's."""
Adapt = Callable[[AnyDefinition, Any], Any]
"""Makes an object of an earlier definition fit a new one."""


class Registry:
    """The objects, and the one way to change them."""

    def __init__(self, storage: AnyStorage, definitions: Iterable[AnyDefinition]) -> None:
        self._log: CommitLog | SharedCommitLog | ReplicaLog
        self._replicas: Replicas | None = None
        self.shared = isinstance(storage, (SharedStorage, PrimaryStore))
        """Whether other servers write the same store, so that there may be something to `catch_up` with."""
        self.settles_at_once = not isinstance(storage, (SharedStorage, PrimaryStore)) and storage.settles_at_once
        """Whether a write is over without having given way to others."""
        self.writes_wait = self.settles_at_once or isinstance(storage, SharedStorage)
        """Whether a write waits before it begins: for others' turn, or for what other servers acknowledged."""
        self.lags = isinstance(storage, PrimaryStore)
        """Whether what other servers acknowledged may come a moment later, without a write's asking for it first: the
        primary compares the state that each was made from. So what is refused here is looked at again when this server
        `has_moved`, and what is left as it is has to be `confirmed`."""
        if isinstance(storage, PrimaryStore):
            self._tables = Tables(definitions, LogLayout())
            self._log = ReplicaLog(storage, self._tables)
        elif isinstance(storage, SharedStorage):
            layout = SharedLayout()
            self._tables = Tables(definitions, layout)
            self._log = SharedCommitLog(storage, self._tables, layout)
        else:
            self._tables = Tables(definitions, LogLayout())
            self._log = log = CommitLog(storage, self._tables)
            self._replicas = Replicas(log, self._tables)
        self.by_resource = self._tables.by_resource
        """The tables of all resources that are served."""

    async def load(self) -> None:
        """Read everything the store holds.

        Raises:
            StorageError: it cannot be read.
        """
        await self._log.load()

    async def serve_replica(self, connected: socket.socket) -> None:
        """Be the store of a process of this cluster, at the other end of a connected unix socket.

        Only where this server writes its store alone.
        """
        assert self._replicas is not None, "the store is this server's own"
        await self._replicas.serve(connected)

    @property
    def revision(self) -> int:
        """The revision of the last settled write."""
        return self._log.revision

    @property
    def healthy(self) -> bool:
        """Whether the store does its work."""
        return self._log.healthy

    async def catch_up(self) -> None:
        """Wait until everything that any server on the same store acknowledged before this call can be read here.

        Raises:
            StatusError: 503 or 504, a shared store does not answer.
        """
        await self._log.catch_up()

    async def has_moved(self, since: int) -> bool:
        """Whether other servers have acknowledged anything that was not here at a revision, and is now. If not, what
        was refused then was refused rightly.

        Raises:
            StatusError: 503 or 504, a shared store does not answer.
        """
        if not self.shared:
            return False
        await self.catch_up()
        return self.revision > since

    async def confirmed(self, table: Table, entry: StoredObject) -> None:
        """See to it that the state of an object that is to be left as it is, is the latest; no write will compare it.

        Raises:
            WriteConflict: it is not: look at the object again.
            StatusError: 503, the primary has gone.
        """
        if self.lags:
            await self.catch_up()
        if table.get(entry.key) is not entry:
            raise WriteConflict(entry.key)

    def table(self, resource: GroupResource) -> Table:
        """The objects of a resource.

        Raises:
            KeyError: it is not served.
        """
        return self.by_resource[resource]

    def find(self, resource: GroupResource, key: str) -> Any | None:
        """The object of that key, if the resource is served and the object is there."""
        try:
            entry = self.by_resource[resource].get(key)
        except KeyError:
            return None
        return None if entry is None else entry.object

    def entry(self, resource: GroupResource, key: str) -> StoredObject | None:
        """The state of that key, if the resource is served and the object is there."""
        table = self._tables.get(resource)
        return None if table is None else table.get(key)

    def count(self, resource: GroupResource) -> int:
        """How many objects of a resource there are; 0 if it is not served."""
        table = self._tables.get(resource)
        return 0 if table is None else len(table)

    def observe(self, resource: GroupResource, observer: Callable[[StoredChange], None]) -> None:
        """Call ``observer`` with every later write of a resource; nothing happens if it is not served."""
        table = self._tables.get(resource)
        if table is not None:
            table.observe(observer)

    def tables(self) -> Iterator[Table]:
        """All tables."""
        return iter(self._tables)

    def add_table(self, definition: AnyDefinition, adapt: Adapt | None = None) -> Table:
        """Serve one more resource, with what the store holds of it already, as ``adapt`` makes it fit the definition;
        its history begins now.

        Raises:
            StorageError: an object that the store holds of it cannot be read.
        """
        table = self._tables.add(definition, self._log.revision)
        if adapt is not None:
            table.load(_adapted(table, definition, adapt))
        return table

    def redefine_table(self, definition: AnyDefinition, adapt: Adapt) -> None:
        """Go on with another definition of a resource: its objects are adapted, its history begins anew, its watches
        end. No write on it may be under way."""
        table = self.table(definition.group_resource)
        table.redefine(definition, _adapted(table, definition, adapt), self.revision)

    async def all_quiet(self, resource: GroupResource) -> None:
        """Wait until no write on any object of a resource is under way."""
        table = self._tables.get(resource)
        while table is not None and table.under_way:
            await _ended(next(iter(table.under_way.values())))

    def remove_table(self, resource: GroupResource) -> None:
        """Stop serving a resource and end its watches."""
        table = self._tables.remove(resource)
        if table is not None:
            table.close_watchers()

    async def quiet(self, table: Table, key: str) -> StoredObject | None:
        """The object of that key once no write on it is under way."""
        while key in table.under_way:
            await _ended(table.under_way[key])
        return table.get(key)

    def put(
        self, table: Table, key: str, previous: StoredObject | None, obj: KubeObject
    ) -> asyncio.Future[StoredObject]:
        """Write an object that was made from ``previous`` (None: it is new); it comes back with its revision. The write
        goes on even if the future is cancelled: it may be durable already.

        Raises:
            WriteConflict: ``previous`` is no longer the latest state.
            StatusError: 500, the object is too large; 500, 503 or 504, from the future: the store failed.
        """
        if key in table.under_way or table.get(key) is not previous:
            raise WriteConflict(key)
        writing = self._log.put(table, key, previous, obj)
        if not writing.done():
            table.under_way[key] = []
        return writing

    def remove(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Remove an object whose last state is ``last``; what comes back carries the revision of the removal. As `put`,
        also in what it raises."""
        if previous.key in table.under_way or table.get(previous.key) is not previous:
            raise WriteConflict(previous.key)
        removing = self._log.remove(table, previous, last)
        if not removing.done():
            table.under_way[previous.key] = []
        return removing

    def end(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Write the last state of an object and remove it. Watchers see both, each at a revision of its own.

        A store that this process or its primary writes alone keeps both or neither. On a shared store these are two
        transactions, as in Kubernetes: etcd takes no key twice in one. As `remove`, also in what it raises.
        """
        if previous.key in table.under_way or table.get(previous.key) is not previous:
            raise WriteConflict(previous.key)
        ending = self._log.end(table, previous, last)
        if not ending.done():
            table.under_way[previous.key] = []
        return ending

    def close_watchers(self) -> None:
        """End every watch."""
        for table in self._tables:
            table.close_watchers()

    async def close(self) -> None:
        """End every watch, settle what is under way, let go of the store."""
        self.close_watchers()
        if self._replicas is not None:
            self._replicas.close()
        await self._log.close()


async def _ended(waiting: list[asyncio.Future[None]]) -> None:
    """Wait for the end of a write, among others."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.append(ended)
    await ended


def _adapted(table: Table, definition: AnyDefinition, adapt: Adapt) -> dict[str, StoredObject]:
    return {
        entry.key: StoredObject(entry.key, adapt(definition, entry.object), entry.revision) for entry in table.entries()
    }
