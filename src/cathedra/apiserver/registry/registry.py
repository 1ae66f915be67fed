"""Objects of the cluster: one table per resource, one revision counter, one order of writes.

A write is compared with the state it was made from, handed to the store, and entered and shown to watchers only when
the store has settled it. Meanwhile no other request can write the same object, and readers see the old state.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Final

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.apiserver.registry.commitlog import CommitLog, Origin, WriteConflict
from cathedra.apiserver.registry.deviceholders import guard_devices
from cathedra.apiserver.registry.layout import LogLayout, SharedLayout
from cathedra.apiserver.registry.sharedcommitlog import SharedCommitLog
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table, end_of
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage import primary
from cathedra.apiserver.storage.primary import PrimaryStore
from cathedra.apiserver.storage.protocol import (
    ExpiringStorage,
    MemoryStorage,
    Record,
    SharedStorage,
    Storage,
    StorageError,
    Write,
)
from cathedra.frames import FrameError, MessageReader, MessageWriter
from cathedra.kinds.definition import AnyDefinition
from cathedra.releases import NEWEST

__all__ = ["AnyStorage", "Registry", "WriteConflict"]

AnyStorage = Storage | SharedStorage
Adapt = Callable[[AnyDefinition, Any], Any]
"""Converts an object of an earlier definition to a new one."""


class Registry:
    """All objects, and the only way to change them."""

    def __init__(self, storage: AnyStorage, definitions: Iterable[AnyDefinition], release: str = NEWEST) -> None:
        """``release``: that of the server. Fields that it does not know are dropped when objects are read."""
        self.shared = isinstance(storage, SharedStorage)
        self.expiring = storage if isinstance(storage, ExpiringStorage) else None
        """The store, if its keys may expire by themselves."""
        """True if other servers write the same store.

        If so, this one learns of their writes a moment later. Reads of the latest state wait for it (`catch_up`).
        Writes do not: the store compares the revision that each was made from. A refused request is judged again
        (`cathedra.apiserver.pipeline.consistency`)."""
        self.settles_at_once = isinstance(storage, MemoryStorage)
        """True if a write ends within the call that begins it."""
        self._log: CommitLog | SharedCommitLog
        if isinstance(storage, SharedStorage):
            # The primary's values are those of its own log; etcd's are Kubernetes', so that kube-apiserver can read
            # them.
            layout = LogLayout(release) if isinstance(storage, PrimaryStore) else SharedLayout(release)
            self._tables = Tables(definitions, layout)
            self._log = SharedCommitLog(storage, self._tables)
        else:
            self._tables = Tables(definitions, LogLayout(release))
            self._log = CommitLog(storage, self._tables)
        self.by_resource = self._tables.by_resource
        """Tables by resource that is served."""

    async def load(self) -> None:
        """Read everything from the store.

        Raises:
            StorageError: it cannot be read.
        """
        await self._log.load()
        guard_devices(self._tables, self._log.retire_fence)

    async def serve_replica(self, connected: socket.socket) -> None:
        """Serve this store to an API server in a child process, at the other end of a connected unix socket.

        Only where this server alone writes its store.
        """
        assert isinstance(self._log, CommitLog), "this server alone writes its store"
        await serve_replica(self._log, self._tables, connected)

    @property
    def revision(self) -> int:
        """The revision of the last settled write."""
        return self._log.revision

    @property
    def problem(self) -> str:
        """Return the reason why the store does not work at present; "" if it does."""
        return self._log.problem

    def share_revisions(self, shared: bool) -> None:
        """Allow that writes of one resource get one revision, or forbid it. A store that this server writes alone
        never does that."""
        if isinstance(self._log, SharedCommitLog):
            self._log.share_revisions(shared)

    def catch_up(self) -> Coroutine[Any, Any, None]:
        """Wait until everything that any server on the same store acknowledged before this call can be read here.

        Raises:
            StatusError: 503 or 504, a shared store does not answer.
        """
        return self._log.catch_up()

    def table(self, resource: GroupResource) -> Table:
        """Return the table of a resource.

        Raises:
            KeyError: it is not served.
        """
        return self.by_resource[resource]

    def find(self, resource: GroupResource, key: str) -> Any | None:
        """Return the object of a key; None if it is not there, or its resource is not served."""
        try:
            entry = self.by_resource[resource].get(key)
        except KeyError:
            return None
        return None if entry is None else entry.object

    def entry(self, resource: GroupResource, key: str) -> StoredObject | None:
        """Return the state of a key; None if it is not there, or its resource is not served."""
        table = self._tables.get(resource)
        return None if table is None else table.get(key)

    def count(self, resource: GroupResource) -> int:
        """Return the number of objects of a resource; 0 if it is not served."""
        table = self._tables.get(resource)
        return 0 if table is None else len(table)

    def observe(self, resource: GroupResource, observer: Callable[[StoredChange], None]) -> None:
        """Call ``observer`` with every later write of a resource. Do nothing if it is not served."""
        table = self._tables.get(resource)
        if table is not None:
            table.observe(observer)

    def tables(self) -> Iterator[Table]:
        """Return the tables of all served resources."""
        return iter(self._tables)

    def add_table(self, definition: AnyDefinition, adapt: Adapt | None = None) -> Table:
        """Serve one more resource. Objects that the store has already are converted by ``adapt``; its history begins at
        the present revision.

        Raises:
            StorageError: an object that the store holds of it cannot be read.
        """
        table = self._tables.add(definition, self._log.revision)
        if adapt is not None:
            # Loaded twice and without events: no watch can exist before the table is returned.
            table.load(_adapted(table, definition, adapt))
        return table

    def redefine_table(self, definition: AnyDefinition, adapt: Adapt) -> None:
        """Replace the definition of a resource: its objects are converted by ``adapt``, its history begins at the
        present revision, its watches end. No write on it may be under way (`all_quiet`): it would enter an object of
        the former definition."""
        table = self.table(definition.group_resource)
        table.redefine(definition, _adapted(table, definition, adapt), self.revision)

    async def all_quiet(self, resource: GroupResource) -> None:
        """Wait until no write on any object of a resource is under way."""
        table = self._tables.get(resource)
        # As in `quiet`: further writes may begin while one is awaited.
        while table is not None and table.under_way:
            await end_of(table.under_way, next(iter(table.under_way)))

    def remove_table(self, resource: GroupResource) -> None:
        """Stop serving a resource and end its watches."""
        table = self._tables.remove(resource)
        if table is not None:
            table.close_watchers()

    async def quiet(self, table: Table, key: str) -> StoredObject | None:
        """Return the state of a key once no write on it is under way."""
        # A loop: another request may have begun a write before this task ran.
        while key in table.under_way:
            await end_of(table.under_way, key)
        return table.get(key)

    def put(
        self, table: Table, key: str, previous: StoredObject | None, obj: KubeObject
    ) -> asyncio.Future[StoredObject]:
        """Write an object that was made from ``previous`` (None: it is new). Return its state with its revision.

        The write is completed even if the future is cancelled: it may be durable already. An ``obj`` that is the
        previous one is compared with the latest state and not written.

        Raises:
            WriteConflict: ``previous`` is no longer the latest state.
            StatusError: 409, it contradicts another object (`Table.check`); 500, the object is too large; 500, 503 or
                504, from the future: the store failed.
        """
        if table.get(key) is not previous:
            raise WriteConflict(key)
        # Nothing has changed: no revision is used, as in Kubernetes, so watchers see no event.
        if previous is not None and obj is previous.object:
            return self._compared(table, key, previous, previous)
        # Two writes of one object would be compared with the same state, and the second would overwrite the first.
        if key in table.under_way:
            raise WriteConflict(key)
        fences = () if table.check is None else table.check(key, previous, obj)
        return self._log.put(table, key, previous, obj, fences)

    def dry_run(
        self, table: Table, key: str, previous: StoredObject | None, obj: KubeObject
    ) -> asyncio.Future[StoredObject]:
        """Compare ``previous`` with the latest state, as `put`, `remove` and `end` do, and write nothing. Return the
        state that ``obj`` would be.

        Raises:
            WriteConflict: ``previous`` is no longer the latest state.
        """
        if table.get(key) is not previous:
            raise WriteConflict(key)
        return self._compared(table, key, previous, StoredObject(key, obj, previous.revision if previous else 0))

    def remove(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Remove an object whose last state is ``last``. Return that, with the revision of the removal. As `put`, also
        in what it raises."""
        _check_removal(table, previous)
        return self._log.remove(table, previous, last)

    def end(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Write the last state of an object and remove it. Watchers see both, each at a revision of its own.

        A store that this process writes alone keeps both or neither. On a shared store these are two writes, as in
        Kubernetes: etcd accepts no key twice in a transaction. As `remove`, also in what it raises.
        """
        _check_removal(table, previous)
        return self._log.end(table, previous, last)

    def _compared(
        self, table: Table, key: str, previous: StoredObject | None, entry: StoredObject
    ) -> asyncio.Future[StoredObject]:
        """Return ``entry`` if ``previous`` is the latest state of any server. No write compares it."""
        # On a shared store another server may have written the object, and this one not have seen it yet. A dry run
        # that succeeds on the outdated state would promise what the write itself cannot keep.
        if self.shared:
            return asyncio.ensure_future(self._compared_with_latest(table, key, previous, entry))
        compared: asyncio.Future[StoredObject] = asyncio.get_running_loop().create_future()
        compared.set_result(entry)
        return compared

    async def _compared_with_latest(
        self, table: Table, key: str, previous: StoredObject | None, entry: StoredObject
    ) -> StoredObject:
        # The comparison below is only meaningful against a state that includes all acknowledged writes.
        await self.catch_up()
        if table.get(key) is not previous:
            raise WriteConflict(key)
        return entry

    def close_watchers(self) -> None:
        """End the watches of all tables."""
        for table in self._tables:
            table.close_watchers()

    async def close(self) -> None:
        """End every watch, settle writes under way, and close the store."""
        self.close_watchers()
        await self._log.close()


def _check_removal(table: Table, previous: StoredObject) -> None:
    """Raise WriteConflict if ``previous`` is no longer the latest state, or a write of its key is under way."""
    # Compared by identity: each write makes a new entry, so another object means another revision.
    if previous.key in table.under_way or table.get(previous.key) is not previous:
        raise WriteConflict(previous.key)


def _adapted(table: Table, definition: AnyDefinition, adapt: Adapt) -> dict[str, StoredObject]:
    return {
        entry.key: StoredObject(entry.key, adapt(definition, entry.object), entry.revision) for entry in table.entries()
    }


# Service of a store to the API servers in child processes, which write it as they would write etcd.
#
# Such a server admits, defaults and validates by itself. Here a write's revision is compared, the next revision
# assigned, and the write committed. Every server is sent what was settled, in order. A connection is a pair of sockets
# that the child inherited, so there is nothing to listen on.

LOG: Final = logging.getLogger(__name__)
MOST_WAITING: Final = 256 * 1024 * 1024
"""Bytes that may wait for a server. One that takes no more has stopped, and its process is better started again."""


async def serve_replica(log: CommitLog, tables: Tables, connected: socket.socket) -> None:
    """Serve a store at the other end of a connected unix socket, until either end closes it."""
    connected.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(lambda: ReplicaConnection(log, tables), sock=connected)


class ReplicaConnection(asyncio.Protocol):
    """The connection of one server. It gets the stored objects first, then settled writes."""

    def __init__(self, log: CommitLog, tables: Tables) -> None:
        self._log, self._tables = log, tables
        self._reader = MessageReader(primary.FromReplica, primary.FRAME_BYTES)
        self._transport: Any = None
        self._outgoing: MessageWriter | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the stored objects, and follow the log from the same turn: no write falls between the two."""
        self._transport = transport
        self._outgoing = MessageWriter(self._transport, at_once=primary.AT_ONCE)
        self._send_content()
        # After the content and in the same turn: a write between the two would be sent twice or never.
        self._log.followers.append(self)

    def data_received(self, data: bytes) -> None:
        """Take writes and questions."""
        try:
            for batch in self._reader.feed(data):
                for message in batch:
                    if type(message) is primary.Question:
                        self._send(primary.Settled(message.id, self._log.revision))
                    else:
                        self._write(message)
        except FrameError as error:
            LOG.error("an API server beside this one does not keep to the protocol and is cut: %s", error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop following. Writes under way are completed: they may be durable already."""
        if self in self._log.followers:
            self._log.followers.remove(self)
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None

    def close(self) -> None:
        """Close the connection; the process at the other end ends with it."""
        self._transport.close()

    def settled(self, write: Write, origin: Origin | None) -> None:
        """Send a settled write; to the server that made it, its revision alone."""
        if origin is not None and origin[0] is self:
            # The value is left out: the server kept what it sent. For large objects this halves the traffic.
            self._send(primary.Settled(origin[1], write.revision))
            return
        self._send(primary.Change(write.key, write.revision, write.value), len(write.value or b""))
        # Messages cannot be dropped, because the server could not notice the gap. Its process starts again with a full
        # load.
        if self._transport.get_write_buffer_size() > MOST_WAITING:
            LOG.error("an API server beside this one takes no more messages and is cut")
            self.close()

    def _write(self, message: primary.Forward) -> None:
        located = self._tables.locate(message.key)
        if located is None:
            writing, key, current = self._tables.under_way, message.key, self._tables.unclaimed_revision(message.key)
        else:
            (table, key), writing = located, located[0].under_way
            current = 0 if (found := table.get(key)) is None else found.revision
        if key in writing:
            # Writes of one object wait for each other, so the next one is compared with a settled state. The comparison
            # is repeated from the start: the write that was waited for may have changed the revision.
            end_of(writing, key).add_done_callback(lambda _: self._write(message))
            return
        if current != message.expected or not self._agrees(message, located):
            self._send(primary.Refused(message.id, current))
            return
        # Reserved before the log is called: it may settle at once, and a later message must already find the key taken.
        writing[key] = ()

        def failed(error: str) -> None:
            self._send(primary.Refused(message.id, 0, error))

        self._log.take(message.key, message.value, located, (self, message.id), failed)

    def _agrees(self, message: primary.Forward, located: tuple[Table, str] | None) -> bool:
        """Return False if the write contradicts another object. The server that sent it compares it by itself then,
        with all that was settled here before the refusal."""
        if located is None or message.value is None or (check := located[0].check) is None:
            return True
        table, key = located
        record = Record(message.key, message.expected, message.value)
        try:
            check(key, table.get(key), self._tables.layout.read(table.definition, record))
        except StatusError:
            return False
        # What cannot be read allocates nothing here; `Tables.take` passes over it.
        except StorageError:
            return True
        return True

    def _send(self, message: Any, size: int = 0) -> None:
        if self._outgoing is not None:
            self._outgoing.put(message, size + primary.ENVELOPE_BYTES)

    def _send_content(self) -> None:
        for record in self._tables.records():
            self._send(primary.Change(record.key, record.revision, record.value), len(record.value))
        self._send(primary.Settled(primary.LOADED, self._log.revision))
