"""Deleted persistent volumes go when no claim is bound to them, and deleted claims when no pod uses them
(docs/spec/controllers.md §11).

Admission protects every new volume and claim by a finalizer; here it is taken away again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cathedra.api.core.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from cathedra.api.status import StatusError
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.semantics.pods import is_terminal

FINALIZER: Final = "kubernetes.io/pv-protection"
"""The finalizer of a persistent volume."""
CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
"""The finalizer of a claim for one."""
_BY_CLAIM: Final = "cathedra.controllers/volume-claim"


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
        freed = with_metadata(volume, finalizers=finalizers)
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


class ClaimProtectionController:
    """Removes the finalizer of deleted claims that no pod uses."""

    name = "persistentvolumeclaim-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._queue: WorkQueue[tuple[str, str]] = context.queue()
        self._claims = context.informers.of(PERSISTENTVOLUMECLAIMS)
        self._pods = context.informers.of(PODS)
        self._pods.store.add_index(_BY_CLAIM, _claims_of, _same_volumes)
        self._claims.add_handler(on_add=self._enqueue, on_update=lambda _, claim: self._enqueue(claim))
        self._pods.add_handler(on_update=lambda _, pod: self._freed(pod), on_delete=self._freed)

    async def run(self) -> None:
        """Reconcile claims until cancelled."""
        await self._claims.wait_synced()
        # Without the pods every claim would seem to be unused.
        await self._pods.wait_synced()
        await run_workers(self._queue, self._reconcile)

    def _enqueue(self, claim: PersistentVolumeClaim) -> None:
        if _is_ending(claim):
            self._queue.add((claim.metadata.namespace, claim.metadata.name))

    def _freed(self, pod: Pod) -> None:
        for key in _claims_of(pod):
            namespace, _, name = key.partition("/")
            claim: PersistentVolumeClaim | None = self._claims.store.get(namespace, name)
            if claim is not None:
                self._enqueue(claim)

    async def _reconcile(self, key: tuple[str, str]) -> None:
        claim: PersistentVolumeClaim | None = self._claims.store.get(*key)
        if claim is None or not _is_ending(claim):
            return
        users = self._pods.store.by_index(_BY_CLAIM, "/".join(key))
        # A pod without a node does not count: no kubelet starts a pod whose claim is being deleted.
        if any(pod.spec.node_name and not is_terminal(pod) for pod in users):
            return
        finalizers = tuple(one for one in claim.metadata.finalizers if one != CLAIM_FINALIZER)
        freed = with_metadata(claim, finalizers=finalizers)
        try:
            await self._client.resource(PERSISTENTVOLUMECLAIMS, key[0]).update(freed)
        except StatusError as error:
            if not error.is_not_found:
                raise


def _is_ending(claim: PersistentVolumeClaim) -> bool:
    """Return True if a protected claim is being deleted."""
    return claim.metadata.deletion_timestamp is not None and CLAIM_FINALIZER in claim.metadata.finalizers


def _same_volumes(old: Pod, new: Pod) -> bool:
    """Return True if both states of a pod are identical in what `_claims_of` reads."""
    return old.spec.volumes is new.spec.volumes


def _claims_of(pod: Pod) -> Iterator[str]:
    """Yield the claims that a pod's volumes name, and those that are made for them."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}"
