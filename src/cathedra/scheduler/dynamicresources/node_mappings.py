"""Devices that are part of their node, as Kubernetes 1.36 counts them.

In the first form of the feature, a device names the resources of its node that it is
(``nodeAllocatableResourceMappings``), there is no overhead, and the pod's status has one amount for each resource. Only
claims that are allocated in this cycle are counted, devices are found by pool and name alone, and a claim belongs to
the pod on its node that counts it (docs/spec/scheduling.md §13).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cathedra.api.core.core_v1 import Node, NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableResourceMapping,
    ResourceClaim,
    ResourceSlice,
)
from cathedra.client.store import Store
from cathedra.scheduler.dynamicresources.node_allocatable import ClaimUse, Unaccountable
from cathedra.scheduler.state.node_info import NodeInfo

_POOL = "cathedra.scheduler/pool-name"
_ONE = 10**9


class NodeMappings:
    """Adds up what devices are of their nodes."""

    def __init__(self, slices: Store[ResourceSlice]) -> None:
        self._slices = slices
        slices.add_index(_POOL, lambda slice_: (slice_.spec.pool.name,))

    def sharing_refusal(self, pod: Pod, claim: ResourceClaim, node: NodeInfo) -> str:
        """Return the reason why ``pod`` cannot use a claim on ``node`` that another pod there counts; else ""."""
        name = claim.metadata.name
        others = sum(uid != pod.metadata.uid for uid in _counted_by(claim, node))
        if others > 1:
            return f"node allocatable resource claim {name} shared by multiple pods"
        return f"node allocatable resource claim {name} is already used by another pod" if others else ""

    def statuses(self, uses: Iterable[ClaimUse], node: Node) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
        """Return the amounts of the node that claims allocated in this cycle are, sorted by claim.

        Raises:
            Unaccountable: a device is mapped by a capacity that was not recorded, or has vanished.
        """
        found = (
            NodeAllocatableResourceClaimStatus(
                resource_claim_name=use.claim.metadata.name, containers=use.containers, resources=resources
            )
            for use in uses
            if use.claim.status.allocation is None and self._is_mapped(use) and (resources := self._resources(use))
        )
        return tuple(sorted(found, key=lambda status: status.resource_claim_name))

    def _is_mapped(self, use: ClaimUse) -> bool:
        devices = map(self._device, use.allocation.devices.results)
        return any(device is not None and device.node_allocatable_resource_mappings for device in devices)

    def _resources(self, use: ClaimUse) -> dict[str, Quantity]:
        where = f"claim {use.claim.metadata.namespace}/{use.claim.metadata.name}"
        total: dict[str, Quantity] = {}
        for result in use.allocation.devices.results:
            device = self._device(result)
            if device is None:
                raise Unaccountable(
                    f"{where}, device {result.device}: device {result.device} not found in pool {result.pool}"
                )
            for name, mapping in sorted(device.node_allocatable_resource_mappings.items()):
                amount = _mapped(where, name, mapping, result)
                if amount is not None:
                    total[name] = total[name] + amount if name in total else amount
        return total

    def _device(self, result: DeviceRequestAllocationResult) -> Device | None:
        for slice_ in self._slices.by_index(_POOL, result.pool):
            for device in slice_.spec.devices:
                if device.name == result.device:
                    return device
        return None


def _counted_by(claim: ResourceClaim, node: NodeInfo) -> Iterator[str]:
    """Yield the UIDs of the pods on ``node`` whose status counts the claim."""
    for uid, other in node.pods.items():
        statuses = other.pod.status.node_allocatable_resource_claim_statuses
        if other.namespace == claim.metadata.namespace and any(
            status.resource_claim_name == claim.metadata.name for status in statuses
        ):
            yield uid


def _mapped(
    where: str, name: str, mapping: NodeAllocatableResourceMapping, result: DeviceRequestAllocationResult
) -> Quantity | None:
    """Return the amount of one resource that a device is; None if the allocation lacks the capacity that it is mapped
    by."""
    key, multiplier = mapping.capacity_key, mapping.allocation_multiplier
    if not key:
        return multiplier if multiplier is not None else Quantity("0")
    if not result.consumed_capacity:
        raise Unaccountable(
            f"{where}, device {result.device}: ConsumedCapacity is nil, but Capacity key '{key}' is set in "
            f"NodeAllocatableResourceMappings for resource {name}"
        )
    consumed = result.consumed_capacity.get(key)
    if consumed is None or multiplier is None:
        return consumed
    return Quantity.of_nanos(consumed.nanos * multiplier.nanos // _ONE, consumed.format)
