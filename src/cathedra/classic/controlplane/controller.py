"""The controller of a driver in 1.31, which claims name.

Spec: docs/spec/driver-sdk.md §16; docs/spec/scheduling.md §18.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cathedra.api import resource
from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.core.core_v1 import Pod
from cathedra.api.scheme import GroupResource
from cathedra.api.status import not_found
from cathedra.api.struct import replace, reshape
from cathedra.classic.controller import WORKERS, AllocatingDriver, NegotiatingController, WantedClaim
from cathedra.classic.controlplane import kinds
from cathedra.classic.controlplane.kinds import ControlledAllocation, ControlledClaim
from cathedra.classic.kinds.definitions import GROUP
from cathedra.client.client import Client
from cathedra.client.negotiation import NegotiatedTransport, OlderVersion, OlderVersions
from cathedra.client.resources import DEVICECLASSES, RESOURCECLAIMS
from cathedra.clock import Clock


@dataclass(slots=True)
class ControllerAllocation(WantedClaim[ControlledClaim]):
    """A claim on its way to its allocation, which is a `resource.AllocationResult`."""

    device_classes: Mapping[str, resource.DeviceClass]
    """The classes of the claim's requests, by name."""


class ControllerDriver(AllocatingDriver[ControlledClaim, ControllerAllocation]):
    """A driver whose controller allocates. Parameters stand in claims and classes themselves, as configuration."""


class ControlPlaneController(NegotiatingController[ControlledClaim, ControllerAllocation]):
    """The controller of one driver: `run` until cancelled."""

    resource = RESOURCECLAIMS

    def __init__(
        self,
        client: Client,
        name: str,
        driver: ControllerDriver,
        *,
        clock: Clock,
        reserves: bool = True,
        workers: int = WORKERS,
    ) -> None:
        """``name`` is what claims have in ``spec.controller``; ``reserves``: allocated claims are reserved for their
        pod."""
        client = control_plane_client(client)
        super().__init__(client, name, driver, clock=clock, reserves=reserves, workers=workers)
        self._classes = self._informers.of(DEVICECLASSES)

    async def wanted(self, pod: Pod, claim: ControlledClaim) -> ControllerAllocation | None:
        """Return the claim with its classes, if it names this controller."""
        if claim.spec.controller != self.name:
            return None
        classes: dict[str, resource.DeviceClass] = {}
        for request in claim.spec.devices.requests or ():
            name = request.exactly.device_class_name if request.exactly is not None else ""
            found = self._classes.store.get("", name)
            if found is None:
                where = f"claim {claim.metadata.namespace}/{claim.metadata.name}: request {request.name}"
                missing = not_found(GroupResource("resource.k8s.io", "deviceclasses"), name)
                raise self.report_failure(pod, RuntimeError(f"{where}: class {name}: {missing}"))
            classes[name] = found
        return ControllerAllocation(claim, classes)

    def allocated(self, wanted: ControllerAllocation) -> ControlledClaim:
        """Return the claim with its allocation, in the controller's name."""
        allocation = replace(reshape(wanted.allocation, ControlledAllocation), controller=self.name)
        claim = wanted.claim
        return replace(claim, status=replace(claim.status, allocation=allocation))

    def emptied(self, claim: ControlledClaim) -> ControlledClaim:
        """Return the claim without allocation."""
        return replace(claim, status=replace(claim.status, allocation=None, deallocation_requested=False))


_OLDER: Final[OlderVersions] = {
    (GROUP, "v1", "resourceclaims"): (
        OlderVersion("v1alpha3", v1alpha3.ResourceClaim, kinds.claim_to_hub, kinds.claim_from_hub),
    ),
    (GROUP, "v1", "resourceclaimtemplates"): (
        OlderVersion("v1alpha3", v1alpha3.ResourceClaimTemplate, kinds.template_to_hub, kinds.template_from_hub),
    ),
    (GROUP, "v1", "deviceclasses"): (
        OlderVersion("v1alpha3", v1alpha3.DeviceClass, kinds.class_to_hub, kinds.class_from_hub),
    ),
    (GROUP, "v1alpha2", "podschedulingcontexts"): (
        OlderVersion("v1alpha3", v1alpha3.PodSchedulingContext, kinds.context_to_hub, kinds.context_from_hub),
    ),
}


def control_plane_client(client: Client) -> Client:
    """Return a client that keeps the fields for controllers in claims and classes of 1.31."""
    transport = NegotiatedTransport(client.transport, _OLDER)
    return Client(transport, clock=client.clock, field_manager=client.field_manager)
