"""Binding conditions of allocated devices: whether they are decided, and the status entries for them.

The scheduler has written the allocation and waits until each device's conditions are true, or one of its failure
conditions is (KEP-5007; docs/spec/driver-sdk.md §14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cathedra.api.core.meta_v1 import Condition
from cathedra.api.resource import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from cathedra.semantics.conditions import is_true

DeviceKey = tuple[str, str, str | None]
"""Pool, device and share."""


class BindingConditionTypes(msgspec.Struct, frozen=True):
    """The conditions that one controller sets."""

    attached: Sequence[str]
    failed: Sequence[str]

    @property
    def all(self) -> frozenset[str]:
        """Every one of them."""
        return frozenset((*self.attached, *self.failed))


class BindingOutcome(msgspec.Struct, frozen=True):
    """Outcome for a device: ready, failed or waiting, with a message."""

    reason: str
    message: str
    ready: bool = False
    failed: bool = False


def own_results(claim: ResourceClaim, driver: str) -> list[DeviceRequestAllocationResult]:
    """Return the devices of ``driver`` that are allocated to the claim."""
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results or ()
    return [result for result in results if result.driver == driver]


def device_key(one: DeviceRequestAllocationResult | AllocatedDeviceStatus) -> DeviceKey:
    """Return the key that distinguishes allocated devices of one driver."""
    return one.pool, one.device, one.share_id


def is_ready(claim: ResourceClaim, result: DeviceRequestAllocationResult, types: BindingConditionTypes) -> bool:
    """Return True if each binding condition of the device is true."""
    conditions = _present(claim, result)
    return all(is_true(conditions, one) for one in types.attached)


def is_decided(claim: ResourceClaim, result: DeviceRequestAllocationResult, types: BindingConditionTypes) -> bool:
    """Return True if the device is ready or has failed."""
    conditions = _present(claim, result)
    return is_ready(claim, result, types) or any(is_true(conditions, one) for one in types.failed)


def status_entries(
    claim: ResourceClaim,
    results: Sequence[DeviceRequestAllocationResult],
    outcomes: Mapping[DeviceKey, BindingOutcome],
    types: BindingConditionTypes,
) -> tuple[AllocatedDeviceStatus, ...]:
    """Return the entries to apply: ``outcomes``, and for other devices the existing entries.

    Server-side apply removes what a manager applied before and leaves out now, so all its entries are applied every
    time.
    """
    entries = (_entry(claim, result, outcomes.get(device_key(result)), types) for result in results)
    return tuple(entry for entry in entries if entry.conditions)


def _entry(
    claim: ResourceClaim,
    result: DeviceRequestAllocationResult,
    outcome: BindingOutcome | None,
    types: BindingConditionTypes,
) -> AllocatedDeviceStatus:
    conditions = tuple(one for one in _present(claim, result) if one.type in types.all)
    if outcome is not None:
        kinds = types.failed if outcome.failed else types.attached
        status = "True" if outcome.ready or outcome.failed else "False"
        conditions = tuple(
            Condition(type=kind, status=status, reason=outcome.reason, message=outcome.message) for kind in kinds
        )
    return AllocatedDeviceStatus(
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        share_id=result.share_id,
        conditions=conditions,
    )


def _present(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> Sequence[Condition]:
    for entry in claim.status.devices:
        if entry.driver == result.driver and device_key(entry) == device_key(result):
            return entry.conditions or ()
    return ()
