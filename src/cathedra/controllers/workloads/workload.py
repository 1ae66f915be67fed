"""Base of the controllers of long-running pods: watches their objects and their pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject, LabelSelector
from cathedra.api.undecodable import Undecodable, rest_of
from cathedra.client.objects import ObjectKey, key_of
from cathedra.client.resources import PODS
from cathedra.client.store import BY_NAMESPACE, by_namespace
from cathedra.client.transport import ResourceRef
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.expectations import Expectations
from cathedra.controllers.podcontrol import (
    BY_CONTROLLER,
    ORPHANS,
    PodControl,
    PodControllerRefManager,
    PodEventTexts,
    controlled_pods,
    orphan_places,
    same_orphan_places,
    selects,
)
from cathedra.semantics.owners import controller_of, controller_uid, same_owners

T = TypeVar("T", bound=KubeObject)

WORKERS: Final = 5


class WorkloadController(Generic[T]):
    """Base of the controllers whose objects own pods directly; `sync` is theirs."""

    name = ""
    component = ""
    texts = PodEventTexts()

    def __init__(self, context: ControllerContext, ref: ResourceRef[T]) -> None:
        self.client = context.client
        self.clock = context.clock
        self.ref = ref
        self.recorder = context.recorder(self.component)
        self.objects = context.informers.of(ref)
        self.pods = context.informers.of(PODS)
        self.expectations: Expectations[str] = Expectations(self.pods, context.clock)
        self.control = PodControl(context.client, self.recorder, self.expectations, self.texts)
        self.queue: WorkQueue[ObjectKey] = context.queue()
        self.objects.store.add_index(BY_NAMESPACE, by_namespace)
        self.pods.store.add_index(BY_CONTROLLER, controller_uid, same_owners)
        self.pods.store.add_index(ORPHANS, orphan_places, same_orphan_places)
        self.objects.add_handler(
            on_add=self.enqueue, on_update=lambda _, obj: self.enqueue(obj), on_delete=self._forget
        )
        self.pods.add_handler(
            on_add=self._pod_changed,
            on_update=self._pod_updated,
            on_delete=self._pod_changed,
            on_resolved=self._pod_resolved,
        )

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self.objects.wait_synced()
        await self.pods.wait_synced()
        await self.wait_for_more()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.recorder.run())
            group.create_task(run_workers(self.queue, self._reconcile, workers=WORKERS))

    async def wait_for_more(self) -> None:
        """Wait for further informers of a subclass."""

    async def claim(self, obj: T) -> None:
        """Adopt and release pods."""
        await PodControllerRefManager(
            self.control, self.pods.store, obj, self.selector(obj), could_own=self.membership(obj)
        ).claim()

    async def sync(self, obj: T) -> float | None:
        """Bring one object a step further. Return the seconds after which it is reconciled again."""
        raise NotImplementedError

    def controlled(self, obj: T) -> list[Pod]:
        """Return the pods that the object controls."""
        return controlled_pods(self.pods.store, obj.metadata.uid)

    def selector(self, obj: T) -> LabelSelector | None:
        """Return the object's selector."""
        selector: LabelSelector | None = _spec(obj).selector
        return selector

    def wants(self, obj: T, pod: Pod) -> bool:
        """Return True if a pod would be one of the object's, if no other had it."""
        could_own = self.membership(obj)
        return (could_own is None or could_own(pod)) and selects(self.selector(obj), pod.metadata.labels)

    def membership(self, obj: T) -> Callable[[Pod], bool] | None:
        """Return a test that pods must pass beside the selector, if there is one."""
        return None

    def enqueue(self, obj: KubeObject) -> None:
        """Queue the object for reconciliation."""
        self.queue.add(key_of(obj))

    def _forget(self, obj: T) -> None:
        self.expectations.forget(obj.metadata.uid)

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        if old.metadata.owner_references != pod.metadata.owner_references:
            self._pod_changed(old)
        self._pod_changed(pod)

    def _pod_resolved(self, what: Undecodable, pod: Pod | None) -> None:
        """Handle a pod that could not be decoded: it can be now and is reported next, or it has gone (None)."""
        rest, _ = rest_of(Pod, what)
        if pod is None and rest is not None:
            self._pod_changed(rest)

    def _pod_changed(self, pod: Pod) -> None:
        if not pod.metadata.owner_references and not self.objects.store.by_key:
            return  # nothing here could own it, and every pod of the cluster comes by
        owner = controller_of(pod)
        if owner is not None:
            if owner.kind == self.ref.kind:
                self.queue.add(ObjectKey(pod.metadata.namespace, owner.name))
            return
        for obj in self.objects.store.by_index(BY_NAMESPACE, pod.metadata.namespace):
            if self.wants(obj, pod):
                self.enqueue(obj)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        obj = self.objects.store.get(*key)
        if obj is None:
            return None
        metadata = obj.metadata
        await self.expectations.find_out(metadata.uid, self.client, obj)
        if not self.expectations.met(metadata.uid):
            # The event of the last write is still to come, and brings the object here again.
            return 1.0
        if metadata.deletion_timestamp is None:
            await self.claim(obj)
            if not self.expectations.met(metadata.uid):
                return 1.0
        return await self.sync(obj)


def _spec(obj: KubeObject) -> Any:
    return cast(Any, obj).spec
