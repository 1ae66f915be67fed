"""Deleted pod groups go when their last pod has gone (docs/spec/controllers.md §11).

Admission protects every new group by a finalizer; here it is taken away again.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import PODGROUPS, PODS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.semantics.podclaims import pod_group_name
from cathedra.semantics.pods import is_terminal

__all__ = ["PodGroupProtectionController"]

FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"

Key = tuple[str, str]
"""Namespace and name of a pod group."""


class PodGroupProtectionController:
    """Removes the finalizer of deleted groups without running pods."""

    name = "podgroup-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._queue: WorkQueue[Key] = context.queue()
        self._groups = context.informers.of(PODGROUPS)
        self._pods = context.informers.of(PODS)
        self._pods.store.add_index("podgroup", _group_keys)
        self._groups.add_handler(on_add=self._enqueue, on_update=lambda _, group: self._enqueue(group))
        self._pods.add_handler(on_update=lambda _, pod: self._pod_changed(pod), on_delete=self._pod_changed)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._groups.wait_synced()
        await self._pods.wait_synced()
        await run_workers(self._queue, self._reconcile)

    def _enqueue(self, group: Any) -> None:
        if group.metadata.deletion_timestamp is not None:
            self._queue.add((group.metadata.namespace, group.metadata.name))

    def _pod_changed(self, pod: Pod) -> None:
        key = _group_key(pod)
        if key and (is_terminal(pod) or pod.metadata.deletion_timestamp is not None):
            namespace, _, name = key.partition("/")
            self._queue.add((namespace, name))

    async def _reconcile(self, key: Key) -> None:
        group = self._groups.store.get(*key)
        if group is None or group.metadata.deletion_timestamp is None or FINALIZER not in group.metadata.finalizers:
            return
        members = self._pods.store.by_index("podgroup", "/".join(key))
        if any(not is_terminal(pod) for pod in members):
            return
        finalizers = tuple(one for one in group.metadata.finalizers if one != FINALIZER)
        freed = replace(group, metadata=replace(group.metadata, finalizers=finalizers))
        try:
            await self._client.resource(PODGROUPS, key[0]).update(freed)
        except StatusError as error:
            if not error.is_not_found:
                raise


def _group_keys(pod: Pod) -> tuple[str, ...]:
    key = _group_key(pod)
    return (key,) if key else ()


def _group_key(pod: Pod) -> str:
    name = pod_group_name(pod)
    return f"{pod.metadata.namespace}/{name}" if name else ""
