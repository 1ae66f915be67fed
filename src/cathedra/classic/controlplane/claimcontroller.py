"""The resource claim controller of 1.31: today's, with claims that controllers of drivers allocate.

Only the driver can deallocate what its controller allocated, so deallocation is requested after the last consumer. And
a pod that was put on a node by hand has such claims allocated there (docs/spec/controllers.md §2; docs/spec/node.md
§16).
"""

from __future__ import annotations

from cathedra.api.core.core_v1 import Pod, PodResourceClaim
from cathedra.api.resource import ResourceClaim, ResourceClaimStatus
from cathedra.api.struct import replace
from cathedra.classic.claimcontroller import ask_for_allocation
from cathedra.classic.controlplane.kinds import allocated_by, controller_of
from cathedra.classic.resources import CONTEXTS
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.resourceclaim.controller import ResourceClaimController
from cathedra.controllers.resourceclaim.release import ClaimRelease
from cathedra.semantics.podclaims import PodClaimError, entry_claim


class RequestingRelease(ClaimRelease):
    """Deallocates the scheduler's allocations, and requests deallocation of those of controllers."""

    def unused(self, claim: ResourceClaim) -> ResourceClaimStatus:
        """Return the status of a claim whose last consumer is gone."""
        if allocated_by(claim.status.allocation):
            return replace(claim.status, reserved_for=(), deallocation_requested=True)
        return super().unused(claim)


class ControlPlaneClaimController(ResourceClaimController):
    """Between pods and claims, with the gate DRAControlPlaneController open."""

    release_type = RequestingRelease

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer = context.client
        self._contexts = context.informers.of(CONTEXTS)

    async def run(self) -> None:
        """Reconcile claims until cancelled."""
        await self._contexts.wait_synced()
        await super().run()

    def _entry_needs_work(self, pod: Pod, entry: PodResourceClaim) -> bool:
        return super()._entry_needs_work(pod, entry) or self._waits_for_controller(pod, entry)

    def _waits_for_controller(self, pod: Pod, entry: PodResourceClaim) -> bool:
        """Return True if the entry's claim has to be allocated by a controller on the node that the pod has already."""
        if not pod.spec.node_name:
            return False
        try:
            named = entry_claim(pod, entry)
        except PodClaimError:
            return False
        claim = self._maker.get(pod.metadata.namespace, named.name) if named is not None else None
        return claim is not None and claim.status.allocation is None and bool(controller_of(claim))

    async def _reserve_for_scheduled(self, pod: Pod) -> None:
        if any(self._waits_for_controller(pod, entry) for entry in pod.spec.resource_claims):
            await ask_for_allocation(self._writer, self._contexts.store, pod)
        await super()._reserve_for_scheduled(pod)
