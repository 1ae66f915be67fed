"""Objects that the API server itself keeps: created if they are missing, corrected if they were changed.

Kubernetes' API server restores them every ten seconds; so does this one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.admission.plugin import AdmissionChain
from cathedra.apiserver.authentication.user import LOOPBACK
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.create import create
from cathedra.apiserver.verbs.update import update

INTERVAL: Final = 10.0
"""Seconds between two checks."""

_LOG = logging.getLogger(__name__)


class KeptObject(msgspec.Struct, frozen=True):
    """An object that must exist."""

    resource: GroupResource
    object: KubeObject
    fields: tuple[str, ...]
    """Fields whose values are kept too; others may be changed by users."""
    correct: Callable[[Any, Any], Any] | None = None
    """Found and wanted object → corrected object, if more than `fields` has to be kept."""

    def corrected(self, found: Any) -> Any:
        """Return the found object with the kept fields."""
        if self.correct is not None:
            return self.correct(found, self.object)
        return replace(found, **{name: getattr(self.object, name) for name in self.fields})


class ObjectKeeper:
    """Creates and corrects the objects; `run` until cancelled."""

    def __init__(self, server: ServerContext, objects: Sequence[KeptObject]) -> None:
        # Without admission: a webhook or policy of a user must not stop the server from keeping its own objects.
        self._server = msgspec.structs.replace(server, admission=AdmissionChain(()))
        self._objects = objects

    async def run(self) -> None:
        """Check the objects at each interval, until cancelled."""
        while True:
            await self._server.clock.sleep(INTERVAL)
            await self.reconcile()

    async def reconcile(self) -> None:
        """Create what is missing, and correct what differs, all in one commit. Failed writes are retried later."""
        await asyncio.gather(*map(self._attempt, self._objects))

    async def _attempt(self, kept: KeptObject) -> None:
        try:
            await self._keep(kept)
        except StatusError as error:
            metadata = kept.object.metadata
            _LOG.warning("%s %s/%s: %s", kept.resource.resource, metadata.namespace, metadata.name, error)

    async def _keep(self, kept: KeptObject) -> None:
        metadata = kept.object.metadata
        key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        found = self._server.registry.find(kept.resource, key)
        if found is None:
            await self._create(kept)
            return
        right = kept.corrected(found)
        if right != found:
            await update(self._server, self._call("update", kept, metadata.name), right)

    async def _create(self, kept: KeptObject) -> None:
        try:
            await create(self._server, self._call("create", kept, ""), kept.object)
        except StatusError as error:
            if not error.is_already_exists:  # another server on the same store was faster
                raise

    def _call(self, verb: str, kept: KeptObject, name: str) -> Call:
        definition = self._server.registry.table(kept.resource).definition
        return Call.on(
            definition,
            definition.versions[0],
            user=LOOPBACK,
            verb=verb,
            namespace=kept.object.metadata.namespace,
            name=name,
        )
