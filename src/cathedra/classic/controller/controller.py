"""A driver's controller in 1.26 to 1.30, where a claim's class says whose it is.

Before a driver is asked its parameters are fetched. A claim that waits for no pod is allocated as soon as it is there.
"""

from __future__ import annotations

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import replace
from cathedra.classic.controller.driver import ClaimAllocation, ClassicDriver
from cathedra.classic.controller.negotiating import RECHECK_SECONDS, WORKERS, NegotiatingController
from cathedra.classic.resources import CLAIMS, CLASSES, classic_client
from cathedra.client.client import Client
from cathedra.client.workqueue import RetryLater
from cathedra.clock import Clock

__all__ = ["RECHECK_SECONDS", "ClassicController"]


class ClassicController(NegotiatingController[v1alpha2.ResourceClaim, ClaimAllocation]):
    """The controller of one driver: `run` until cancelled."""

    def __init__(
        self,
        client: Client,
        name: str,
        driver: ClassicDriver,
        *,
        clock: Clock,
        reserves: bool = True,
        workers: int = WORKERS,
    ) -> None:
        """``name`` is the driver's, as classes have it; ``reserves``: allocated claims are reserved for their pod."""
        super().__init__(classic_client(client), name, driver, CLAIMS, clock=clock, reserves=reserves, workers=workers)
        self._parameters = driver
        self._classes = self._informers.of(CLASSES)

    async def allocate_at_once(self, claim: v1alpha2.ResourceClaim) -> None:
        """Allocate a claim of the mode Immediate."""
        if claim.spec.allocation_mode != "Immediate":
            return
        resource_class = self._class_of(claim)
        if resource_class is None:
            raise RetryLater(f"{claim.metadata.name}: class {claim.spec.resource_class_name} not found")
        if resource_class.driver_name != self.name:
            return
        try:
            wanted = await self._with_parameters(claim, resource_class)
        except Exception as error:
            raise self.told(claim, error) from error
        await self.allocate([wanted], "", None)
        if wanted.error is not None:
            raise self.told(claim, wanted.error) from wanted.error

    async def wanted(self, pod: Pod, claim: v1alpha2.ResourceClaim) -> ClaimAllocation | None:
        """The claim with its parameters, if its class is this driver's and it waits for its pod."""
        if claim.spec.allocation_mode == "Immediate":
            return None
        resource_class = self._class_of(claim)
        if resource_class is None or resource_class.driver_name != self.name:
            return None
        try:
            return await self._with_parameters(claim, resource_class)
        except Exception as error:
            self.told(claim, error)
            raise self.told(pod, RuntimeError(f"claim {claim.metadata.name}: {error}")) from error

    def allocated(self, wanted: ClaimAllocation) -> v1alpha2.ResourceClaim:
        """The claim with its allocation, in the driver's name."""
        claim = wanted.claim
        return replace(claim, status=replace(claim.status, allocation=wanted.allocation, driver_name=self.name))

    def emptied(self, claim: v1alpha2.ResourceClaim) -> v1alpha2.ResourceClaim:
        """The claim without allocation and driver."""
        status = replace(claim.status, allocation=None, driver_name="", deallocation_requested=False)
        return replace(claim, status=status)

    def _class_of(self, claim: v1alpha2.ResourceClaim) -> v1alpha2.ResourceClass | None:
        return self._classes.store.get("", claim.spec.resource_class_name)

    async def _with_parameters(
        self, claim: v1alpha2.ResourceClaim, resource_class: v1alpha2.ResourceClass
    ) -> ClaimAllocation:
        of_class = await self._parameters.get_class_parameters(resource_class)
        of_claim = await self._parameters.get_claim_parameters(claim, resource_class, of_class)
        return ClaimAllocation(claim, resource_class, of_claim, of_class)
