"""Tables of the DRA kinds (spec: api.md, section 2.0)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api import resource
from cathedra.api.core import resource_v1alpha3, scheduling_v1alpha3
from cathedra.api.definition import Column
from cathedra.api.tables.ages import AGE, NAME, age

CLAIM_COLUMNS: Final = (NAME, Column("State", description="Whether the claim is allocated, reserved, deleted."), AGE)
NAME_AND_AGE: Final = (NAME, AGE)
SLICE_COLUMNS: Final = (
    NAME,
    Column("Node", description="The node the devices are local to."),
    Column("Driver", description="The driver that publishes the devices."),
    Column("Pool", description="The pool the devices belong to."),
    AGE,
)
TAINT_RULE_COLUMNS: Final = (
    NAME,
    Column("Key", description="The taint's key."),
    Column("Value", description="The taint's value."),
    Column("Effect", description="What the taint does."),
    Column("TimeAdded", description="How long the taint has been in force."),
    AGE,
)
POOL_STATUS_COLUMNS: Final = (
    NAME,
    Column("Driver", description="The driver asked about."),
    Column("Total", description="Devices in the pools found."),
    Column("Available", description="Devices free to be allocated."),
    Column("Allocated", description="Devices held by claims."),
    Column("Unavailable", description="Devices that cannot be allocated now."),
    Column("Errors", description="Pools whose slices are not consistent."),
    Column("Pools", type="integer", description="Pools that match."),
    Column("Status", description="Whether the question has been answered."),
    Column("Completed", description="How long ago it was answered."),
)
POD_GROUP_COLUMNS: Final = (
    NAME,
    Column("Policy", description="How the group is scheduled."),
    Column("Workload", description="The workload the group belongs to."),
    Column("Status", description="How far scheduling has come."),
    AGE,
)


def name_and_age(obj: Any, now: float) -> list[Any]:
    """Cells of the plainest table."""
    return [obj.metadata.name, age(obj.metadata.creation_timestamp, now)]


def claim_state(claim: resource.ResourceClaim) -> str:
    """The claim's state in words, joined by commas: «allocated,reserved»."""
    states = ["deleted"] if claim.metadata.deletion_timestamp else []
    if claim.status.allocation is not None:
        states.append("allocated")
        if claim.status.reserved_for:
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


def claim_cells(claim: resource.ResourceClaim, now: float) -> list[Any]:
    """Cells of a ResourceClaim."""
    return [claim.metadata.name, claim_state(claim), age(claim.metadata.creation_timestamp, now)]


def slice_cells(piece: resource.ResourceSlice, now: float) -> list[Any]:
    """Cells of a ResourceSlice."""
    spec = piece.spec
    created = age(piece.metadata.creation_timestamp, now)
    return [piece.metadata.name, spec.node_name or "", spec.driver, spec.pool.name, created]


def taint_rule_cells(rule: resource.DeviceTaintRule, now: float) -> list[Any]:
    """Cells of a DeviceTaintRule."""
    taint = rule.spec.taint
    added = age(taint.time_added, now) if taint.time_added else ""
    return [rule.metadata.name, taint.key, taint.value, taint.effect, added, age(rule.metadata.creation_timestamp, now)]


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


def pod_group_cells(group: scheduling_v1alpha3.PodGroup, now: float) -> list[Any]:
    """Cells of a PodGroup."""
    policy = "Gang" if group.spec.scheduling_policy.gang is not None else "Basic"
    reference = getattr(group.spec, "workload_ref", None) or getattr(group.spec, "pod_group_template_ref", None)
    return [
        group.metadata.name,
        policy,
        _workload_name(reference),
        _group_status(group),
        age(group.metadata.creation_timestamp, now),
    ]


def _workload_name(reference: Any) -> str:
    if reference is None:
        return "<none>"
    workload = getattr(reference, "workload", None) or reference
    return getattr(workload, "workload_name", "") or "<none>"


def _group_status(group: scheduling_v1alpha3.PodGroup) -> str:
    status = "Pending"
    for condition in group.status.conditions:
        if condition.type == "PodGroupScheduled":
            status = {"True": "Scheduled", "False": "Unschedulable"}.get(condition.status, status)
    for condition in group.status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            status = condition.reason
    return status
