"""Between v1alpha1 (1.26) and v1alpha2 (1.27 to 1.30): one resource handle or several, and PodScheduling's new name.

A handle of v1alpha1 is the data for the one driver that the claim's status names (docs/spec/api.md §7.1).
"""

from __future__ import annotations

from typing import TypeVar

from cathedra.api.core import resource_v1alpha1 as v1alpha1
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.struct import KubeStruct, replace, reshape

K = TypeVar("K", bound=KubeStruct)


def claim_to_hub(claim: v1alpha1.ResourceClaim) -> v1alpha2.ResourceClaim:
    """The same claim; its handle becomes the handle of the driver that the status names."""
    status = claim.status
    allocation: v1alpha2.AllocationResult | None = None
    if status.allocation is not None:
        handle = status.allocation.resource_handle
        allocation = v1alpha2.AllocationResult(
            resource_handles=(v1alpha2.ResourceHandle(driver_name=status.driver_name, data=handle),) if handle else (),
            available_on_nodes=status.allocation.available_on_nodes,
            shareable=status.allocation.shareable,
        )
    return v1alpha2.ResourceClaim(
        metadata=claim.metadata,
        spec=reshape(claim.spec, v1alpha2.ResourceClaimSpec),
        status=replace(
            reshape(replace(status, allocation=None), v1alpha2.ResourceClaimStatus),
            allocation=allocation,
        ),
    )


def claim_from_hub(claim: v1alpha2.ResourceClaim) -> v1alpha1.ResourceClaim:
    """The same claim with one handle; v1alpha1 never had more."""
    status = claim.status
    allocation: v1alpha1.AllocationResult | None = None
    if status.allocation is not None:
        handles = status.allocation.resource_handles
        allocation = v1alpha1.AllocationResult(
            resource_handle=handles[0].data if handles else "",
            available_on_nodes=status.allocation.available_on_nodes,
            shareable=status.allocation.shareable,
        )
    return v1alpha1.ResourceClaim(
        metadata=claim.metadata,
        spec=reshape(claim.spec, v1alpha1.ResourceClaimSpec),
        status=replace(
            reshape(replace(status, allocation=None), v1alpha1.ResourceClaimStatus),
            allocation=allocation,
        ),
    )


def template_to_hub(template: v1alpha1.ResourceClaimTemplate) -> v1alpha2.ResourceClaimTemplate:
    """Convert a template to its stored form."""
    return _renamed(template, v1alpha2.ResourceClaimTemplate)


def template_from_hub(template: v1alpha2.ResourceClaimTemplate) -> v1alpha1.ResourceClaimTemplate:
    """Convert a template from its stored form."""
    return _renamed(template, v1alpha1.ResourceClaimTemplate)


def class_to_hub(resource_class: v1alpha1.ResourceClass) -> v1alpha2.ResourceClass:
    """Convert a class to its stored form."""
    return _renamed(resource_class, v1alpha2.ResourceClass)


def class_from_hub(resource_class: v1alpha2.ResourceClass) -> v1alpha1.ResourceClass:
    """Convert a class from its stored form."""
    return _renamed(resource_class, v1alpha1.ResourceClass)


def context_to_hub(scheduling: v1alpha1.PodScheduling) -> v1alpha2.PodSchedulingContext:
    """The same object under its later name."""
    return _renamed(scheduling, v1alpha2.PodSchedulingContext)


def context_from_hub(context: v1alpha2.PodSchedulingContext) -> v1alpha1.PodScheduling:
    """The same object under its earlier name."""
    return _renamed(context, v1alpha1.PodScheduling)


def _renamed(obj: KubeStruct, kind: type[K]) -> K:
    """``obj`` as the struct of another version; neither carries kind and apiVersion inside the system."""
    return replace(reshape(obj, kind), kind="", api_version="")
