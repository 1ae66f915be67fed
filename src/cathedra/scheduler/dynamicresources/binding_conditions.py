"""Devices that must be attached before a pod may be bound: their conditions, failures and time limits.

A device may list conditions that its driver (or a controller) reports in the claim's status. The scheduler writes the
allocation, and then waits; a failure or a time-out sends the pod back, and the next cycle finds the claim unusable
everywhere and deallocates it (docs/spec/scheduling.md §10).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from cathedra.api.resource import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from cathedra.semantics.conditions import is_true

__all__ = ["POLL_SECONDS", "BindingFailed", "Progress", "progress", "waits"]

POLL_SECONDS = 5.0


class BindingFailed(Exception):
    """A device reported a failure, or the time is over."""


class Progress(enum.Enum):
    """How far the devices of a claim are."""

    READY = "ready"
    WAITING = "waiting"


def waits(claim: ResourceClaim) -> bool:
    """Whether any allocated device has binding conditions."""
    allocation = claim.status.allocation
    if allocation is not None:
        for result in allocation.devices.results:
            if result.binding_conditions:
                return True
    return False


def progress(claim: ResourceClaim, now: float, timeout: float) -> Progress:
    """Whether every device is ready.

    Raises:
        BindingFailed: a failure condition is true, or the claim was allocated too long ago.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return Progress.READY
    # Every device is looked at, for a failure counts wherever it is.
    ready = [_is_ready(claim, result) for result in allocation.devices.results if result.binding_conditions]
    if all(ready):
        return Progress.READY
    since = allocation.allocation_timestamp
    if since is not None and since.timestamp + timeout < now:
        raise BindingFailed(f"device binding timeout: claim={claim.metadata.name}")
    return Progress.WAITING


def _is_ready(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> bool:
    status = _status_of(claim.status.devices, result)
    if status is None:
        return False
    conditions = status.conditions or ()
    for condition in conditions:
        if condition.type in result.binding_failure_conditions and condition.status == "True":
            raise BindingFailed(
                f"device binding failed: claim={claim.metadata.name}, reason={condition.reason}, "
                f'message="{condition.message}"'
            )
    return all(is_true(conditions, wanted) for wanted in result.binding_conditions)


def _status_of(
    devices: Iterable[AllocatedDeviceStatus], result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    return next((status for status in devices if (status.driver, status.pool, status.device) == wanted), None)
