"""The containers of one pod as they are now. Its runner changes them, and everything else reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from cathedra.node.containers.records import ContainerRecord

__all__ = ["ContainerTable"]


class ContainerTable:
    """Records by name, in the order of the spec with init containers first; each is replaced, never changed."""

    def __init__(self, records: Iterable[ContainerRecord] = ()) -> None:
        self._records = {record.name: record for record in records}
        self._changed = asyncio.Event()

    def __getitem__(self, name: str) -> ContainerRecord:
        return self._records[name]

    def get(self, name: str) -> ContainerRecord | None:
        """A container; None: the pod has none of that name."""
        return self._records.get(name)

    @property
    def all(self) -> tuple[ContainerRecord, ...]:
        """All containers."""
        return tuple(self._records.values())

    def put(self, record: ContainerRecord) -> None:
        """Replace a container's record, or add it behind the others."""
        self._records[record.name] = record
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def next_change(self) -> asyncio.Event:
        """Set when a record is replaced the next time."""
        return self._changed

    async def until_ended(self, name: str) -> None:
        """Wait until a container does not run."""
        while self._records[name].running:
            await self._changed.wait()
