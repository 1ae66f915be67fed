"""Resource handles: what a driver's controller tells its node plugin through the claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cathedra._proto import dra_classic_pb2 as messages
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.struct import RawJSON

__all__ = ["Handle", "handle_of"]


@dataclass(frozen=True, slots=True)
class Handle:
    """What one driver is told of one claim."""

    data: str = ""
    structured: v1alpha2.StructuredResourceHandle | None = None
    """In 1.30, where the scheduler allocated instead of the driver's controller."""

    def structured_messages(self) -> list[Any]:
        """The structured handle as the protocol has it: none or one."""
        handle = self.structured
        if handle is None:
            return []
        return [
            messages.StructuredResourceHandle(
                vendor_class_parameters=_raw(handle.vendor_class_parameters),
                vendor_claim_parameters=_raw(handle.vendor_claim_parameters),
                node_name=handle.node_name,
                results=[
                    messages.DriverAllocationResult(
                        vendor_request_parameters=_raw(result.vendor_request_parameters),
                        allocation_result_model=messages.AllocationResultModel(
                            named_resources=messages.NamedResourcesAllocationResult(name=result.named_resources.name)
                            if result.named_resources is not None
                            else None
                        ),
                    )
                    for result in handle.results
                ],
            )
        ]


def _raw(value: RawJSON | None) -> Any:
    return messages.RawExtension(raw=value.data) if value is not None else None


def handle_of(claim: v1alpha2.ResourceClaim, driver: str) -> Handle:
    """What ``driver`` is told of an allocated claim; nothing where the allocation has no handle for it."""
    allocation = claim.status.allocation
    handles = allocation.resource_handles if allocation is not None else ()
    for handle in handles:
        if (handle.driver_name or claim.status.driver_name) == driver:
            return Handle(handle.data, handle.structured_data)
    return Handle()
