"""DeviceQuota: limits of a namespace on the devices and the capacity that its claims hold. A plugin of Cathedra, off by
default.

The limits are in Kubernetes' ResourceQuotas, under names of their own. A pod whose claims would exceed one waits, and
does not fail as an object over a quota does: it is tried again when claims of its namespace are freed. Devices are
counted before a node is searched as far as the requests name them, and all amounts once they are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from cathedra.api.core.core_v1 import Pod, ResourceQuota
from cathedra.api.resource import AllocationResult, ResourceClaim
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import RESOURCEQUOTAS
from cathedra.client.store import Store
from cathedra.kinds.resource.claims.devicequota import (
    Amounts,
    FindDevice,
    exceeded,
    held_amounts,
    held_limits,
    least_devices,
    total,
)
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import CycleState, Notify, PreFilterPlugin, ReservePlugin
from cathedra.scheduler.framework.status import Code, Status, unresolvable
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot

_SKIP: Final = Status(Code.SKIP)
_ANY: Final = Action.ADD | Action.UPDATE | Action.DELETE

HeldClaims = Callable[[str], Iterable[tuple[ResourceClaim, AllocationResult]]]
"""Returns the claims of a namespace with their allocations, those too that are decided and not written yet."""


class DeviceQuota(PreFilterPlugin, ReservePlugin):
    """Refuses pods whose claims would exceed a quota of their namespace."""

    name = "DeviceQuota"

    def __init__(
        self,
        quotas: Store[ResourceQuota],
        held: HeldClaims,
        claims_of: Callable[[Pod], Sequence[ResourceClaim] | None],
        device_of: FindDevice,
    ) -> None:
        self._quotas, self._held = quotas, held
        self._claims_of, self._device_of = claims_of, device_of

    @staticmethod
    def listen(informers: SharedInformers, wake: Notify) -> None:
        """Call ``wake`` for changes of quotas."""
        informers.of(RESOURCEQUOTAS).add_handler(
            partial(wake, EventResource.RESOURCE_QUOTA, Action.ADD, None),
            partial(wake, EventResource.RESOURCE_QUOTA, Action.UPDATE),
            lambda old: wake(EventResource.RESOURCE_QUOTA, Action.DELETE, old, None),
        )

    def events(self) -> Sequence[EventRegistration]:
        """Claims of the namespace are freed, or its quotas change."""
        freed = Action.UPDATE | Action.DELETE
        return (
            EventRegistration(EventResource.RESOURCE_CLAIM, freed, _frees_in_namespace),
            EventRegistration(EventResource.RESOURCE_QUOTA, _ANY, _is_in_namespace),
        )

    def skips(self, pod: PodInfo) -> bool:
        """Return True for pods that cannot get devices."""
        return not pod.pod.spec.resource_claims and not pod.qualified

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Refuse a pod whose requests alone exceed a quota beside what the namespace holds."""
        quotas = self._limiting(pod.namespace)
        if not quotas:
            return _SKIP
        claims = self._claims_of(pod.pod) or ()
        asked = total(least_devices(claim) for claim in claims if claim.status.allocation is None)
        held = {claim.metadata.uid for claim, _ in self._held(pod.namespace)}
        if any(claim.metadata.uid in held for claim in claims):
            # A claim that is decided for another pod of the group is counted already.
            asked = total(least_devices(claim) for claim in claims if claim.metadata.uid not in held)
        found = exceeded(quotas, self._used(pod.namespace), asked)
        return None if found is None else unresolvable(str(found)).of(self.name)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Refuse what DynamicResources has chosen if it exceeds a quota."""
        quotas = self._limiting(pod.namespace)
        if not quotas:
            return None
        mine = {claim.metadata.uid for claim in self._claims_of(pod.pod) or () if claim.status.allocation is None}
        used, asked = list[Amounts](), list[Amounts]()
        for claim, allocation in self._held(pod.namespace):
            part = asked if claim.metadata.uid in mine else used
            part.append(held_amounts(claim, allocation, self._device_of))
        found = exceeded(quotas, total(used), total(asked))
        return None if found is None else unresolvable(str(found)).of(self.name)

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Do nothing: what is held is read from the claims."""

    def _used(self, namespace: str) -> Amounts:
        return total(held_amounts(*one, self._device_of) for one in self._held(namespace))

    def _limiting(self, namespace: str) -> list[ResourceQuota]:
        # A namespace has few quotas, and only those of a cluster that uses the plugin are read.
        return [one for one in self._quotas.list() if one.metadata.namespace == namespace and held_limits(one)]


def _is_in_namespace(pod: Pod, change: ClusterEvent) -> bool:
    changed = change.new or change.old
    return changed is not None and changed.metadata.namespace == pod.metadata.namespace


def _frees_in_namespace(pod: Pod, change: ClusterEvent) -> bool:
    old: ResourceClaim | None = change.old
    if old is None or old.status.allocation is None or old.metadata.namespace != pod.metadata.namespace:
        return False
    return change.new is None or change.new.status.allocation is None
