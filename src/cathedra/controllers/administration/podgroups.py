"""Deleted pod groups go when their last pod has gone, and groups of groups when their last group has
(docs/spec/controllers.md §11).

Admission protects every new group by a finalizer; here it is taken away again.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import COMPOSITEPODGROUPS, PODGROUPS, PODS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.semantics.podclaims import BY_GROUP, by_group, pod_group_name, same_group
from cathedra.semantics.podgroups import parent_name
from cathedra.semantics.pods import is_terminal

FINALIZERS: Final = {
    "pods": "scheduling.k8s.io/podgroup-protection",
    "groups": "scheduling.k8s.io/compositepodgroup-protection",
}
"""The finalizer of a group of pods, and of a group of groups."""
_BY_PARENT: Final = "parent-group"


class ProtectedGroup(NamedTuple):
    """A group that is being deleted."""

    kind: Literal["pods", "groups"]
    """Kind of its members: pods, or further groups."""
    namespace: str
    name: str


class PodGroupProtectionController:
    """Removes the finalizer of deleted groups without running pods."""

    name = "podgroup-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._queue: WorkQueue[ProtectedGroup] = context.queue()
        self._groups = context.informers.of(PODGROUPS)
        self._pods = context.informers.of(PODS)
        self._pods.store.add_index(BY_GROUP, by_group, same_group)
        self._groups.add_handler(
            on_add=self._enqueue, on_update=lambda _, group: self._enqueue(group), on_delete=self._child_gone
        )
        self._pods.add_handler(on_update=lambda _, pod: self._pod_changed(pod), on_delete=self._pod_changed)
        self._composites = context.informers.of(COMPOSITEPODGROUPS) if context.enabled("CompositePodGroup") else None
        if self._composites is not None:
            self._groups.store.add_index(_BY_PARENT, _parents)
            self._composites.store.add_index(_BY_PARENT, _parents)
            self._composites.add_handler(
                on_add=self._enqueue, on_update=lambda _, group: self._enqueue(group), on_delete=self._child_gone
            )

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._groups.wait_synced()
        await self._pods.wait_synced()
        if self._composites is not None:
            await self._composites.wait_synced()
        await run_workers(self._queue, self._reconcile)

    def _enqueue(self, group: PodGroup | CompositePodGroup) -> None:
        if group.metadata.deletion_timestamp is not None:
            kind: Literal["pods", "groups"] = "groups" if isinstance(group, CompositePodGroup) else "pods"
            self._queue.add(ProtectedGroup(kind, group.metadata.namespace, group.metadata.name))

    def _child_gone(self, group: PodGroup | CompositePodGroup) -> None:
        if parent_name(group):
            self._queue.add(ProtectedGroup("groups", group.metadata.namespace, parent_name(group)))

    def _pod_changed(self, pod: Pod) -> None:
        key = _group_key(pod)
        if key and (is_terminal(pod) or pod.metadata.deletion_timestamp is not None):
            namespace, _, name = key.partition("/")
            self._queue.add(ProtectedGroup("pods", namespace, name))

    async def _reconcile(self, key: ProtectedGroup) -> None:
        group: PodGroup | CompositePodGroup | None = self._groups.store.get(key.namespace, key.name)
        if key.kind == "groups":
            group = self._composites.store.get(key.namespace, key.name) if self._composites is not None else None
        finalizer = FINALIZERS[key.kind]
        if group is None or group.metadata.deletion_timestamp is None or finalizer not in group.metadata.finalizers:
            return
        if self._has_children(key):
            return
        finalizers = tuple(one for one in group.metadata.finalizers if one != finalizer)
        freed: Any = replace(group, metadata=replace(group.metadata, finalizers=finalizers))
        try:
            if key.kind == "groups":
                await self._client.resource(COMPOSITEPODGROUPS, key.namespace).update(freed)
            else:
                await self._client.resource(PODGROUPS, key.namespace).update(freed)
        except StatusError as error:
            if not error.is_not_found:
                raise

    def _has_children(self, key: ProtectedGroup) -> bool:
        """Return True if pods of the group have not ended, or groups below it exist."""
        name = f"{key.namespace}/{key.name}"
        if key.kind == "pods":
            return any(not is_terminal(pod) for pod in self._pods.store.by_index(BY_GROUP, name))
        assert self._composites is not None, "without the gate no such key is added"
        stores = (self._groups.store, self._composites.store)
        return any(True for store in stores for _ in store.by_index(_BY_PARENT, name))


def _parents(group: PodGroup | CompositePodGroup) -> tuple[str, ...]:
    return (f"{group.metadata.namespace}/{parent_name(group)}",) if parent_name(group) else ()


def _group_key(pod: Pod) -> str:
    name = pod_group_name(pod)
    return f"{pod.metadata.namespace}/{name}" if name else ""
