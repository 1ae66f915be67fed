"""NoExecute taints of devices, from slices and rules, and the time of eviction (docs/spec/controllers.md §3.1).

Slices are large and mostly untainted, so only the tainted devices of each are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from cathedra.api.resource import (
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from cathedra.client.informer import Informer
from cathedra.client.store import Store
from cathedra.semantics.tolerations import tolerates_device_taint

NO_EXECUTE: Final = "NoExecute"
BY_DEVICE: Final = "claim-device"
"""Name of the index of claims by their allocated devices."""
_BY_POOL: Final = "slice-pool"


class Tainted(NamedTuple):
    """A taint with its origin: a rule's name, or "" for a slice."""

    rule: str
    rule_uid: str
    taint: DeviceTaint


def device_key(driver: str, pool: str, device: str) -> str:
    """Return the index key of a device, ``driver/pool/device``."""
    return f"{driver}/{pool}/{device}"


def by_device(claim: ResourceClaim) -> Iterator[str]:
    """Index function: every device that the claim holds."""
    for result in results_of(claim):
        yield device_key(result.driver, result.pool, result.device)


def same_allocation(old: ResourceClaim, new: ResourceClaim) -> bool:
    """Return True if a claim's allocated devices are identical in both states."""
    # Identity: the store keeps unchanged parts of an object, and most updates change others.
    return old.status.allocation is new.status.allocation


def results_of(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    """Return the claim's allocated devices."""
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def rule_selects(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """Return True if a rule selects a device; a rule without selector selects none."""
    selector = rule.spec.device_selector
    return (
        selector is not None
        and selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and selector.device in (None, device)
    )


class DeviceTaints:
    """All NoExecute taints as informers show them."""

    def __init__(self, slices: Store[ResourceSlice] | None, rules: Informer[Any] | None) -> None:
        """Either may be None when its feature is off, or when the taints of rules are in the slices already."""
        self._slices = slices
        self._rules = rules
        self._tainted: dict[str, Mapping[str, tuple[DeviceTaint, ...]]] = {}
        if slices is not None:
            slices.add_index(_BY_POOL, _pool_keys)

    @property
    def are_any(self) -> bool:
        """Return True if a device may have a taint at all."""
        return bool(self._tainted) or (self._rules is not None and bool(self._rules.store.by_key))

    def enter(self, slice_: ResourceSlice) -> None:
        """Take note of a slice's tainted devices."""
        tainted = tainted_devices(slice_)
        if tainted:
            self._tainted[slice_.metadata.name] = tainted
        else:
            self._tainted.pop(slice_.metadata.name, None)

    def remove(self, slice_: ResourceSlice) -> None:
        """Remove a slice; an unknown one is ignored."""
        self._tainted.pop(slice_.metadata.name, None)

    def rules(self) -> tuple[DeviceTaintRule, ...]:
        """Return every rule, sorted by name."""
        if self._rules is None:
            return ()
        return tuple(sorted(self._rules.store, key=lambda rule: rule.metadata.name))

    def newest(self, driver: str, pool: str) -> list[ResourceSlice]:
        """Return the slices of the newest generation of a pool."""
        if self._slices is None:
            return []
        slices = self._slices.by_index(_BY_POOL, f"{driver}/{pool}")
        # Slices of former generations may still exist while a driver writes the new ones; their devices are obsolete.
        newest = max((slice_.spec.pool.generation for slice_ in slices), default=0)
        return [slice_ for slice_ in slices if slice_.spec.pool.generation == newest]

    def of(self, driver: str, pool: str, device: str) -> Iterator[Tainted]:
        """Yield the NoExecute taints of a device: rules first, then its slice."""
        for rule in self.rules():
            if rule.spec.taint.effect == NO_EXECUTE and rule_selects(rule, driver, pool, device):
                yield Tainted(rule.metadata.name, rule.metadata.uid, rule.spec.taint)
        # Nearly always true, and spares the search for the newest slices.
        if not self._tainted:
            return
        for slice_ in self.newest(driver, pool):
            for taint in self._tainted.get(slice_.metadata.name, {}).get(device, ()):
                yield Tainted("", "", taint)


def tainted_devices(slice_: ResourceSlice) -> dict[str, tuple[DeviceTaint, ...]]:
    """Return the NoExecute taints by device name, for those devices that have any."""
    return {
        device.name: taints
        for device in slice_.spec.devices
        if device.taints and (taints := tuple(t for t in device.taints if t.effect == NO_EXECUTE))
    }


def _pool_keys(slice_: ResourceSlice) -> tuple[str, ...]:
    return (f"{slice_.spec.driver}/{slice_.spec.pool.name}",)


class EvictionTime(msgspec.Struct, frozen=True):
    """A pod or a claim's pods have to go: from when on (epoch seconds), and because of which taints."""

    due: float
    reasons: tuple[Tainted, ...]


def due_time(taint: DeviceTaint, tolerations: Iterable[DeviceToleration], *, every_effect: bool = True) -> float | None:
    """Return the time at which pods with the tainted device must be evicted (epoch seconds); None if they may stay.

    ``every_effect``: True if a toleration without effect covers NoExecute, as the API documents it. Up to 1.36 it
    allows scheduling, but does not prevent eviction.
    """
    # Without a time the taint counts as old: pods without toleration leave at once.
    added = taint.time_added.timestamp if taint.time_added is not None else 0.0
    counting = [toleration for toleration in tolerations if every_effect or toleration.effect]
    matching = [toleration for toleration in counting if tolerates_device_taint(toleration, taint)]
    if not matching:
        return added
    limits = [toleration.toleration_seconds for toleration in matching]
    if any(limit is None for limit in limits):
        return None
    # The shortest toleration counts, as for taints of nodes; negative seconds mean at once.
    return added + min(max(limit, 0) for limit in limits if limit is not None)


def claim_eviction_time(
    claim: ResourceClaim, taints: DeviceTaints, *, every_effect: bool = True
) -> EvictionTime | None:
    """Return True if and when the users of a claim have to go.

    The tolerations that count are those recorded in the allocation, not those of the claim's spec.
    """
    due: float | None = None
    reasons: dict[Tainted, None] = {}
    for result in results_of(claim):
        for tainted in taints.of(result.driver, result.pool, result.device):
            time = due_time(tainted.taint, result.tolerations, every_effect=every_effect)
            if time is None:
                continue
            reasons[tainted] = None
            due = time if due is None else min(due, time)
    return EvictionTime(due, tuple(reasons)) if due is not None else None


def earliest(times: Iterable[EvictionTime]) -> EvictionTime | None:
    """Return the times of several claims as one."""
    times = tuple(times)
    if not times:
        return None
    reasons = dict.fromkeys(reason for eviction in times for reason in eviction.reasons)
    return EvictionTime(min(eviction.due for eviction in times), tuple(reasons))
