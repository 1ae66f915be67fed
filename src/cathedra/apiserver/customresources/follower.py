"""Custom resources at a replica: what the primary has established is served, and nothing is decided here.

The primary serves a kind before it says so, and takes it away before it says that. So what is served here is served
there, but for a moment after it was taken away. Definitions come with all other writes, in one order: a server that has
caught up with its primary serves the same kinds.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.custom.definitions import CRDS
from cathedra.apiserver.customresources.served import ServedDefinitions, is_established
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.protocol import StorageError

__all__ = ["DefinitionFollower"]

LOG: Final = logging.getLogger(__name__)


class DefinitionFollower:
    """Follows the primary's definitions. Made by the server, started once, closed with it."""

    def __init__(self, registry: Registry, served: ServedDefinitions) -> None:
        self._registry = registry
        self._served = served
        self._waiting: dict[str, asyncio.Task[None]] = {}
        """Definitions with a new generation that waits for the end of writes on their instances."""

    def start(self) -> None:
        """Serve what is established already, and follow what comes. Does nothing where definitions are not served."""
        if CRDS not in self._registry.by_resource:
            return
        for entry in self._registry.table(CRDS).entries():
            self._follow(entry.object)
        self._registry.observe(CRDS, self._changed)

    async def close(self) -> None:
        """Stop waiting."""
        waiting = tuple(self._waiting.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    def _changed(self, change: StoredChange) -> None:
        if change.deleted:
            self._served.withdraw(change.entry.key)
        else:
            self._follow(change.entry.object)

    def _follow(self, obj: CustomResourceDefinition) -> None:
        """Serve a definition as the primary does, as soon as no write on its instances is under way."""
        name = obj.metadata.name
        if not is_established(obj) or self._served.is_current(obj):
            return
        resource = self._served.resource_of(name)
        if resource is not None and self._served.name_conflict(obj) is not None:
            return  # the primary goes on with the generation before
        if resource is not None and self._registry.table(resource).under_way:
            if name not in self._waiting:
                self._waiting[name] = asyncio.create_task(self._follow_later(name, resource), name=f"definition {name}")
            return
        try:
            self._served.serve(obj)
        except StorageError as error:
            LOG.error("the definition %s cannot be served: %s", name, error)

    async def _follow_later(self, name: str, resource: GroupResource) -> None:
        await self._registry.all_quiet(resource)
        del self._waiting[name]
        entry = self._registry.entry(CRDS, name)
        if entry is not None:
            self._follow(entry.object)
