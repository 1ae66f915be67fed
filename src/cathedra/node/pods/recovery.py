"""Finding a pod's containers again after the agent was restarted.

The runtime says which containers there are; the API says what was known of them. A pod of which something still runs
goes on as if nothing had happened: no claim is prepared again, no container runs twice. A pod of which nothing runs any
more, and that is not over, begins anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from cathedra.api.core.core_v1 import ContainerStateTerminated, ContainerStatus, Pod
from cathedra.clock import Clock
from cathedra.node.containers.plan import make_plan
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.runtime.runtime import LOST_REASON, ContainerRun
from cathedra.node.setup.launch import identity_of

__all__ = ["RecoveredContainers", "recover_containers"]

_LOST: Final = "The container could not be located when the node agent came back.  The container used to be Running"


class RecoveredContainers(NamedTuple):
    """The pod's containers, and whether it goes on from there; else it begins anew."""

    records: tuple[ContainerRecord, ...]
    continues: bool


def recover_containers(
    pod: Pod, records: Sequence[ContainerRecord], found: Sequence[ContainerRun], clock: Clock
) -> RecoveredContainers:
    """The fresh ``records`` with what an earlier agent left.

    If the pod begins anew, restart counts and last states are kept, and everything else is as new.
    """
    latest = {run.name: run for run in sorted(found, key=lambda run: run.attempt)}
    known = pod.status
    every = (*known.init_container_statuses, *known.container_statuses, *known.ephemeral_container_statuses)
    statuses = {status.name: status for status in every}
    recovered = tuple(
        _recover(pod, record, statuses.get(record.name), latest.get(record.name), clock.now()) for record in records
    )
    if any(record.running for record in recovered):
        return RecoveredContainers(recovered, continues=True)
    if latest and make_plan(pod, recovered, clock.monotonic()).finished:
        return RecoveredContainers(recovered, continues=True)
    return RecoveredContainers(tuple(record.renew() for record in recovered), continues=False)


def _recover(
    pod: Pod, record: ContainerRecord, status: ContainerStatus | None, run: ContainerRun | None, now: float
) -> ContainerRecord:
    if status is None:
        return record if run is None else record.adopt(run)
    record = replace(record, attempt=status.restart_count)
    if status.last_state.terminated is not None:
        last = _ended(pod, record, status.last_state.terminated, status.restart_count - 1)
        record = replace(record, previous=last)
    if run is not None and run.attempt >= status.restart_count:
        if run.attempt > status.restart_count and status.state.terminated is not None:
            last = _ended(pod, record, status.state.terminated, status.restart_count)
            record = replace(record, previous=last)
        return record.adopt(run)
    if status.state.terminated is not None:
        return record.adopt(_ended(pod, record, status.state.terminated, status.restart_count))
    if status.state.running is not None:
        return record.adopt(_lost(pod, record, status, now))
    return record if run is None else record.adopt(run)


def _lost(pod: Pod, record: ContainerRecord, status: ContainerStatus, now: float) -> ContainerRun:
    """It ran, and the runtime does not know it any more; when it ended is unknown, by now it has."""
    assert status.state.running is not None
    began = status.state.running.started_at
    return ContainerRun(
        status.container_id.partition("://")[2],
        identity_of(pod),
        record.name,
        status.restart_count,
        began.timestamp if began is not None else 0.0,
        finished_at=now,
        exit_code=137,
        reason=LOST_REASON,
        message=_LOST,
    )


def _ended(pod: Pod, record: ContainerRecord, ended: ContainerStateTerminated, attempt: int) -> ContainerRun:
    return ContainerRun(
        ended.container_id.partition("://")[2],
        identity_of(pod),
        record.name,
        max(attempt, 0),
        ended.started_at.timestamp if ended.started_at is not None else 0.0,
        finished_at=ended.finished_at.timestamp if ended.finished_at is not None else 0.0,
        exit_code=ended.exit_code,
        signal=ended.signal,
        reason=ended.reason,
        message=ended.message,
    )
