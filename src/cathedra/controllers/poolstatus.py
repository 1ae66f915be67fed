"""The ResourcePoolStatusRequest controller: free devices, partitions and shares of pools (docs/spec/controllers.md §4).

Each request is answered once. Only the newest generation of a pool counts, and only if all its slices exist. A view
that cannot be computed is left out with its reason; the counts remain.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from cathedra.allocation.checks.requestedcounters import least_drawn
from cathedra.api.core.meta_v1 import Condition
from cathedra.api.core.resource_v1alpha3 import (
    PartitionTypeStatus,
    PoolStatus,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestStatus,
    ShareableCapacityStatus,
    ShareableSummaryStatus,
)
from cathedra.api.quantity import Quantity
from cathedra.api.resource import Device, DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.struct import Time, replace
from cathedra.client.informer import Informer
from cathedra.client.resources import DEVICETAINTRULES, RESOURCECLAIMS, RESOURCEPOOLSTATUSREQUESTS, RESOURCESLICES
from cathedra.client.workqueue import NotRetryable, RetryLater, WorkQueue, one_of_many, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.devicetaints.taints import rule_selects
from cathedra.releases import behaviours

_LOG = logging.getLogger(__name__)

DEFAULT_LIMIT: Final = 100
ATTEMPTS: Final = 5
CLEAN_UP_PERIOD: Final = 600.0
KEEP_ANSWERED: Final = 3600.0
KEEP_UNANSWERED: Final = 86400.0
_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})


class ResourcePoolStatusRequestController:
    """Answers requests, and deletes them after a while."""

    name = "resourcepoolstatusrequest-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._queue: WorkQueue[str] = context.queue()
        self._requests = context.informers.of(RESOURCEPOOLSTATUSREQUESTS)
        self._slices = context.informers.of(RESOURCESLICES)
        self._claims = context.informers.of(RESOURCECLAIMS)
        self._taint_rules: Informer[Any] | None = None
        if context.enabled("DRADeviceTaintRules"):
            self._taint_rules = context.informers.of(DEVICETAINTRULES)
        views = context.gates.has(behaviours.POOL_STATUS_COMPLETE)
        self._rules = Rules(views=views, is_tainted=self._is_tainted)
        self._requests.add_handler(on_add=self._changed, on_update=lambda _, new: self._changed(new))

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        for informer in (self._requests, self._slices, self._claims, self._taint_rules):
            if informer is not None:
                await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            # One worker: each answer walks all slices and claims.
            group.create_task(run_workers(self._queue, self._reconcile, workers=1))
            group.create_task(self._clean_up())

    def _changed(self, request: ResourcePoolStatusRequest) -> None:
        if request.status is None:
            self._queue.add(request.metadata.name)

    async def _reconcile(self, name: str) -> None:
        request = self._requests.store.get("", name)
        if request is None or request.status is not None:
            return
        spec = request.spec
        slices = [
            slice_
            for slice_ in self._slices.store
            if slice_.spec.driver == spec.driver and spec.pool_name in (None, slice_.spec.pool.name)
        ]
        pools = pool_statuses(
            slices,
            usage(self._claims.store, self._rules),
            self._rules,
            default_partition_attribute=spec.default_partition_type_attribute or "",
        )
        incomplete = [pool for pool in pools if pool.total_devices is None]
        if incomplete:
            text = incomplete[0].validation_error or ""
            # A driver may be writing its slices now, so an incomplete pool is computed again before the request fails.
            if self._queue.failures(name) >= ATTEMPTS:
                raise NotRetryable(text)
            raise RetryLater(text)
        shown = pools[: DEFAULT_LIMIT if spec.limit is None else spec.limit]
        condition = Condition(
            type="Complete",
            status="True",
            last_transition_time=Time(self._clock.now()),
            reason="CalculationComplete",
            message=f"Calculated status for {len(shown)} pools",
        )
        status = ResourcePoolStatusRequestStatus(pools=tuple(shown), conditions=(condition,), pool_count=len(pools))
        # With the resource version that was read, and only once: a second manager's answer is refused.
        await self._client.resource(RESOURCEPOOLSTATUSREQUESTS).update_status(replace(request, status=status))

    def _is_tainted(self, driver: str, pool: str, device: Device) -> bool:
        if any(taint.effect in _BLOCKING for taint in device.taints):
            return True
        if self._taint_rules is None:
            return False
        rules: Informer[DeviceTaintRule] = self._taint_rules
        return any(
            rule.spec.taint.effect in _BLOCKING and rule_selects(rule, driver, pool, device.name)
            for rule in rules.store
        )

    async def _clean_up(self) -> None:
        while True:
            await self._clock.sleep(CLEAN_UP_PERIOD)
            for request in self._requests.store.list():
                metadata = request.metadata
                with one_of_many(_LOG, "request %s", metadata.name):
                    if self._clock.now() >= self._expiry(request):
                        requests = self._client.resource(RESOURCEPOOLSTATUSREQUESTS)
                        await requests.delete(metadata.name, uid=metadata.uid)

    def _expiry(self, request: ResourcePoolStatusRequest) -> float:
        """Return the time at which the request is deleted (epoch seconds)."""
        for condition in request.status.conditions if request.status is not None else ():
            if condition.type in ("Complete", "Failed") and condition.last_transition_time is not None:
                return condition.last_transition_time.timestamp + KEEP_ANSWERED
        created = request.metadata.creation_timestamp
        return (created.timestamp if created is not None else self._clock.now()) + KEEP_UNANSWERED


MOST_ENTRIES: Final = 32
LONGEST_ERROR: Final = 256
_ZERO: Final = Quantity("0")
Amounts: TypeAlias = Mapping[tuple[str, str], Quantity]
"""Counter set and counter → amount."""


class Rules(msgspec.Struct, frozen=True):
    """Differences between releases in the status of a pool."""

    views: bool
    """From 1.37 on: unavailable devices, partition and share views, errors that start with their kind; admin access
    holds nothing."""
    is_tainted: Callable[[str, str, Device], bool]
    """True if a device (with its driver and pool) cannot be given out because of a taint."""


class PoolUsage(msgspec.Struct):
    """Allocated devices and capacity of one pool."""

    results: int = 0
    devices: set[str] = msgspec.field(default_factory=set)
    consumed: dict[str, Quantity] = msgspec.field(default_factory=dict)
    """Capacity name → what shared allocations consume of it."""
    drawn: dict[tuple[str, str], Quantity] = msgspec.field(default_factory=dict)
    """Counter set and counter → what requests take of it, beside the fixed amounts of devices."""


def usage(claims: Iterable[ResourceClaim], rules: Rules) -> dict[tuple[str, str], PoolUsage]:
    """Return the usage of each (driver, pool); up to 1.36 admin access counts as usage, too."""
    held: dict[tuple[str, str], PoolUsage] = {}
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            if result.admin_access and rules.views:
                continue
            entry = held.setdefault((result.driver, result.pool), PoolUsage())
            entry.results += 1
            entry.devices.add(result.device)
            for name, amount in result.consumed_capacity.items():
                entry.consumed[name] = entry.consumed.get(name, _ZERO) + amount
            for use in result.consumed_counters:
                for name, amount in use.counters.items():
                    place = (use.counter_set, name)
                    entry.drawn[place] = entry.drawn.get(place, _ZERO) + amount
    return held


def pool_statuses(
    slices: Iterable[ResourceSlice],
    held: dict[tuple[str, str], PoolUsage],
    rules: Rules,
    *,
    default_partition_attribute: str = "",
) -> list[PoolStatus]:
    """Return one status per pool, sorted by driver and pool."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for slice_ in slices:
        pools.setdefault((slice_.spec.driver, slice_.spec.pool.name), []).append(slice_)
    return [
        _pool_status(pools[key], held.get(key, PoolUsage()), rules, default_partition_attribute)
        for key in sorted(pools)
    ]


def _pool_status(
    slices: Sequence[ResourceSlice], held: PoolUsage, rules: Rules, default_partition_attribute: str
) -> PoolStatus:
    # Slices of older generations are about to be removed. Counting them would show devices twice.
    generation = max(slice_.spec.pool.generation for slice_ in slices)
    slices = sorted(
        (slice_ for slice_ in slices if slice_.spec.pool.generation == generation), key=lambda s: s.metadata.name
    )
    driver, pool = slices[0].spec.driver, slices[0].spec.pool.name
    expected = slices[0].spec.pool.resource_slice_count
    nodes = {slice_.spec.node_name for slice_ in slices}
    status = PoolStatus(
        driver=driver,
        pool_name=pool,
        generation=generation,
        # A pool over several nodes has no node.
        node_name=next(iter(nodes)) if len(nodes) == 1 else None,
    )
    if len(slices) < expected:
        problem = (
            f"pool {driver}/{pool} is incomplete: observed {len(slices)}/{expected} slices at generation {generation}"
        )
        return replace(status, validation_error=_cut(f"PoolIncomplete: {problem}" if rules.views else problem))
    devices = [device for slice_ in slices for device in slice_.spec.devices]
    status = _with_counts(replace(status, resource_slice_count=expected), devices, held, rules)
    if not rules.views:
        return status
    try:
        status = replace(
            status,
            partition_summary=_partitions(slices, devices, held, default_partition_attribute),
            shareable_summary=_shares(devices, held),
        )
    # The counts are right without the views, so they are shown.
    except _NoView as problem:
        return replace(status, validation_error=_cut(str(problem)))
    return status


def _with_counts(status: PoolStatus, devices: Sequence[Device], held: PoolUsage, rules: Rules) -> PoolStatus:
    allocated, unavailable = held.results, 0
    if rules.views:
        allocated = sum(device.name in held.devices for device in devices)
        unavailable = sum(rules.is_tainted(status.driver, status.pool_name, device) for device in devices)
    return replace(
        status,
        total_devices=len(devices),
        allocated_devices=allocated,
        unavailable_devices=unavailable,
        available_devices=max(0, len(devices) - allocated - unavailable),
    )


class _NoView(Exception):
    """A view cannot be drawn."""


def _partitions(
    slices: Sequence[ResourceSlice], devices: Sequence[Device], held: PoolUsage, default: str
) -> tuple[PartitionTypeStatus, ...]:
    """Devices by type, and how many of each would still fit into the counters that are left."""
    declared = {slice_.spec.partition_type_attribute or "" for slice_ in slices if slice_.spec.devices}
    if len(declared) > 1:
        raise _NoView("PartitionTypeMissing: the slices of the pool do not agree on partitionTypeAttribute")
    definitions = {
        (counter_set.name, name): counter
        for slice_ in slices
        for counter_set in slice_.spec.shared_counters
        for name, counter in counter_set.counters.items()
    }
    counters = {place: counter.amount for place, counter in definitions.items()}
    # The default of the request is for pools with counters; others have no partitions.
    attribute = next(iter(declared), "") or (default if counters else "")
    if not attribute:
        return ()
    if not counters:
        raise _NoView("PartitionTypeMissing: the pool has a partitionTypeAttribute but no sharedCounters")
    # Held devices first: what is left is what the others compete for. They take their fixed amounts once, and each
    # allocation takes what it requested.
    for device in devices:
        if device.name in held.devices:
            _debit(counters, _fixed(device))
    _debit(counters, held.drawn)
    least = {place: least_drawn(counter) for place, counter in definitions.items()}
    by_type = _by_type(slices[0].spec.driver, devices, attribute)
    return tuple(
        PartitionTypeStatus(
            type=kind,
            attribute=attribute,
            total=len(members),
            allocatable=_allocatable(
                [_cost(device, least) for device in members if device.name not in held.devices], dict(counters)
            ),
        )
        for kind, members in sorted(by_type.items())
        if _same_cost(kind, members)
    )


def _by_type(driver: str, devices: Sequence[Device], attribute: str) -> dict[str, list[Device]]:
    """Return the devices by their values of an attribute.

    Raises:
        _NoView: there are too many types.
    """
    by_type: dict[str, list[Device]] = {}
    for device in devices:
        by_type.setdefault(_type_of(driver, device, attribute), []).append(device)
    if len(by_type) > MOST_ENTRIES:
        raise _NoView(f"PartitionSummaryOverCap: {len(by_type)} partition types, at most {MOST_ENTRIES} are shown")
    return by_type


def _type_of(driver: str, device: Device, attribute: str) -> str:
    domain, _, name = attribute.rpartition("/")
    found = device.attributes.get(attribute)
    if found is None and domain in ("", driver):
        found = device.attributes.get(name) or device.attributes.get(f"{driver}/{name}")
    if found is None or found.string is None:
        raise _NoView(f"PartitionTypeMissing: device {device.name} has no string attribute {attribute}")
    return found.string


def _same_cost(kind: str, members: Sequence[Device]) -> bool:
    costs = {tuple(sorted((name, amount) for (_, name), amount in _fixed(device).items())) for device in members}
    if len(costs) > 1:
        raise _NoView(f"PartitionCostMismatch: devices of type {kind} consume different counters")
    return True


def _fixed(device: Device) -> Amounts:
    """Return the fixed amounts that a device consumes of the counters."""
    return _cost(device, {})


def _cost(device: Device, least: Amounts) -> Amounts:
    """Return the smallest amounts that an allocation of the device takes of the counters; ``least`` has those that
    requests can take."""
    return {
        (use.counter_set, name): counter.amount
        if counter.value_from is None
        else least.get((use.counter_set, name), _ZERO)
        for use in device.consumes_counters
        for name, counter in use.counters.items()
    }


def _debit(counters: dict[tuple[str, str], Quantity], cost: Amounts) -> None:
    for place, amount in cost.items():
        # May become negative if a driver published less than is allocated. Such a pool then has no allocatable
        # partitions.
        counters[place] = counters.get(place, _ZERO) - amount


def _allocatable(costs: Iterable[Amounts], counters: dict[tuple[str, str], Quantity]) -> int:
    count = 0
    for cost in costs:
        after = dict(counters)
        _debit(after, cost)
        # Greedy, in the order of the devices. That is exact because all devices of a type cost the same (`_same_cost`).
        if all(after[place].sign() >= 0 for place in cost):
            counters, count = after, count + 1
    return count


def _shares(devices: Sequence[Device], held: PoolUsage) -> ShareableSummaryStatus | None:
    """Devices that many claims may share, and the rest of their capacity."""
    shareable = [device for device in devices if device.allow_multiple_allocations]
    if not shareable:
        return None
    totals: dict[str, Quantity] = {}
    for device in shareable:
        for name, capacity in device.capacity.items():
            totals[name] = totals.get(name, _ZERO) + capacity.value
    if len(totals) > MOST_ENTRIES:
        raise _NoView(f"ShareableSummaryOverCap: {len(totals)} capacities, at most {MOST_ENTRIES} are shown")
    touched = sum(device.name in held.devices for device in shareable)
    return ShareableSummaryStatus(
        fully_available_devices=len(shareable) - touched,
        partially_available_devices=touched,
        capacity=tuple(
            ShareableCapacityStatus(
                name=name,
                total=total,
                consumed=held.consumed.get(name, _ZERO),
                # Not below zero: capacity may shrink while claims hold it.
                available=max(total - held.consumed.get(name, _ZERO), _ZERO),
            )
            for name, total in sorted(totals.items())
        ),
    )


def _cut(text: str) -> str:
    # The limit is in bytes, and a character must not be cut in two.
    return text.encode()[:LONGEST_ERROR].decode(errors="ignore")
