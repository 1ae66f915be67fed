"""Columns and cells of pool status requests."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import resource_v1alpha3
from cathedra.kinds.columns import NAME, age
from cathedra.kinds.definition import Column

__all__ = ["POOL_STATUS_COLUMNS", "pool_status_cells"]

POOL_STATUS_COLUMNS: Final = (
    NAME,
    Column("Driver", description="The driver of the pools."),
    Column("Total", description="Devices in the pools found."),
    Column("Available", description="Devices free to be allocated."),
    Column("Allocated", description="Devices held by claims."),
    Column("Unavailable", description="Devices that cannot be allocated now."),
    Column("Errors", description="Pools whose slices are not consistent."),
    Column("Pools", type="integer", description="Pools that match."),
    Column("Status", description="Whether the question has been answered."),
    Column("Completed", description="How long ago it was answered."),
)


def pool_status_cells(request: resource_v1alpha3.ResourcePoolStatusRequest, now: float) -> list[Any]:
    """Cells of a ResourcePoolStatusRequest: dashes until there is an answer."""
    status = request.status
    numbers: list[str] = ["-"] * 5
    state, completed, count = "Pending", "<none>", 0
    if status is not None:
        count = status.pool_count or 0
        numbers = _sums(status.pools)
        for condition in status.conditions:
            if condition.status != "True" or condition.type not in ("Complete", "Failed"):
                continue
            state = condition.type
            completed = age(condition.last_transition_time, now)
            if condition.type == "Complete" and count > len(status.pools):
                state = f"Complete ({len(status.pools)}/{count} pools)"
    return [request.metadata.name, request.spec.driver, *numbers, count, state, completed]


def _sums(pools: tuple[resource_v1alpha3.PoolStatus, ...]) -> list[str]:
    return [
        str(sum(pool.total_devices or 0 for pool in pools)),
        str(sum(pool.available_devices or 0 for pool in pools)),
        str(sum(pool.allocated_devices or 0 for pool in pools)),
        str(sum(pool.unavailable_devices or 0 for pool in pools)),
        str(sum(1 for pool in pools if pool.validation_error)),
    ]
