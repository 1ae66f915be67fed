"""The devices of a cluster, each with its state and who holds it.

A device can be unusable although no claim holds it: by a taint of its own or of a DeviceTaintRule, by counters that
allocated devices have used up, or because its pool is being updated. Devices of older generations of a pool are gone,
as they are for the allocator (docs/spec/allocation.md §4 and §5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from cathedra.allocation.supply.devices import selects
from cathedra.api.quantity import Quantity
from cathedra.api.resource import Device, DeviceAttribute, DeviceTaint, DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.cluster.views.waiting import Surroundings
from cathedra.semantics.tolerations import HARD_EFFECTS

__all__ = ["DeviceKey", "DeviceRow", "device_rows"]

DeviceKey: TypeAlias = tuple[str, str, str]
"""Driver, pool, device."""
PoolKey: TypeAlias = tuple[str, str]
"""Driver, pool."""
CounterKey: TypeAlias = tuple[str, str, str, str]
"""Driver, pool, counter set, counter."""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device, what it says of itself, its state, and the claims (``namespace/name``) that hold it.

    ``state`` is ``allocated``, ``shared`` (claims hold shares of it, and more may), ``unusable`` (its pool is being
    updated), ``blocked`` (it needs counters that allocated devices have used up), ``tainted`` (no pod without a
    toleration gets it), or ``free``.
    """

    node: str
    driver: str
    pool: str
    name: str
    attributes: dict[str, str]
    capacity: dict[str, str]
    claims: tuple[str, ...]
    state: str
    taints: tuple[str, ...] = ()
    """Those that keep claims away, as ``key=value:effect``: the device's own first, then those of rules."""


def device_rows(around: Surroundings) -> Iterator[DeviceRow]:
    """The devices of all pools, each with its state."""
    holders: dict[DeviceKey, list[str]] = {}
    for claim in around.claims:
        for key in _held(claim):
            holders.setdefault(key, []).append(f"{claim.metadata.namespace}/{claim.metadata.name}")
    slices = tuple(_newest(around.slices))
    incomplete = set(_incomplete(slices))
    left = _counters_left(slices, holders)
    heeds_taints = around.features.device_taints
    for piece in slices:
        spec = piece.spec
        pool = (spec.driver, spec.pool.name)
        for device in spec.devices:
            taints = tuple(_hard_taints(device, pool, around.rules)) if heeds_taints else ()
            held = (*pool, device.name) in holders
            yield DeviceRow(
                node=spec.node_name or device.node_name or "",
                driver=spec.driver,
                pool=spec.pool.name,
                name=device.name,
                attributes={name: _attribute_text(value) for name, value in sorted(device.attributes.items())},
                capacity={name: str(amount.value) for name, amount in sorted(device.capacity.items())},
                claims=tuple(holders.get((*pool, device.name), ())),
                state=_state(device, left, pool, held=held, complete=pool not in incomplete, tainted=bool(taints)),
                taints=tuple(map(_taint_text, taints)),
            )


def _held(claim: ResourceClaim) -> Iterator[DeviceKey]:
    """The devices that a claim holds; those under admin access stay free."""
    if claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            if not result.admin_access:
                yield result.driver, result.pool, result.device


def _newest(slices: Collection[ResourceSlice]) -> Iterator[ResourceSlice]:
    newest: dict[PoolKey, int] = {}
    for piece in slices:
        key = (piece.spec.driver, piece.spec.pool.name)
        newest[key] = max(newest.get(key, 0), piece.spec.pool.generation)
    return (piece for piece in slices if piece.spec.pool.generation == newest[piece.spec.driver, piece.spec.pool.name])


def _incomplete(slices: Iterable[ResourceSlice]) -> Iterator[PoolKey]:
    found: dict[PoolKey, list[int]] = {}
    for piece in slices:
        found.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece.spec.pool.resource_slice_count)
    return (pool for pool, counts in found.items() if len(counts) != max(counts))


def _state(
    device: Device, left: Mapping[CounterKey, Quantity], pool: PoolKey, *, held: bool, complete: bool, tainted: bool
) -> str:
    if held:
        return "shared" if device.allow_multiple_allocations else "allocated"
    if not complete:
        return "unusable"
    for use in device.consumes_counters:
        for name, amount in use.counters.items():
            remaining = left.get((*pool, use.counter_set, name))
            if remaining is not None and remaining < amount.value:
                return "blocked"
    return "tainted" if tainted else "free"


def _hard_taints(device: Device, pool: PoolKey, rules: Iterable[DeviceTaintRule]) -> Iterator[DeviceTaint]:
    of_rules = (rule.spec.taint for rule in rules if selects(rule, *pool, device.name))
    return (taint for taint in (*device.taints, *of_rules) if taint.effect in HARD_EFFECTS)


def _taint_text(taint: DeviceTaint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _counters_left(slices: Collection[ResourceSlice], held: Collection[DeviceKey]) -> dict[CounterKey, Quantity]:
    """What allocated devices leave of the counters of their pools."""
    left = {
        (piece.spec.driver, piece.spec.pool.name, counters.name, name): counter.value
        for piece in slices
        for counters in piece.spec.shared_counters
        for name, counter in counters.counters.items()
    }
    for piece in slices:
        pool = (piece.spec.driver, piece.spec.pool.name)
        for device in piece.spec.devices:
            if (*pool, device.name) not in held:
                continue
            for use in device.consumes_counters:
                for name, amount in use.counters.items():
                    key = (*pool, use.counter_set, name)
                    if key in left:
                        left[key] = left[key] - amount.value
    return left


def _attribute_text(attribute: DeviceAttribute) -> str:
    values = (attribute.string, attribute.version, attribute.int_, attribute.bool_)
    scalar = next((value for value in values if value is not None), None)
    if scalar is not None:
        return str(scalar).lower() if isinstance(scalar, bool) else str(scalar)
    several = attribute.strings or attribute.versions or attribute.ints or attribute.bools
    return ",".join(map(str, several))
