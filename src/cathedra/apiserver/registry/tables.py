"""The tables of all resources, found by resource or by the key under which a store keeps an object.

Records of resources that are not served (yet) are kept aside: the definition of a custom resource is itself an object,
so its resource begins to be served after the store has been read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from cathedra.api.scheme import GroupResource
from cathedra.api.struct import encode
from cathedra.apiserver.registry.layout import Layout
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.protocol import PastWrite, Record, StorageError, StoreContent
from cathedra.kinds.definition import AnyDefinition

__all__ = ["Tables"]

LOG: Final = logging.getLogger(__name__)


class Tables:
    """Every table, and what belongs to none."""

    def __init__(self, definitions: Iterable[AnyDefinition], layout: Layout) -> None:
        self._layout = layout
        self._tables: dict[GroupResource, Table] = {}
        self.get = self._tables.get
        """The table of a resource; None if it is not served."""
        self.by_resource: Mapping[GroupResource, Table] = self._tables
        self._by_prefix: dict[str, Table] = {}
        self._unclaimed: dict[str, Record] = {}
        for definition in definitions:
            if definition.stored_as is None:
                self._enter(Table(definition, stored_under=self._prefix(definition)))

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def add(self, definition: AnyDefinition, floor: int) -> Table:
        """Serve one more resource, with what the store already holds of it; its history begins at ``floor``.

        Raises:
            StorageError: an object that the store holds of it cannot be read.
        """
        prefix = self._prefix(definition)
        table = Table(definition, floor=floor, stored_under=prefix)
        claimed = [record for key, record in self._unclaimed.items() if key.startswith(prefix)]
        table.load({record.key.removeprefix(prefix): self.entry(table, record) for record in claimed})
        for record in claimed:
            del self._unclaimed[record.key]
        self._enter(table)
        return table

    def remove(self, resource: GroupResource) -> Table | None:
        """Stop serving a resource."""
        table = self._tables.pop(resource, None)
        if table is not None:
            del self._by_prefix[table.stored_under]
        return table

    def load(self, snapshot: StoreContent) -> None:
        """Make the tables hold what the snapshot holds, and nothing else.

        Raises:
            StorageError: an object cannot be read; nothing changed.
        """
        loaded: dict[GroupResource, dict[str, StoredObject]] = {}
        unclaimed: dict[str, Record] = {}
        for record in snapshot.records:
            found = self.locate(record.key)
            if found is None:
                unclaimed[record.key] = record
                continue
            entry = self.entry(found[0], record)
            loaded.setdefault(found[0].definition.group_resource, {})[entry.key] = entry
        self._unclaimed = unclaimed
        for resource, table in self._tables.items():
            table.restart(loaded.get(resource, {}), snapshot.revision)
        if snapshot.recent_after is not None:
            try:
                self._remember(snapshot.recent, snapshot.recent_after)
            except StorageError as error:
                # What is stored now has been read. Without the history watches begin with a list.
                LOG.warning("the changes from before this start are not kept: %s", error)

    def _remember(self, recent: Iterable[PastWrite], after: int) -> None:
        """Give tables the history of before the start, so that a watch that has missed little goes on."""
        histories: dict[GroupResource, list[StoredChange]] = {resource: [] for resource in self._tables}
        latest: dict[str, StoredObject | None] = {}
        for past in recent:
            write, located = past.write, self.locate(past.write.key)
            if located is None:
                continue
            table, key = located
            if write.key not in latest:
                latest[write.key] = None if past.previous is None else self._past(table, key, past.previous, None)
            previous = latest[write.key]
            if write.value is None:
                if previous is None:
                    continue
                entry, latest[write.key] = previous.at(write.revision), None
            else:
                present = table.get(key)
                if present is not None and present.revision == write.revision:
                    entry = present
                else:
                    entry = self._past(table, key, Record(write.key, write.revision, write.value), previous)
                latest[write.key] = entry
            change = StoredChange(write.revision, entry, previous, deleted=write.value is None)
            histories[table.definition.group_resource].append(change)
        for resource, table in self._tables.items():
            table.remember(histories[resource], after)

    def _past(self, table: Table, key: str, record: Record, previous: StoredObject | None) -> StoredObject:
        return self.later(table, key, record.revision, record.value, previous)

    def locate(self, storage_key: str) -> tuple[Table, str] | None:
        """The table that a stored key belongs to, and the key within it."""
        end = storage_key.find("/", 1)
        while end > 0:
            table = self._by_prefix.get(storage_key[: end + 1])
            if table is not None:
                return table, storage_key[end + 1 :]
            end = storage_key.find("/", end + 1)
        return None

    def entry(self, table: Table, record: Record) -> StoredObject:
        """A record's object as the table holds it.

        Raises:
            StorageError: it cannot be read.
        """
        key = record.key.removeprefix(table.stored_under)
        return StoredObject(key, self._layout.read(table.definition, record), record.revision)

    def later(self, table: Table, key: str, revision: int, body: bytes, previous: StoredObject | None) -> StoredObject:
        """The object that ``body`` spells, with its resource version, as the table holds it. It is read when it is
        asked for; at once only where several forms may be stored, of which it has one.

        Raises:
            StorageError: it cannot be read.
        """
        if table.definition.stored_types:
            return self.entry(table, Record(table.stored_under + key, revision, body))
        return StoredObject.unread(key, revision, table.definition.type, body, previous)

    def spelled(self, table: Table, entry: StoredObject) -> bytes:
        """An object as a store of one process keeps it."""
        return entry.body_in(table.definition.type) or encode(entry.object)

    def records(self) -> Iterator[Record]:
        """Everything, as a store of one process keeps it."""
        for table in self._tables.values():
            for entry in table.entries():
                yield Record(table.stored_under + entry.key, entry.revision, self.spelled(table, entry))
        yield from self._unclaimed.values()

    def set_aside(self, key: str, record: Record | None) -> None:
        """Keep what no table claims, or forget it (None)."""
        if record is None:
            self._unclaimed.pop(key, None)
        else:
            self._unclaimed[key] = record

    def _enter(self, table: Table) -> None:
        self._tables[table.definition.group_resource] = table
        self._by_prefix[table.stored_under] = table

    def _prefix(self, definition: AnyDefinition) -> str:
        return f"{self._layout.prefix(definition)}/"
