"""Claims, templates and classes of 1.31 inside the system: those of v1, with the fields that v1 has no longer.

Parts that know nothing of controllers see the base classes. Strategies, allocator, scheduler and node agent of today
work on these objects unchanged, and a copy that they make keeps what they do not know.
"""

from __future__ import annotations

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.struct import always


class ControlledClaimSpec(resource.ResourceClaimSpec, frozen=True):
    """Requests for devices, and the controller that allocates them."""

    controller: str = ""
    """The driver whose controller allocates; "" leaves it to the scheduler."""


class ControlledAllocation(
    resource.AllocationResult,
    frozen=True,
    rename={"node_selector": "nodeSelector", "allocation_timestamp": "allocationTimestamp"},
):
    """Devices of a claim, and the controller that allocated them."""

    controller: str = ""
    """Name of the controller that must deallocate it, or "" if the scheduler allocated."""


class ControlledClaimStatus(
    resource.ResourceClaimStatus,
    frozen=True,
    rename={"reserved_for": "reservedFor", "deallocation_requested": "deallocationRequested"},
):
    """Allocation and consumers of a claim, and the request that its controller deallocates it."""

    allocation: ControlledAllocation | None = None
    deallocation_requested: bool = False


class ControlledClaim(resource.ResourceClaim, frozen=True, rename={"api_version": "apiVersion"}):
    """A claim of 1.31."""

    spec: ControlledClaimSpec = always(ControlledClaimSpec)
    status: ControlledClaimStatus = always(ControlledClaimStatus)


class ControlledTemplateSpec(resource.ResourceClaimTemplateSpec, frozen=True):
    """Metadata and spec of the claims that the template creates."""

    spec: ControlledClaimSpec = always(ControlledClaimSpec)


class ControlledTemplate(resource.ResourceClaimTemplate, frozen=True, rename={"api_version": "apiVersion"}):
    """A template of 1.31."""

    spec: ControlledTemplateSpec = always(ControlledTemplateSpec)


class ControlledClassSpec(
    resource.DeviceClassSpec, frozen=True, rename={"extended_resource_name": "extendedResourceName"}
):
    """Selectors of devices, and the nodes where controllers may allocate them."""

    suitable_nodes: core_v1.NodeSelector | None = None
    """For claims that name a controller alone; None: any node."""


class ControlledClass(resource.DeviceClass, frozen=True, rename={"api_version": "apiVersion"}):
    """A class of 1.31."""

    spec: ControlledClassSpec = always(ControlledClassSpec)


def controller_of(claim: resource.ResourceClaim) -> str:
    """The driver whose controller allocates the claim; "" if the scheduler does."""
    return claim.spec.controller if isinstance(claim.spec, ControlledClaimSpec) else ""


def allocated_by(allocation: resource.AllocationResult | None) -> str:
    """The driver whose controller allocated; "" if that was the scheduler, or nothing is allocated."""
    return allocation.controller if isinstance(allocation, ControlledAllocation) else ""


def deallocation_requested(claim: resource.ResourceClaim) -> bool:
    """Return True if a controller must deallocate the claim."""
    return isinstance(claim.status, ControlledClaimStatus) and claim.status.deallocation_requested


def suitable_nodes(device_class: resource.DeviceClass) -> core_v1.NodeSelector | None:
    """Return the nodes where controllers may allocate devices of the class. None means all."""
    return device_class.spec.suitable_nodes if isinstance(device_class.spec, ControlledClassSpec) else None
