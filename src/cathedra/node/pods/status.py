"""A pod's status from what its containers are doing: phase, conditions, container statuses.

docs/spec/node.md §17.5 to §17.7. A pure function. Conditions that others own are kept; a condition's transition
time changes only with its status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
    ResourceRequirements,
    ResourceStatus,
)
from cathedra.api.struct import Time, replace
from cathedra.node.containers.plan import initialized
from cathedra.node.containers.records import ContainerRecord, of_kind, will_restart
from cathedra.node.pods.admission import Rejection
from cathedra.node.runtime.runtime import ContainerRun
from cathedra.semantics.conditions import find_condition, is_true, keep_transition_time
from cathedra.semantics.pods import is_terminal

__all__ = ["PodView", "pod_status", "rejected_status"]

_OWNED: Final = frozenset(
    {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodResizePending", "PodResizeInProgress"}
)
_LOST: Final = "The container could not be located when the pod was terminated"


class PodView(msgspec.Struct, frozen=True):
    """What a status needs besides pod and containers; ``now`` is in seconds since the epoch."""

    now: float
    runtime: str
    host_ip: str
    pod_ip: str = ""
    started_at: float | None = None
    sandbox: bool = False
    final: bool = False
    """The pod is over and everything of it has been let go: the phase becomes terminal."""
    stopping: bool = False
    """The pod is being ended; nothing of it is ready any more."""
    failure: tuple[str, str] | None = None
    """Reason and message of a pod that ran into its deadline: it fails."""
    resources: Mapping[str, tuple[ResourceStatus, ...]] = msgspec.field(default_factory=dict)
    """Health of devices by container."""
    granted: Mapping[str, ResourceRequirements] = msgspec.field(default_factory=dict)
    """What containers were granted, by name."""
    applied: Mapping[str, ResourceRequirements] = msgspec.field(default_factory=dict)
    """What is in effect, of containers for which that is something else."""
    whole: ResourceRequirements | None = None
    """What the pod as a whole was granted, with what its claims add; None: that is not told."""
    resize: tuple[PodCondition, ...] = ()
    """Conditions of a resize that is not done."""


def pod_status(pod: Pod, records: Sequence[ContainerRecord], view: PodView) -> PodStatus:
    """The pod's status; fields of others are taken over from ``pod``."""
    old = pod.status
    init = tuple(_container_status(pod, record, view, records) for record in of_kind(records, init=True))
    regular = tuple(_container_status(pod, record, view, records) for record in of_kind(records, init=False))
    ephemeral = tuple(_container_status(pod, record, view, records) for record in records if record.ephemeral)
    phase = _phase(pod, records, view)
    addresses = view.sandbox and view.pod_ip
    started = old.start_time or (Time(view.started_at) if view.started_at is not None else None)
    reason, message = view.failure or (old.reason, old.message)
    return replace(
        old,
        phase=phase,
        reason=reason,
        message=message,
        conditions=_conditions(pod, records, (*init, *regular), phase, view),
        host_ip=view.host_ip,
        host_ips=(HostIP(ip=view.host_ip),),
        pod_ip=view.pod_ip if addresses else old.pod_ip,
        pod_ips=(PodIP(ip=view.pod_ip),) if addresses else old.pod_ips,
        start_time=started,
        init_container_statuses=init,
        container_statuses=regular,
        ephemeral_container_statuses=ephemeral,
        observed_generation=pod.metadata.generation,
        allocated_resources=view.whole.requests if view.whole is not None else old.allocated_resources,
        resources=view.whole if view.whole is not None else old.resources,
    )


def rejected_status(pod: Pod, now: float, rejection: Rejection) -> PodStatus:
    """The status of a pod that the node does not take: it has failed, and nothing of it was ever there."""
    return replace(
        pod.status,
        phase="Failed",
        reason=rejection.reason,
        message=f"Pod was rejected: {rejection.message}",
        start_time=pod.status.start_time or Time(now),
        observed_generation=pod.metadata.generation,
    )


def _phase(pod: Pod, records: Sequence[ContainerRecord], view: PodView) -> str:
    if is_terminal(pod):
        return pod.status.phase
    regular = of_kind(records, init=False)
    if view.final:
        if view.failure is not None:
            return "Failed"
        ended = [record.ended for record in regular]
        good = all(state is not None and state.exit_code == 0 for state in ended)
        return "Succeeded" if good else "Failed"
    begun = initialized(records) and all(record.current is not None or record.attempt for record in regular)
    return "Running" if begun else "Pending"


def _container_status(
    pod: Pod, record: ContainerRecord, view: PodView, records: Sequence[ContainerRecord]
) -> ContainerStatus:
    state, last = _states(pod, record, view, records)
    ended = record.ended
    ready = record.running and record.started and record.ready and not view.stopping and not record.ephemeral
    if record.init and not record.sidecar:
        ready = ended is not None and ended.exit_code == 0
    current = record.current or record.previous
    granted = view.granted.get(record.name, record.container.resources)
    return ContainerStatus(
        name=record.name,
        state=state,
        last_state=last,
        ready=ready,
        restart_count=record.attempt,
        image=(current.image if current is not None else "") or record.container.image,
        image_id=current.image_id or record.container.image if current is not None else "",
        container_id=f"{view.runtime}://{current.id}" if current is not None else "",
        started=record.running and record.started if not (record.init and not record.sidecar and ended) else False,
        allocated_resources=granted.requests if current is not None else {},
        resources=replace(view.applied.get(record.name, granted), claims=()) if current is not None else None,
        allocated_resources_status=view.resources.get(record.name, ()),
    )


def _states(
    pod: Pod, record: ContainerRecord, view: PodView, records: Sequence[ContainerRecord]
) -> tuple[ContainerState, ContainerState]:
    previous = _terminated(record.previous, view) if record.previous is not None else ContainerState()
    current = record.current
    if current is not None and current.running:
        running = ContainerStateRunning(started_at=Time(current.started_at))
        return ContainerState(running=running), previous
    if current is not None:
        ended = _terminated(current, view)
        waits = not view.final and not view.stopping and will_restart(pod, record, current.exit_code or 0)
        if waits and record.waiting is not None:
            waiting = ContainerStateWaiting(reason=record.waiting.reason, message=record.waiting.message)
            return ContainerState(waiting=waiting), ended
        return ended, previous
    if view.final and record.previous is None and view.failure is None:
        lost = ContainerStateTerminated(exit_code=137, reason="ContainerStatusUnknown", message=_LOST)
        return ContainerState(terminated=lost), previous
    if record.waiting is not None:
        waiting = ContainerStateWaiting(reason=record.waiting.reason, message=record.waiting.message)
    elif pod.spec.init_containers and not initialized(records):
        waiting = ContainerStateWaiting(reason="PodInitializing")
    else:
        waiting = ContainerStateWaiting(reason="ContainerCreating")
    return ContainerState(waiting=waiting), previous


def _terminated(state: ContainerRun, view: PodView) -> ContainerState:
    ended = ContainerStateTerminated(
        exit_code=state.exit_code or 0,
        signal=state.signal,
        reason=state.reason,
        message=state.message,
        started_at=Time(state.started_at) if state.started_at else None,
        finished_at=Time(state.finished_at) if state.finished_at is not None else None,
        container_id=f"{view.runtime}://{state.id}",
    )
    return ContainerState(terminated=ended)


def _conditions(
    pod: Pod,
    records: Sequence[ContainerRecord],
    statuses: Sequence[ContainerStatus],
    phase: str,
    view: PodView,
) -> tuple[PodCondition, ...]:
    kept = tuple(condition for condition in pod.status.conditions if condition.type not in _OWNED)
    if find_condition(kept, "PodScheduled") is None:
        kept = (*kept, PodCondition(type="PodScheduled", status="True", last_transition_time=Time(view.now)))
    containers_ready = _containers_ready(records, statuses, phase)
    made = (
        PodCondition(type="PodReadyToStartContainers", status="True" if view.sandbox and not view.final else "False"),
        _initialized(records, phase),
        _ready(pod, containers_ready),
        containers_ready,
    )
    dated = (replace(condition, last_transition_time=Time(view.now)) for condition in made)
    before = pod.status.conditions
    resize = () if view.final else view.resize
    own = (keep_transition_time(one, find_condition(before, one.type)) for one in (*resize, *dated))
    return (*own, *kept)


def _initialized(records: Sequence[ContainerRecord], phase: str) -> PodCondition:
    if phase == "Succeeded":
        return PodCondition(type="Initialized", status="True", reason="PodCompleted")
    if initialized(records):
        return PodCondition(type="Initialized", status="True")
    missing = [
        record.name
        for record in of_kind(records, init=True)
        if not (record.running and record.started if record.sidecar else record.ended and record.ended.exit_code == 0)
    ]
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return PodCondition(type="Initialized", status="False", reason="ContainersNotInitialized", message=message)


def _containers_ready(
    records: Sequence[ContainerRecord], statuses: Sequence[ContainerStatus], phase: str
) -> PodCondition:
    if phase == "Succeeded":
        return PodCondition(type="ContainersReady", status="False", reason="PodCompleted")
    if phase == "Failed":
        return PodCondition(type="ContainersReady", status="False", reason="PodFailed")
    counted = {record.name for record in records if not record.init or record.sidecar}
    unready = [status.name for status in statuses if status.name in counted and not status.ready]
    if not unready:
        return PodCondition(type="ContainersReady", status="True")
    message = f"containers with unready status: [{' '.join(unready)}]"
    return PodCondition(type="ContainersReady", status="False", reason="ContainersNotReady", message=message)


def _ready(pod: Pod, containers: PodCondition) -> PodCondition:
    if containers.status != "True":
        return replace(containers, type="Ready")
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    closed = [gate for gate in gates if not is_true(pod.status.conditions, gate)]
    if not closed:
        return PodCondition(type="Ready", status="True")
    message = "; ".join(f'the status of pod readiness gate "{gate}" is not "True"' for gate in closed)
    return PodCondition(type="Ready", status="False", reason="ReadinessGatesNotReady", message=message)
