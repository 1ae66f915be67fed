"""The resource quota controller: recomputes the usage of namespaces.

It does so when a quota changes, when usage shrinks, and every five minutes (docs/spec/controllers.md §11;
docs/spec/api.md §B.4). Admission charges new objects at once; only this controller takes charges back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod, ResourceQuota
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, ResourceClaim
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.informer import Informer
from cathedra.client.resources import DEVICECLASSES, PODS, RESOURCECLAIMS, RESOURCEQUOTAS
from cathedra.client.store import BY_NAMESPACE, by_namespace
from cathedra.client.transport import ResourceRef
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.customkinds import CustomKinds
from cathedra.kinds import evaluators
from cathedra.kinds.core.pods.usage import is_charged_anew
from cathedra.kinds.core.quotas import count_name
from cathedra.kinds.evaluators import evaluator_of
from cathedra.semantics.pods import is_terminal

RESYNC_SECONDS: Final = 300.0
_CORE_NAMES: Final[Mapping[str, str]] = {
    "services.loadbalancers": "services",
    "services.nodeports": "services",
    "requests.storage": "persistentvolumeclaims",
}
"""Quota names that are counted from objects of another name."""

Key = tuple[str, str]
"""Namespace and name of a quota."""


class _CachedObjects(msgspec.Struct, frozen=True):
    """The objects in the informers' stores that charges depend on."""

    all_pods: Informer[Pod]
    all_claims: Informer[ResourceClaim]
    all_classes: Informer[DeviceClass]

    def classes(self) -> Iterable[DeviceClass]:
        """Return all device classes."""
        return self.all_classes.store.list()

    def claims(self, namespace: str) -> Iterable[ResourceClaim]:
        """Return the claims of a namespace."""
        return self.all_claims.store.by_index(BY_NAMESPACE, namespace)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return the pod, if it exists."""
        return self.all_pods.store.get(namespace, name)


class ResourceQuotaController:
    """Keeps ``status.hard`` and ``status.used`` of every quota."""

    name = "resourcequota-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._extended = context.enabled("DRAExtendedResource")
        self._queue: WorkQueue[Key] = context.queue()
        self._quotas = context.informers.of(RESOURCEQUOTAS)
        self._pods = context.informers.of(PODS)
        self._claims = context.informers.of(RESOURCECLAIMS)
        self._classes = context.informers.of(DEVICECLASSES)
        for informer in (self._quotas, self._pods, self._claims):
            informer.store.add_index(BY_NAMESPACE, by_namespace)
        self._lookups = _CachedObjects(self._pods, self._claims, self._classes)
        self._informers = context.informers
        self._counted: dict[str, ResourceRef[KubeObject]] = {}
        self._quotas.add_handler(on_add=self._enqueue, on_update=self._quota_changed)
        self._pods.add_handler(on_update=self._pod_changed, on_delete=self._given_back)
        self._claims.add_handler(on_delete=self._given_back)
        for ref in context.served:
            self._count(ref)
        self._custom = CustomKinds(context.informers, self._appeared)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._custom.wait_synced()
        for informer in (self._quotas, self._pods, self._claims, self._classes):
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._queue, self._reconcile))
            group.create_task(self._resync())

    def _count(self, ref: ResourceRef[KubeObject]) -> None:
        if not ref.namespaced:
            return
        self._counted[count_name(GroupResource(ref.group, ref.resource))] = ref
        # These have handlers of their own above.
        if ref not in (PODS, RESOURCECLAIMS, RESOURCEQUOTAS):
            self._informers.of(ref).add_handler(on_delete=self._given_back)

    def _appeared(self, ref: ResourceRef[KubeObject]) -> None:
        """Register a custom kind that is served now for counting, and enqueue all quotas: some may wait for it."""
        self._count(ref)
        for quota in self._quotas.store.list():
            self._enqueue(quota)

    async def _resync(self) -> None:
        while True:
            await self._clock.sleep(RESYNC_SECONDS)
            for quota in self._quotas.store.list():
                self._enqueue(quota)

    def _enqueue(self, quota: ResourceQuota) -> None:
        self._queue.add((quota.metadata.namespace, quota.metadata.name))

    def _quota_changed(self, old: ResourceQuota, new: ResourceQuota) -> None:
        if old.spec != new.spec or new.spec.hard != new.status.hard:
            self._enqueue(new)

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        if not self._quotas.store.by_key:
            return
        # Other changes do not alter the charge; counting at every status of every pod would be most of the work.
        if (is_terminal(new) and not is_terminal(old)) or is_charged_anew(old, new):
            self._given_back(new)

    def _given_back(self, obj: KubeObject) -> None:
        for quota in self._quotas.store.by_index(BY_NAMESPACE, obj.metadata.namespace):
            self._enqueue(quota)

    async def _reconcile(self, key: Key) -> None:
        quota = self._quotas.store.get(*key)
        # Admission no longer reads a quota that is being deleted.
        if quota is None or quota.metadata.deletion_timestamp is not None:
            return
        used = await self._used(quota)
        if (quota.status.hard, quota.status.used) == (quota.spec.hard, used):
            return
        status = replace(quota.status, hard=quota.spec.hard, used=used)
        try:
            await self._client.resource(RESOURCEQUOTAS, key[0]).update_status(replace(quota, status=status))
        except StatusError as error:
            if not error.is_not_found:
                raise

    async def _used(self, quota: ResourceQuota) -> dict[str, Quantity]:
        """Return the usage of the quota's resources, without resources whose usage is unknown."""
        hard, namespace = quota.spec.hard, quota.metadata.namespace
        known: set[str] = set()
        charges: list[Mapping[str, Quantity]] = []
        for resource, informer in ((evaluators.PODS, self._pods), (evaluators.CLAIMS, self._claims)):
            evaluator = evaluator_of(resource, self._lookups, extended=self._extended)
            found = informer.store.by_index(BY_NAMESPACE, namespace)
            charges += [evaluator.usage(one) for one in found if evaluator.is_in_scope(quota, one)]
            known |= evaluator.tracked(hard, None)
        for ref, names in self._others(hard).items():
            known |= names
            evaluator = evaluator_of(GroupResource(ref.group, ref.resource), self._lookups, extended=self._extended)
            # Scopes are about pods and volume claims: other objects are in none of them.
            if not quota.spec.scopes and quota.spec.scope_selector is None:
                page = await self._client.resource(ref, namespace).list()
                charges += [evaluator.usage(one) for one in page.items]
        # Names that nothing counts are left out, not 0: admission would take a 0 for a limit that holds.
        used = dict.fromkeys(sorted(known & hard.keys()), Quantity.of_value(0))
        for charge in charges:
            for name, amount in charge.items():
                if name in used:
                    used[name] += amount
        return used

    def _others(self, hard: Iterable[str]) -> dict[ResourceRef[KubeObject], set[str]]:
        """Return the other resources whose objects must be counted, each with the names that it is counted for."""
        found: dict[ResourceRef[KubeObject], set[str]] = {}
        for name in hard:
            plain = _CORE_NAMES.get(name, name)
            if ".storageclass.storage.k8s.io/" in name:
                plain = "persistentvolumeclaims"
            ref = self._counted.get(name) or self._counted.get(f"count/{plain}")
            if ref is not None and ref not in (PODS, RESOURCECLAIMS):
                found.setdefault(ref, set()).add(name)
        return found
