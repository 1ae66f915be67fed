"""Finding a pod's containers again after the agent was restarted.

The runtime says which containers there are; the API says what was known of them. A pod of which something still runs
goes on as if nothing had happened: no claim is prepared again, no container runs twice. A pod of which nothing runs any
more, and that is not over, begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cathedra.api.core.core_v1 import ContainerStateTerminated, ContainerStatus, Pod
from cathedra.clock import Clock
from cathedra.node.containers.plan import make_plan
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.runtime.runtime import ContainerRun
from cathedra.node.setup.launch import identity_of

__all__ = ["recover_records"]


def recover_records(
    pod: Pod, records: Mapping[str, ContainerRecord], found: Sequence[ContainerRun], clock: Clock
) -> bool:
    """Fill ``records`` with what an earlier agent left; whether the pod goes on from there.

    If not, restart counts and last states are kept, and everything else is as new.
    """
    latest = {state.name: state for state in sorted(found, key=lambda state: state.attempt)}
    known = pod.status
    every = (*known.init_container_statuses, *known.container_statuses, *known.ephemeral_container_statuses)
    for status in every:
        record = records.get(status.name)
        if record is not None:
            _recover(pod, record, status, latest.get(status.name), clock.now())
    for name, state in latest.items():
        record = records.get(name)
        if record is not None and record.current is None:
            record.current, record.attempt = state, state.attempt
    alive = any(record.running for record in records.values())
    if alive or (make_plan(pod, tuple(records.values()), clock.monotonic()).finished and latest):
        return True
    for record in records.values():
        if record.current is not None:
            record.previous = record.current
            record.attempt += 1
        record.current = None
        record.waiting = None
    return False


def _recover(
    pod: Pod, record: ContainerRecord, status: ContainerStatus, state: ContainerRun | None, now: float
) -> None:
    record.attempt = status.restart_count
    if status.last_state.terminated is not None:
        record.previous = _ended(pod, record, status.last_state.terminated, status.restart_count - 1)
    if state is not None and state.attempt >= status.restart_count:
        if state.attempt > status.restart_count and status.state.terminated is not None:
            record.previous = _ended(pod, record, status.state.terminated, status.restart_count)
        record.attempt, record.current = state.attempt, state
    elif status.state.terminated is not None:
        record.current = _ended(pod, record, status.state.terminated, status.restart_count)
    elif status.state.running is not None:
        began = status.state.running.started_at
        record.current = ContainerRun(
            status.container_id.partition("://")[2],
            identity_of(pod),
            record.name,
            status.restart_count,
            began.timestamp if began is not None else 0.0,
            finished_at=now,  # when it ended nobody knows; by now it has
            exit_code=137,
            reason="ContainerStatusUnknown",
            message="The container could not be located when the node agent came back",
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
