"""The JSON of whole lists, kept while nothing in them changes: many clients list the same objects.

Joining the objects' bytes is most of what a list costs. Complete lists only, as they are without a revision of their
own in them; the metadata in front is made for each answer.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.request import Call
from cathedra.client.transport import ListOptions

__all__ = ["ListCache", "stamp_of"]

ENTRIES: Final = 8
LARGEST: Final = 8 * 1024 * 1024
"""Bytes of a list that is kept at most."""


class ListCache:
    """A few lists, the least recently read one dropped first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], tuple[tuple[Any, ...], bytes]] = {}

    def get(self, table: Table, call: Call, options: ListOptions) -> bytes | None:
        """The items of a list, if they are kept and nothing has changed since."""
        key = _key(table, call, options)
        found = self._kept.pop(key, None)
        if found is None or found[0] != stamp_of(table):
            return None
        self._kept[key] = found
        return found[1]

    def keep(
        self, table: Table, call: Call, options: ListOptions, items: bytes, stamp: tuple[Any, ...] | None = None
    ) -> None:
        """Keep the items of a complete list. ``stamp`` is the table's when the list was read (None: now)."""
        if len(items) > LARGEST:
            return
        self._kept[_key(table, call, options)] = (stamp or stamp_of(table), items)
        if len(self._kept) > ENTRIES:
            del self._kept[next(iter(self._kept))]


def _key(table: Table, call: Call, options: ListOptions) -> tuple[Any, ...]:
    return (
        table,
        call.version.type,
        call.namespace,
        call.name,
        options.label_selector,
        options.field_selector,
        options.limit,
    )


def stamp_of(table: Table) -> tuple[Any, ...]:
    """Return a value that changes with every write of a table."""
    return table.latest, id(table.definition), len(table)
