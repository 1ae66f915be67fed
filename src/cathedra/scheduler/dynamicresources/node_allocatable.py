"""Devices that are part of their node: the cpu, memory and other resources that a pod's devices take.

A device may stand for resources of its node, or cost some of them. The scheduler computes the amounts, counts them
against the node as if the pod had requested them, and records them in the pod's status for the node agent (alpha;
docs/spec/scheduling.md §13).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from cathedra.api.core.core_v1 import (
    Container,
    Node,
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    NodeAllocatableResourceMapping,
    ResourceClaim,
    ResourceSlice,
)
from cathedra.api.selectors import node_selector_matches
from cathedra.api.struct import replace
from cathedra.client.store import Store
from cathedra.scheduler.framework.status import Code, Status, unresolvable
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    pod_requests,
)
from cathedra.semantics.podresources import (
    HUGE_PAGES,
    add_amounts,
    claims_share_of_container,
    claims_share_of_pod,
    container_totals,
    is_pod_level_resource,
    nanos,
)

_POOL = "cathedra.scheduler/pool"


# Devices that are part of their node, as Kubernetes 1.36 counts them.
#
# In the first form of the feature, a device names the resources of its node that it is
# (``nodeAllocatableResourceMappings``), there is no overhead, and the pod's status has one amount for each resource.
# Only claims that are allocated in this cycle are counted, devices are found by pool and name alone, and a claim
# belongs to the pod on its node that counts it (docs/spec/scheduling.md §13).

_POOL_NAME = "cathedra.scheduler/pool-name"


class NodeMappings:
    """Adds up what devices are of their nodes."""

    def __init__(self, slices: Store[ResourceSlice]) -> None:
        self._slices = slices
        slices.add_index(_POOL_NAME, lambda slice_: (slice_.spec.pool.name,))

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
                amount = _mapped_amount(where, name, mapping, result)
                if amount is not None:
                    total[name] = total[name] + amount if name in total else amount
        return total

    def _device(self, result: DeviceRequestAllocationResult) -> Device | None:
        for slice_ in self._slices.by_index(_POOL_NAME, result.pool):
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


def _mapped_amount(
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


_ONE = 10**9


class Unaccountable(Exception):
    """The amount that a device takes of its node cannot be computed."""


class ClaimUse(msgspec.Struct, frozen=True):
    """A claim of the pod with its allocation, stored or found, and the containers that refer to it."""

    claim: ResourceClaim
    allocation: AllocationResult
    containers: tuple[str, ...]


class _Total(msgspec.Struct):
    """Amounts that the devices of one claim take, by resource."""

    mapped: dict[str, Quantity] = msgspec.field(default_factory=dict)
    per_pod: dict[str, Quantity] = msgspec.field(default_factory=dict)
    per_container: dict[str, Quantity] = msgspec.field(default_factory=dict)

    def status(self, use: ClaimUse) -> NodeAllocatableResourceClaimStatus:
        """Return the entry of the pod's status for the claim of ``use``."""
        overhead = sorted(self.per_pod.keys() | self.per_container.keys())
        return NodeAllocatableResourceClaimStatus(
            resource_claim_name=use.claim.metadata.name,
            containers=use.containers,
            mapping=tuple(
                NodeAllocatableMappedResources(name=name, quantity=self.mapped[name]) for name in sorted(self.mapped)
            ),
            overhead=tuple(
                NodeAllocatableOverheadResources(
                    name=name, per_pod=self.per_pod.get(name), per_container=self.per_container.get(name)
                )
                for name in overhead
            ),
        )


class NodeAllocatable:
    """Adds up what devices take of their nodes."""

    def __init__(self, slices: Store[ResourceSlice]) -> None:
        self._slices = slices
        slices.add_index(_POOL, _pool)

    def sharing_refusal(self, pod: Pod, claim: ResourceClaim, node: NodeInfo) -> str:
        """Return the reason why ``pod`` cannot use a claim because another pod uses it and a device is part of its
        node; else ""."""
        allocation, consumers = claim.status.allocation, claim.status.reserved_for
        # A mapped device stands for the node's own resources. With two consumers the amount would be counted for both
        # pods.
        if allocation is None or not consumers or not self._is_mapped(allocation):
            return ""
        name = claim.metadata.name
        return f"node allocatable resource claim {name} has a mapped device and cannot be shared across pods"

    def _is_mapped(self, allocation: AllocationResult) -> bool:
        return any(
            taken.mapping is not None
            for result in allocation.devices.results
            if (device := self._device(result, None)) is not None
            for taken in device.node_allocatable_resources.values()
        )

    def statuses(self, uses: Iterable[ClaimUse], node: Node) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
        """Return the amounts that the pod's claims take on ``node``, sorted by claim; claims that take nothing are left
        out.

        Raises:
            Unaccountable: a device is mapped by a capacity that was not recorded, or has vanished.
        """
        found = [
            total.status(use)
            for use in uses
            if self._takes_anything(use, node) and _is_something(total := self._total(use, node))
        ]
        # Sorted, so that an unchanged set of claims makes an equal status and no write.
        return tuple(sorted(found, key=lambda status: status.resource_claim_name))

    def _takes_anything(self, use: ClaimUse, node: Node) -> bool:
        devices = (self._device(result, node) for result in use.allocation.devices.results)
        return any(device is not None and device.node_allocatable_resources for device in devices)

    def _total(self, use: ClaimUse, node: Node) -> _Total:
        where = f"claim {use.claim.metadata.namespace}/{use.claim.metadata.name}"
        total = _Total()
        for result in use.allocation.devices.results:
            device = self._device(result, node)
            if device is None:
                raise Unaccountable(
                    f"{where}, device {result.device}, driver {result.driver}: device {result.device} not found in "
                    f"pool {result.pool} for driver {result.driver}"
                )
            for name, taken in device.node_allocatable_resources.items():
                if taken.mapping is not None:
                    _add(total.mapped, name, _mapped(where, name, taken.mapping, result))
                if taken.overhead is not None:
                    _add_overhead(total, name, taken.overhead)
        return total

    def _device(self, result: DeviceRequestAllocationResult, node: Node | None) -> Device | None:
        for slice_ in self._slices.by_index(_POOL, f"{result.driver}/{result.pool}"):
            if node is not None and not _is_visible(slice_, node):
                continue
            for device in slice_.spec.devices:
                if device.name == result.device:
                    hidden = slice_.spec.per_device_node_selection and node is not None
                    return None if hidden and node is not None and not _is_on(device, node) else device
        return None


def refusal(pod: Pod, node: NodeInfo) -> Status | None:
    """Return the refusal of ``pod``, whose status has the amounts of its devices, on ``node``; None if it fits."""
    uncovered = _uncovered(pod)
    if uncovered:
        return unresolvable(uncovered)
    demand = pod_requests(pod)
    counted = (CPU, MEMORY, EPHEMERAL_STORAGE, *sorted(name for name in demand if name.startswith(HUGE_PAGES)))
    short = [
        name
        for name in counted
        # Not below zero: on an overcommitted node a demand of 0 would otherwise be refused.
        if demand.get(name, 0) > max(0, node.allocatable.get(name, 0) - node.requested.get(name, 0))
    ]
    if not short:
        return None
    hopeless = any(demand[name] > node.allocatable.get(name, 0) for name in short)
    reasons = tuple(f"Insufficient {name}" for name in short)
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE, reasons)


def containers_of(pod: Pod, entry: str) -> tuple[str, ...]:
    """Return the containers that refer to an entry of the pod's claims, init containers first, once per reference."""
    containers: Sequence[Container] = (*pod.spec.init_containers, *pod.spec.containers)
    return tuple(c.name for c in containers for reference in c.resources.claims if reference.name == entry)


def with_statuses(pod: Pod, statuses: tuple[NodeAllocatableResourceClaimStatus, ...]) -> Pod:
    """Return the pod with ``statuses``, as it is counted on its node."""
    return replace(pod, status=replace(pod.status, node_allocatable_resource_claim_statuses=statuses))


def _uncovered(pod: Pod) -> str:
    """Return the resources that pod-level requests do not cover with the devices' share; "" if they cover all."""
    given, claims = pod.spec.resources, pod.status.node_allocatable_resource_claim_statuses
    if given is None or not claims:
        return ""
    requested = container_totals(pod, lambda container: nanos(container.resources.requests))
    limited = container_totals(pod, lambda container: nanos(container.resources.limits))
    for total in (requested, limited):
        add_amounts(total, claims_share_of_pod(claims))
    for name, amount in requested.items():
        asked = given.requests.get(name)
        if asked is not None and is_pod_level_resource(name) and amount > asked.nanos:
            return (
                f"pod level request for {name} is insufficient to cover the aggregated container and "
                "node-allocatable DRA requests"
            )
    for name, amount in limited.items():
        limit = given.limits.get(name)
        if limit is not None and name.startswith(HUGE_PAGES) and amount > limit.nanos:
            return (
                f"pod level limit for {name} is insufficient to cover the aggregated container and "
                "node-allocatable DRA limits"
            )
    return next(_uncovered_containers(pod, given.limits), "")


def _uncovered_containers(pod: Pod, limits: Mapping[str, Quantity]) -> Iterator[str]:
    for container in pod.spec.containers:
        added = claims_share_of_container(pod.status.node_allocatable_resource_claim_statuses, container.name)
        for name, own in container.resources.limits.items():
            limit = limits.get(name)
            if limit is None or name.startswith(HUGE_PAGES):
                continue
            if own.nanos + added.get(name, 0) > limit.nanos:
                yield (
                    f"pod level limit for {name} is insufficient to cover the limit and DRA overhead for container "
                    f"{container.name}"
                )


def _pool(slice_: ResourceSlice) -> tuple[str, ...]:
    return (f"{slice_.spec.driver}/{slice_.spec.pool.name}",)


def _is_visible(slice_: ResourceSlice, node: Node) -> bool:
    spec = slice_.spec
    if spec.node_name == node.metadata.name or spec.all_nodes or spec.per_device_node_selection:
        return True
    return spec.node_selector is not None and node_selector_matches(spec.node_selector, node)


def _is_on(device: Device, node: Node) -> bool:
    if device.node_name == node.metadata.name or device.all_nodes:
        return True
    return device.node_selector is not None and node_selector_matches(device.node_selector, node)


def _mapped(
    where: str, name: str, mapping: NodeAllocatableMapping, result: DeviceRequestAllocationResult
) -> Quantity | None:
    if not mapping.capacity_key:
        return mapping.device_multiplier
    key = mapping.capacity_key
    if not result.consumed_capacity:
        raise Unaccountable(
            f"{where}, device {result.device}: ConsumedCapacity is nil, but Capacity key '{key}' is set in "
            f"NodeAllocatableResources for resource {name}"
        )
    consumed = _by_qualified_name(result.consumed_capacity, key, result.driver)
    if consumed is None or mapping.capacity_multiplier is None:
        return consumed
    # Exact integers: both factors are in nano-units, so the product is divided once.
    return Quantity.of_nanos(consumed.nanos * mapping.capacity_multiplier.nanos // _ONE, consumed.format)


def _by_qualified_name(capacities: Mapping[str, Quantity], key: str, driver: str) -> Quantity | None:
    """Return a capacity by its name, which may stand with or without the driver's domain, or None."""
    found = capacities.get(key)
    if found is None and "/" not in key:
        return capacities.get(f"{driver}/{key}")
    if found is None and key.startswith(f"{driver}/"):
        return capacities.get(key.removeprefix(f"{driver}/"))
    return found


def _add(totals: dict[str, Quantity], name: str, amount: Quantity | None) -> None:
    if amount is not None:
        totals[name] = totals[name] + amount if name in totals else amount


def _add_overhead(total: _Total, name: str, overhead: NodeAllocatableOverhead) -> None:
    _add(total.per_pod, name, overhead.per_pod)
    _add(total.per_container, name, overhead.per_container)


def _is_something(total: _Total) -> bool:
    return bool(total.mapped or total.per_pod or total.per_container)
