"""The history of every resource is kept for five to ten minutes (docs/spec/apimachinery.md §9).

So long can a watch or a list be resumed, as between two compactions of Kubernetes' etcd. Each change holds two states
of an object, 3 KB: without an end in time a cluster would grow until every table has its ten thousand.
"""

from __future__ import annotations

from typing import Final

from cathedra.apiserver.verbs.context import ServerContext

__all__ = ["TRIM_SECONDS", "HistoryTrimming"]

TRIM_SECONDS: Final = 300.0
"""The interval of kube-apiserver's compaction."""


class HistoryTrimming:
    """Drops what is older; `run` until cancelled."""

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
