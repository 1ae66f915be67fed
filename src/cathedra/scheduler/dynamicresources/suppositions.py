"""Devices in a trial of preemption: free of the claims of victims, and held for nominated pods (KEP-5690).

The eviction of a pod frees its claims only later, when the controller has deallocated them. A trial counts them as free
if nothing else uses them. The freed devices are held for the nominated pod: pods of equal or lower priority are tried
beside the allocation that it would get at this moment. Both are computed from the cluster whenever they are needed, so
they survive a restart of the scheduler, unlike the nominations of the KEP, which are kept in memory.

As in the KEP, only devices of the node itself are freed: a device that several nodes reach could be taken on another
node, where nothing is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Final

import msgspec

from cathedra.allocation import Allocation, AllocationError, InventorySnapshot, LedgerSnapshot
from cathedra.allocation.supply.devices import PoolID
from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import (
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from cathedra.api.struct import replace
from cathedra.client.store import Store
from cathedra.scheduler.dynamicresources.claims import ClaimCache, Resolver, UnresolvedClaim
from cathedra.scheduler.dynamicresources.devices import FreeDevices
from cathedra.scheduler.dynamicresources.extended_resources import Demand
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.framework.plugin import Supposition
from cathedra.scheduler.plugins.preemption import is_leaving
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.podclaims import claim_names
from cathedra.semantics.pods import is_terminal

MOST_EVICTED: Final = 1024
"""Number of evicted pods at which those that no longer exist are forgotten."""


class SupposedDevices(msgspec.Struct, frozen=True):
    """Devices and claims of a trial."""

    ledger: LedgerSnapshot
    """Devices that the pod cannot get: those in use, without the freed ones, and those of nominated pods."""
    freed: frozenset[str] = frozenset()
    """UIDs of claims that count as not allocated."""
    settling: tuple[LedgerSnapshot, LedgerSnapshot] | None = None
    """The ledger when claims that are being deallocated are gone and nominated pods have their devices, and the ledger
    without those pods; None if nothing is being deallocated."""

    def while_settling(
        self, devices: FreeDevices, claims: Sequence[ResourceClaim], attempt: Attempt | None, node: NodeInfo
    ) -> Allocation | None:
        """Return an allocation that is possible both before claims are deallocated and after their devices have gone
        to the nominated pods; None if none is found.

        A victim and the pod that takes its place do not need capacity and counters at the same time. ``ledger`` has
        both, and may therefore refuse what is possible.
        """
        if self.settling is None:
            return None
        found = [
            answer
            for ledger in self.settling
            if isinstance(answer := devices.prepare(claims, attempt, ledger).on(node.node), Allocation)
        ]
        chosen = [[_devices_of(one) for one in answer.results] for answer in found]
        return found[0] if len(found) == len(self.settling) and chosen[0] == chosen[-1] else None


class Suppositions:
    """Computes the devices of trials."""

    def __init__(
        self,
        devices: FreeDevices,
        claims: ClaimCache,
        resolver: Resolver,
        pods: Store[Pod],
        demand: Callable[[PodInfo], Demand | None],
    ) -> None:
        """``demand`` returns the extended resources of a pod that devices may provide."""
        self._devices = devices
        self._claims = claims
        self._resolver = resolver
        self._pods = pods
        self._demand = demand
        self._evicted: dict[str, tuple[str, str]] = {}
        """UID → namespace and name of pods whose eviction the server has accepted."""

    def of(self, supposed: Supposition, attempt: Attempt | None) -> SupposedDevices | None:
        """Return the devices of a trial; None if they are those of the cluster.

        Raises:
            LongSearch: the turn of ``attempt`` is over.
        """
        freed = frozenset(self._freed(supposed.gone))
        node = supposed.node
        if not freed and (node is None or not supposed.beside):
            return None
        ledger = self._devices.ledger.copy()
        for uid in freed:
            ledger.release(uid)
        if node is None or not supposed.beside:
            return SupposedDevices(ledger.snapshot(), freed)
        without, settled = ledger.snapshot(), ledger.copy()
        leaving = [claim.metadata.uid for claim in self.being_freed(node.name)]
        for uid in leaving:
            settled.release(uid)
        # The most important pods choose first, because they are tried first.
        for other in sorted(supposed.beside, key=lambda pod: -pod.priority):
            for claim, allocation in self._needed(other, node, settled.snapshot(), attempt):
                # Pods of a group may share the claim: it is held once.
                held = f"nominated/{claim.metadata.uid or other.uid}", other.key, allocation.devices.results
                settled.hold_for(*held)
                ledger.hold_for(*held)
        return SupposedDevices(ledger.snapshot(), freed, (settled.snapshot(), without) if leaving else None)

    def note_eviction(self, pod: Pod) -> None:
        """Count the claims of ``pod`` as being freed, although the informer does not have its deletion yet."""
        if len(self._evicted) >= MOST_EVICTED:
            self._evicted = {uid: key for uid, key in self._evicted.items() if self._exists(uid, key)}
        self._evicted[pod.metadata.uid] = pod.metadata.namespace, pod.metadata.name

    def being_freed(self, node: str) -> Iterator[ResourceClaim]:
        """Yield the claims on devices of ``node`` whose consumers have all gone, or are being preempted."""
        ledger = self._devices.ledger.snapshot()
        seen: set[str] = set()
        for pool in self._pools(node):
            for holdings in ledger.pool(pool).holdings.values():
                for holding in holdings:
                    if holding.uid in seen:
                        continue
                    seen.add(holding.uid)
                    claim = self._claims.get(*holding.claim.split("/", 1)) if "/" in holding.claim else None
                    if claim is not None and claim.metadata.uid == holding.uid and self._is_being_freed(claim, node):
                        yield claim

    def _is_being_freed(self, claim: ResourceClaim, node: str) -> bool:
        allocation, consumers = claim.status.allocation, claim.status.reserved_for
        # An allocation that was never reserved waits for its first pod, and the controller leaves it alone.
        if allocation is None or not (consumers or claim.metadata.deletion_timestamp is not None):
            return False
        namespace = claim.metadata.namespace
        return all(self._leaves(namespace, one) for one in consumers) and self._is_local(allocation, node)

    def _leaves(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool:
        if consumer.api_group or consumer.resource != "pods":
            return False
        pod = self._pods.get(namespace, consumer.name)
        if pod is None or pod.metadata.uid != consumer.uid or is_terminal(pod):
            return True
        return consumer.uid in self._evicted or is_leaving(pod)

    def _exists(self, uid: str, key: tuple[str, str]) -> bool:
        pod = self._pods.get(*key)
        return pod is not None and pod.metadata.uid == uid

    def _freed(self, gone: Mapping[str, PodInfo]) -> Iterator[str]:
        """Yield the UIDs of the claims that are deallocated when all these pods are gone, and of decisions for them
        that are not written yet."""
        for pod in gone.values():
            for name in claim_names(pod.pod):
                claim = self._claims.get(pod.namespace, name)
                if claim is None or claim.status.allocation is None:
                    continue
                # A claim that a PodGroup has reserved stays allocated as long as the group exists.
                consumers = {consumer.uid for consumer in claim.status.reserved_for}
                users = consumers | self._devices.holders(claim.metadata.uid)
                node = pod.pod.spec.node_name
                if users and users <= gone.keys() and self._is_local(claim.status.allocation, node):
                    yield claim.metadata.uid
        for uid, allocation, holders in self._devices.decisions():
            if holders <= gone.keys():
                node = gone[next(iter(holders))].pod.spec.node_name
                if self._is_local(allocation, node):
                    yield uid

    def _needed(
        self, pod: PodInfo, node: NodeInfo, ledger: LedgerSnapshot, attempt: Attempt | None
    ) -> list[tuple[ResourceClaim, AllocationResult]]:
        """Return the allocations that a nominated pod would get on its node; none if it does not fit there."""
        try:
            claims = [claim for claim in self._resolver.claims(pod.pod) if claim.status.allocation is None]
        except UnresolvedClaim:
            return []
        claims = [claim for claim in claims if not self._devices.is_in_flight(claim)]
        demand = self._demand(pod)
        if demand is not None and demand.stale is None and (resources := demand.from_devices(node)):
            claims.append(demand.claim(resources))
        if not claims:
            return []
        try:
            answer = self._devices.prepare(claims, attempt, ledger).on(node.node)
        except AllocationError:
            return []
        return list(zip(claims, answer.results, strict=True)) if isinstance(answer, Allocation) else []

    def _pools(self, node: str) -> Set[PoolID]:
        inventory = self._devices.inventory.snapshot()
        records = (*inventory.bound.get(node, ()), *(one for one in inventory.unbound if one.per_device))
        return {record.pool for record in records}

    def _is_local(self, allocation: AllocationResult, node: str) -> bool:
        """Return True if all devices are those of one node by its name."""
        inventory = self._devices.inventory.snapshot()
        own = {record.pool for record in inventory.bound.get(node, ())}
        apart = [result for result in allocation.devices.results if (result.driver, result.pool) not in own]
        return all(_is_on(inventory, result, node) for result in apart)


def _is_on(inventory: InventorySnapshot, result: DeviceRequestAllocationResult, node: str) -> bool:
    """Return True if the slice of the device names ``node`` for that device."""
    devices = (
        device
        for record in inventory.pools.get((result.driver, result.pool), ())
        if record.per_device
        for device in record.source.spec.devices or ()
    )
    return any(device.name == result.device and device.node_name == node for device in devices)


def freed_claim(claim: ResourceClaim) -> ResourceClaim:
    """Return the claim as it is when its consumers have gone."""
    return replace(claim, status=replace(claim.status, allocation=None, reserved_for=(), devices=()))


def _devices_of(allocation: AllocationResult) -> list[tuple[str, str, str, str]]:
    results = allocation.devices.results
    return [(result.request, result.driver, result.pool, result.device) for result in results]
