"""Limits of a namespace on what its claims hold: devices and capacity by class, in Kubernetes' ResourceQuota.

Kubernetes limits what claims request, when they are created, and counts devices only. These limits have names of their
own, which Kubernetes stores and ignores: ``CLASS.deviceclass.scheduling.cathedra.dev/devices``, or the name of a
capacity instead of ``devices``. They apply to what is allocated; the scheduler's plugin DeviceQuota enforces them
(docs/decisions/0013-quotas.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import ResourceQuota
from cathedra.api.quantity import NANO, Format, Quantity
from cathedra.api.resource import AllocationResult, Device, DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
from cathedra.kinds.resource.claims.usage import classes_by_request

HELD_INFIX: Final = ".deviceclass.scheduling.cathedra.dev/"
DEVICES: Final = "devices"

Amounts = dict[str, int]
"""Name of a limit → nano-units."""
FindDevice = Callable[[DeviceRequestAllocationResult], Device | None]
"""Returns a device that is allocated; None if no driver publishes it any more."""


class ExceededQuota(msgspec.Struct, frozen=True):
    """A limit that a claim would exceed."""

    quota: str
    resource: str
    requested: Quantity
    used: Quantity
    hard: Quantity

    def __str__(self) -> str:
        """Return the text, in the form of Kubernetes' refusal of a request over a quota."""
        name = self.resource
        return (
            f"exceeded quota: {self.quota}, requested: {name}={self.requested}, used: {name}={self.used}, "
            f"limited: {name}={self.hard}"
        )


def held_limits(quota: ResourceQuota) -> Mapping[str, Quantity]:
    """Return the limits of a quota on what claims hold."""
    return {name: hard for name, hard in quota.spec.hard.items() if HELD_INFIX in name}


def held_amounts(claim: ResourceClaim, allocation: AllocationResult, device_of: FindDevice) -> Amounts:
    """Return what an allocation holds, by the names of limits. Admin access takes nothing from others.

    Of a shared device the consumed capacity counts, of others the whole.
    """
    classes = classes_by_request(claim)
    held: Amounts = {}
    for one in allocation.devices.results:
        if one.admin_access:
            continue
        class_ = f"{classes.get(one.request, '')}{HELD_INFIX}"
        held[f"{class_}{DEVICES}"] = held.get(f"{class_}{DEVICES}", 0) + NANO
        for name, quantity in _capacity(one, device_of):
            held[f"{class_}{name}"] = held.get(f"{class_}{name}", 0) + quantity.nanos
    return held


def held_by_namespace(claims: Iterable[ResourceClaim], slices: Iterable[ResourceSlice]) -> dict[str, Amounts]:
    """Return the usage by allocated claims of each namespace, by the names of limits."""
    devices = {
        (piece.spec.driver, piece.spec.pool.name, device.name): device
        for piece in slices
        for device in piece.spec.devices or ()
    }
    held: dict[str, Amounts] = {}
    for claim in claims:
        if (allocation := claim.status.allocation) is not None:
            more = held_amounts(claim, allocation, lambda one: devices.get((one.driver, one.pool, one.device)))
            held[claim.metadata.namespace] = total((held.get(claim.metadata.namespace, {}), more))
    return held


def _capacity(one: DeviceRequestAllocationResult, device_of: FindDevice) -> Iterator[tuple[str, Quantity]]:
    consumed: Mapping[str, Quantity] = one.consumed_capacity
    if one.share_id is None:
        device = device_of(one)
        consumed = {name: held.value for name, held in device.capacity.items()} if device is not None else {}
    for name, quantity in consumed.items():
        # A name with the driver's own domain and one without mean the same capacity.
        yield name.removeprefix(f"{one.driver}/").replace("/", "."), quantity


def least_devices(claim: ResourceClaim) -> Amounts:
    """Return the devices that every allocation of a claim holds at least; alternatives and All are not known before."""
    least: Amounts = {}
    for request in claim.spec.devices.requests or ():
        exact = request.exactly
        if exact is not None and exact.allocation_mode == "ExactCount" and not exact.admin_access:
            name = f"{exact.device_class_name}{HELD_INFIX}{DEVICES}"
            least[name] = least.get(name, 0) + (exact.count or 1) * NANO
    return least


def total(parts: Iterable[Amounts]) -> Amounts:
    """Return the sum of amounts."""
    found: Amounts = {}
    for part in parts:
        for name, nanos in part.items():
            found[name] = found.get(name, 0) + nanos
    return found


def exceeded(quotas: Iterable[ResourceQuota], used: Amounts, requested: Amounts) -> ExceededQuota | None:
    """Return the first limit, by the names of quotas, that ``requested`` would exceed beside ``used``."""
    for quota in sorted(quotas, key=lambda one: one.metadata.name):
        for name, hard in sorted(held_limits(quota).items()):
            more, have = requested.get(name, 0), used.get(name, 0)
            if more and have + more > hard.nanos:
                return ExceededQuota(quota.metadata.name, name, amount(more, hard), amount(have, hard), hard)
    return None


def amount(nanos: int, like: Quantity) -> Quantity:
    """Return an amount with the suffixes of another."""
    text = str(like)
    return Quantity.of_nanos(nanos, Format.BINARY_SI if text.endswith("i") else Format.DECIMAL_SI)
