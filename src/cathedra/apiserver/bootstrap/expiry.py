"""Removal of old events and of old changes, without which a busy cluster would grow for ever.

Events end an hour after they were last written (docs/spec/apimachinery.md §18). In Kubernetes etcd ends them, with a
lease that the events of a minute share. Here the server removes them, whatever the store, a minute's events at a time.

The history of every resource is kept for five to ten minutes (docs/spec/apimachinery.md §9), in which a watch or a list
can be resumed, as between two compactions of Kubernetes' etcd. Each change holds two states of an object, 3 KB.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice, takewhile
from typing import Any, Final

from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.apiserver.registry.registry import WriteConflict
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.verbs.context import ServerContext

_LOG = logging.getLogger(__name__)

EVENT_SECONDS: Final = 3600.0
"""Seconds from the last write of an event to its removal; the default of kube-apiserver's ``--event-ttl``."""
PASS_SECONDS: Final = 60.0
"""Further seconds that an event may stay, so that many are removed together."""
_EVENTS: Final = GroupResource("", "events")
_TOGETHER: Final = 256
"""Removals that share a commit; requests are served between two of those."""


class EventExpiry:
    """Removes expired events; `run` until cancelled."""

    def __init__(self, server: ServerContext) -> None:
        self._registry = server.registry
        self._clock = server.clock
        self._written: dict[str, float] = {}
        """Times of the last writes of events, the oldest first: seconds since the Unix epoch."""
        self._some = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of events that will expire."""
        return len(self._written)

    async def run(self) -> None:
        """Remove events as they become an hour old; those from before a restart count from the time in them."""
        table = self._registry.table(_EVENTS)
        found = sorted((min(_last_written(one.object), self._clock.now()), one.key) for one in table.entries())
        self._written = {key: at for at, key in found}
        self._registry.observe(_EVENTS, self._see)
        while True:
            while not self._written:
                self._some.clear()
                await self._some.wait()
            oldest = next(iter(self._written.values()))
            await self._clock.sleep(max(oldest + EVENT_SECONDS - self._clock.now(), PASS_SECONDS))
            await self._expire(table)

    def _see(self, change: StoredChange) -> None:
        key = change.entry.key
        self._written.pop(key, None)
        if not change.deleted:
            self._written[key] = self._clock.now()
            self._some.set()

    async def _expire(self, table: Table) -> None:
        last = self._clock.now() - EVENT_SECONDS
        due = iter([key for key, _ in takewhile(lambda one: one[1] <= last, self._written.items())])
        while together := list(islice(due, _TOGETHER)):
            await asyncio.gather(*(self._remove(table, key) for key in together))

    async def _remove(self, table: Table, key: str) -> None:
        entry = table.get(key)
        if entry is None:
            return
        try:
            await self._registry.remove(table, entry, entry.object)
        except WriteConflict:
            return  # it is written at this moment, and its hour begins anew
        except StatusError as error:
            _LOG.warning("event %s stays for another minute: %s", key, error)


def _last_written(event: Any) -> float:
    """By the times that servers have put into its metadata."""
    metadata = event.metadata
    times = [metadata.creation_timestamp, *(one.time for one in metadata.managed_fields)]
    return max((one.timestamp for one in times if one is not None), default=0.0)


# --- history of changes ---------------------------------------------------------------------------------------------


TRIM_SECONDS: Final = 300.0
"""The interval of kube-apiserver's compaction."""


class HistoryTrimming:
    """Removes older ones; `run` until cancelled."""

    def __init__(self, server: ServerContext) -> None:
        self._registry = server.registry
        self._clock = server.clock

    async def run(self) -> None:
        """At each interval, drop the changes up to where the one before it ended."""
        until = self._registry.revision
        while True:
            await self._clock.sleep(TRIM_SECONDS)
            reached = self._registry.revision
            for table in self._registry.tables():
                table.trim(until)
            until = reached
