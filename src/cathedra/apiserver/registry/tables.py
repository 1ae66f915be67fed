"""Tables of all resources, found by resource or by an object's key in the store.

Records of resources that are not served are kept unclaimed. The definition of a custom resource is itself an object, so
its resource begins to be served after the store has been read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from cathedra.api.parts import SharedParts
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import decode, encode
from cathedra.apiserver.registry.layout import Decode, Layout
from cathedra.apiserver.registry.storedobject import EncodedForms, StoredObject
from cathedra.apiserver.registry.table import Table, UnderWay
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.protocol import PastWrite, Record, StorageError, StoreContent, Write
from cathedra.kinds.definition import AnyDefinition

LOG: Final = logging.getLogger(__name__)


class Tables:
    """Every table, and the records that belong to none."""

    def __init__(self, definitions: Iterable[AnyDefinition], layout: Layout) -> None:
        self.layout = layout
        self._encoded = EncodedForms()
        self._tables: dict[GroupResource, Table] = {}
        # The bound method of the dictionary: a method here would cost one more call in every request.
        self.get = self._tables.get
        """Return the table of a resource; None if it is not served."""
        self.by_resource: Mapping[GroupResource, Table] = self._tables
        self._by_prefix: dict[str, Table] = {}
        self._unclaimed: dict[str, Record] = {}
        self.under_way: UnderWay = {}
        """As `Table.under_way`, for keys that no table claims."""
        for definition in definitions:
            # A kind that is served in two groups has one table. Two would show different objects under the two names.
            if definition.stored_as is None:
                self._enter(Table(definition, stored_under=self._prefix(definition), encoded=self._encoded))

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def add(self, definition: AnyDefinition, floor: int) -> Table:
        """Add a table, with the objects that the store already holds of it. Its history begins at ``floor``.

        Raises:
            StorageError: an object that the store holds of it cannot be read.
        """
        prefix = self._prefix(definition)
        table = Table(definition, floor=floor, stored_under=prefix, encoded=self._encoded)
        claimed = [record for key, record in self._unclaimed.items() if key.startswith(prefix)]
        # Nothing is removed from the unclaimed records before all were read: if one fails, the definition can be
        # corrected and tried again.
        table.load({record.key.removeprefix(prefix): self.entry(table, record) for record in claimed})
        for record in claimed:
            del self._unclaimed[record.key]
        # Another server may have begun to write objects of the resource before it was served here.
        for key in [key for key in self.under_way if key.startswith(prefix)]:
            table.under_way[key.removeprefix(prefix)] = self.under_way.pop(key)
        self._enter(table)
        return table

    def remove(self, resource: GroupResource) -> Table | None:
        """Remove the table of a resource, and return it; None if it was not served."""
        table = self._tables.pop(resource, None)
        if table is not None:
            del self._by_prefix[table.stored_under]
        return table

    def load(self, snapshot: StoreContent) -> None:
        """Replace the content of all tables with a snapshot.

        Raises:
            StorageError: an object cannot be read; nothing changed.
        """
        loaded: dict[GroupResource, dict[str, StoredObject]] = {}
        unclaimed: dict[str, Record] = {}
        # One after the other in their order, so that neighbours share parts; the decoder ends with this call.
        shared = SharedParts()
        for record in snapshot.records:
            found = self.locate(record.key)
            if found is None:
                unclaimed[record.key] = record
                continue
            entry = self.entry(found[0], record, shared.read)
            loaded.setdefault(found[0].definition.group_resource, {})[entry.key] = entry
        # Everything was read before anything is replaced, so an error leaves the tables as they were.
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
        """Set the tables' history from before the start, so that a watch that has missed little continues."""
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
                # A removal of an object that the history does not know shows nothing to anyone.
                if previous is None:
                    continue
                entry, latest[write.key] = previous.at(write.revision), None
            else:
                present = table.get(key)
                # The last state is shared with the table: readers of the history and of the table then share its
                # encoded bytes.
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
        return self.layout.stored(table.definition, key, record.revision, record.value, previous)

    def locate(self, storage_key: str) -> tuple[Table, str] | None:
        """Return the table of a stored key, and the key in it; None if no resource of that prefix is served."""
        # Prefixes have one to three segments, depending on layout and group. The shortest one that is served wins; none
        # is the beginning of another.
        end = storage_key.find("/", 1)
        while end > 0:
            table = self._by_prefix.get(storage_key[: end + 1])
            if table is not None:
                return table, storage_key[end + 1 :]
            end = storage_key.find("/", end + 1)
        return None

    def entry(self, table: Table, record: Record, decoded: Decode = decode) -> StoredObject:
        """Return the state of a record, whose JSON ``decoded`` decodes.

        Raises:
            StorageError: it cannot be read.
        """
        key = record.key.removeprefix(table.stored_under)
        return StoredObject(key, self.layout.read(table.definition, record, decoded), record.revision)

    def take(self, write: Write, located: tuple[Table, str] | None) -> None:
        """Enter a settled write of another server, at what `locate` returns for its key. A value that cannot be read is
        logged and passed over."""
        if located is None:
            if write.value is None:
                # The removal may be of a record that arrived before this server loaded.
                self._unclaimed.pop(write.key, None)
            else:
                self._unclaimed[write.key] = Record(write.key, write.revision, write.value)
            return
        table, key = located
        previous = table.get(key)
        if write.value is None:
            if previous is not None:
                table.apply(StoredChange(write.revision, previous.at(write.revision), previous, deleted=True))
            return
        try:
            entry = self.layout.stored(table.definition, key, write.revision, write.value, previous)
        except StorageError as error:
            # One unreadable object must not end the stream of all others: this server would never be current again.
            LOG.error("passed over: %s", error)
            return
        table.apply(StoredChange(write.revision, entry, previous))

    def unclaimed_revision(self, storage_key: str) -> int:
        """Return the revision of a record that no table claims; 0 if there is none."""
        found = self._unclaimed.get(storage_key)
        return 0 if found is None else found.revision

    def unclaimed_keys(self, prefix: str) -> list[str]:
        """Return the keys of the records that no table claims and that begin with a prefix."""
        return [key for key in self._unclaimed if key.startswith(prefix)]

    def records(self) -> Iterator[Record]:
        """Return every object as a log keeps it."""
        for table in self._tables.values():
            kind = table.definition.type
            for entry in table.entries():
                yield Record(
                    table.stored_under + entry.key, entry.revision, entry.body_in(kind) or encode(entry.object)
                )
        yield from self._unclaimed.values()

    def _enter(self, table: Table) -> None:
        self._tables[table.definition.group_resource] = table
        self._by_prefix[table.stored_under] = table

    def _prefix(self, definition: AnyDefinition) -> str:
        return f"{self.layout.prefix(definition)}/"
