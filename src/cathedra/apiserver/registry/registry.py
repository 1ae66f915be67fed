"""Every object of the cluster: one table per resource, one revision counter, one order of writes.

A write is compared with the state it was made from, handed to the store, and entered and shown to watchers only when
the store has settled it. Meanwhile nobody else can write the same object, and readers see the old state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cathedra.api.definition import ResourceDefinition
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import decode, encode, replace
from cathedra.apiserver.registry.entry import Entry
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.watching import Change
from cathedra.apiserver.storage.protocol import Record, Storage, StorageError, Write

__all__ = ["Registry", "WriteConflict"]

Adapt = Callable[[ResourceDefinition[Any], Any], Any]
"""Makes an object of an earlier definition fit a new one."""


class WriteConflict(Exception):
    """Somebody else wrote the object since it was read: read it again and try once more."""


class Registry:
    """The objects, and the one way to change them."""

    def __init__(self, storage: Storage, definitions: Iterable[ResourceDefinition[Any]]) -> None:
        self._storage = storage
        self._tables: dict[GroupResource, Table] = {
            d.group_resource: Table(d) for d in definitions if d.stored_as is None
        }
        self._assigned = 0
        self._settled = 0
        self._pending: dict[tuple[Table, str], asyncio.Future[Entry]] = {}
        self._unclaimed: dict[GroupResource, list[Record]] = {}

    async def load(self) -> None:
        """Read everything the store holds.

        Raises:
            StorageError: it cannot be read.
        """
        snapshot = await self._storage.load()
        self._assigned = self._settled = snapshot.revision
        loaded: dict[GroupResource, dict[str, Entry]] = {}
        for record in snapshot.records:
            group, resource, key = _split_storage_key(record.key)
            table = self._tables.get(GroupResource(group, resource))
            if table is None:
                self._unclaimed.setdefault(GroupResource(group, resource), []).append(record)
                continue
            loaded.setdefault(table.definition.group_resource, {})[key] = _entry(table.definition, record)
        for group_resource, table in self._tables.items():
            fresh = Table(table.definition, floor=snapshot.revision)
            fresh.load(loaded.get(group_resource, {}))
            self._tables[group_resource] = fresh

    @property
    def revision(self) -> int:
        """The revision of the last settled write."""
        return self._settled

    def table(self, resource: GroupResource) -> Table:
        """The objects of a resource.

        Raises:
            KeyError: it is not served.
        """
        return self._tables[resource]

    def find(self, resource: GroupResource, key: str) -> Any | None:
        """The object of that key, if the resource is served and the object is there."""
        table = self._tables.get(resource)
        entry = table.get(key) if table else None
        return entry.object if entry else None

    def observe(self, resource: GroupResource, observer: Callable[[Change], None]) -> None:
        """Call ``observer`` with every later write of a resource; nothing happens if it is not served."""
        table = self._tables.get(resource)
        if table is not None:
            table.observe(observer)

    def tables(self) -> Iterator[Table]:
        """All tables."""
        return iter(self._tables.values())

    def add_table(self, definition: ResourceDefinition[Any], adapt: Adapt | None = None) -> Table:
        """Serve one more resource; its history begins now. What the store held of it is there at once, as ``adapt``
        makes it fit the definition."""
        table = self._tables[definition.group_resource] = Table(definition, floor=self._settled)
        entries: dict[str, Entry] = {}
        for record in self._unclaimed.pop(definition.group_resource, ()):
            entry = _entry(definition, record)
            if adapt is not None:
                entry = Entry(entry.key, adapt(definition, entry.object), entry.revision)
            entries[entry.key] = entry
        table.load(entries)
        return table

    def redefine_table(self, definition: ResourceDefinition[Any], adapt: Adapt) -> None:
        """Go on with another definition of a resource: its objects are adapted, its history begins anew, its watches
        end. No write on it may be under way."""
        table = self._tables[definition.group_resource]
        entries = {
            entry.key: Entry(entry.key, adapt(definition, entry.object), entry.revision) for entry in table.entries()
        }
        table.redefine(definition, entries, self._settled)

    async def all_quiet(self, resource: GroupResource) -> None:
        """Wait until no write on any object of a resource is under way."""
        table = self._tables.get(resource)
        while pending := [future for (one, _), future in self._pending.items() if one is table]:
            await asyncio.wait(pending)

    def remove_table(self, resource: GroupResource) -> None:
        """Stop serving a resource and end its watches."""
        table = self._tables.pop(resource, None)
        if table is not None:
            table.close_watchers()

    async def quiet(self, table: Table, key: str) -> Entry | None:
        """The object of that key once no write on it is under way."""
        while (pending := self._pending.get((table, key))) is not None:
            await asyncio.wait([pending])
        return table.get(key)

    async def put(self, table: Table, key: str, previous: Entry | None, obj: Any) -> Entry:
        """Write an object that was made from ``previous`` (None: it is new) and return it with its revision.

        Raises:
            WriteConflict: ``previous`` is no longer the latest state.
            StorageError: the store failed; nothing changed.
        """
        self._check(table, key, previous)
        self._assigned += 1
        revision = self._assigned
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=str(revision)))
        entry = Entry(key, obj, revision)
        body = encode(obj)
        entry.keep_body(table.definition.type, body)
        return await self._commit(table, Change(revision, entry, previous), body)

    async def remove(self, table: Table, previous: Entry, last: Any) -> Entry:
        """Remove an object whose last state is ``last``; the answer carries the revision of the removal.

        Raises:
            WriteConflict: ``previous`` is no longer the latest state.
            StorageError: the store failed; nothing changed.
        """
        self._check(table, previous.key, previous)
        self._assigned += 1
        revision = self._assigned
        last = replace(last, metadata=replace(last.metadata, resource_version=str(revision)))
        change = Change(revision, Entry(previous.key, last, revision), previous, deleted=True)
        return await self._commit(table, change, None)

    def close_watchers(self) -> None:
        """End every watch."""
        for table in self._tables.values():
            table.close_watchers()

    async def close(self) -> None:
        """End every watch, settle what is under way, let go of the store."""
        self.close_watchers()
        await self._storage.close()

    def _check(self, table: Table, key: str, previous: Entry | None) -> None:
        if table.get(key) is not previous or (table, key) in self._pending:
            raise WriteConflict(key)

    async def _commit(self, table: Table, change: Change, body: bytes | None) -> Entry:
        key = change.entry.key
        done: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        self._pending[table, key] = done

        def settled(error: StorageError | None) -> None:
            del self._pending[table, key]
            if error is not None:
                done.set_exception(error)
                done.exception()  # a caller that was cancelled meanwhile asks no more
                return
            self._settled = change.revision
            table.apply(change)
            done.set_result(change.entry)

        self._storage.commit(Write(_storage_key(table.definition, key), change.revision, body), settled)
        # The write goes on even if the caller is cancelled: it may be durable already.
        return await asyncio.shield(done)


def _entry(definition: ResourceDefinition[Any], record: Record) -> Entry:
    _, _, key = _split_storage_key(record.key)
    obj: Any = decode(definition.type, record.value)
    obj = replace(obj, metadata=replace(obj.metadata, resource_version=str(record.revision)))
    return Entry(key, obj, record.revision)


def _storage_key(definition: ResourceDefinition[Any], key: str) -> str:
    return f"/{definition.group}/{definition.plural}/{key}"


def _split_storage_key(key: str) -> tuple[str, str, str]:
    _, group, resource, rest = key.split("/", 3)
    return group, resource, rest
