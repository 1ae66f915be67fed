"""Deleted persistent volumes go when no claim is bound to them (docs/spec/controllers.md §11).

Admission protects every new volume by a finalizer; here it is taken away again.
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core.core_v1 import PersistentVolume
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import PERSISTENTVOLUMES
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext

FINALIZER: Final = "kubernetes.io/pv-protection"
"""The finalizer of a persistent volume."""


class VolumeProtectionController:
    """Removes the finalizer of deleted volumes that are not bound."""

    name = "persistentvolume-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._queue: WorkQueue[str] = context.queue()
        self._volumes = context.informers.of(PERSISTENTVOLUMES)
        self._volumes.add_handler(on_add=self._enqueue, on_update=lambda _, volume: self._enqueue(volume))

    async def run(self) -> None:
        """Reconcile volumes until cancelled."""
        await self._volumes.wait_synced()
        await run_workers(self._queue, self._reconcile)

    def _enqueue(self, volume: PersistentVolume) -> None:
        if _is_free(volume):
            self._queue.add(volume.metadata.name)

    async def _reconcile(self, name: str) -> None:
        volume: PersistentVolume | None = self._volumes.store.get("", name)
        if volume is None or not _is_free(volume):
            return
        finalizers = tuple(one for one in volume.metadata.finalizers if one != FINALIZER)
        freed = replace(volume, metadata=replace(volume.metadata, finalizers=finalizers))
        try:
            await self._client.resource(PERSISTENTVOLUMES).update(freed)
        except StatusError as error:
            if not error.is_not_found:
                raise


def _is_free(volume: PersistentVolume) -> bool:
    """Return True if a protected volume is being deleted and bound to no claim."""
    metadata = volume.metadata
    return (
        metadata.deletion_timestamp is not None and FINALIZER in metadata.finalizers and volume.status.phase != "Bound"
    )
