"""The table of pods and its summarising cells (docs/spec/apimachinery.md §10)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.struct import Time
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column
from cathedra.semantics.conditions import find_condition, is_true
from cathedra.semantics.pods import is_ready, is_sidecar, is_terminal

POD_COLUMNS: Final = (
    NAME,
    Column("Ready", description="Containers that are ready, of all."),
    Column("Status", description="The pod's phase, or what keeps it from running."),
    Column("Restarts", description="How often containers were started again, and when last."),
    AGE,
    Column("IP", priority=1, description="The pod's address."),
    Column("Node", priority=1, description="The node the pod is bound to."),
    Column("Nominated Node", priority=1, description="The node where victims are making room."),
    Column("Readiness Gates", priority=1, description="Readiness gates that are open, of all."),
)


def pod_cells(pod: core_v1.Pod, now: float) -> list[Any]:
    """Cells of a Pod."""
    ready, total = _readiness(pod)
    gates = pod.spec.readiness_gates
    true = {condition.type for condition in pod.status.conditions if condition.status == "True"}
    opened = sum(1 for gate in gates if gate.condition_type in true)
    return [
        pod.metadata.name,
        f"{ready}/{total}",
        pod_status(pod),
        _restarts(pod, now),
        age(pod.metadata.creation_timestamp, now),
        pod.status.pod_ips[0].ip if pod.status.pod_ips else pod.status.pod_ip or "<none>",
        pod.spec.node_name or "<none>",
        pod.status.nominated_node_name or "<none>",
        f"{opened}/{len(gates)}" if gates else "<none>",
    ]


def _restartable(pod: core_v1.Pod) -> dict[str, bool]:
    return {container.name: is_sidecar(container) for container in pod.spec.init_containers}


def _readiness(pod: core_v1.Pod) -> tuple[int, int]:
    restartable = _restartable(pod)
    total = len(pod.spec.containers) + sum(restartable.values())
    running = [s for s in pod.status.container_statuses if s.ready and s.state and s.state.running]
    sidecars = [s for s in pod.status.init_container_statuses if restartable.get(s.name) and s.started and s.ready]
    return len(running) + len(sidecars), total


def _restarts(pod: core_v1.Pod, now: float) -> str:
    restartable = _restartable(pod)
    sidecars = [status for status in pod.status.init_container_statuses if restartable.get(status.name)]
    initializing = _waiting_for_init(pod) is not None
    inits = [s for s in pod.status.init_container_statuses if not restartable.get(s.name)]
    counted = inits if initializing else [*pod.status.container_statuses]
    counted = [*counted, *sidecars]
    total = sum(status.restart_count for status in counted)
    ends = [_finished(status) for status in counted]
    latest = max((end for end in ends if end is not None), default=None, key=lambda end: end.micros)
    if total and latest is not None:
        return f"{total} ({age(latest, now)} ago)"
    return str(total)


def _finished(status: core_v1.ContainerStatus) -> Time | None:
    last = status.last_state.terminated if status.last_state else None
    return last.finished_at if last else None


def pod_status(pod: core_v1.Pod) -> str:
    """The pod in a word: its phase, or the reason that matters most."""
    reason = pod.status.reason or pod.status.phase
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.reason == "SchedulingGated":
        reason = "SchedulingGated"
    waiting = _waiting_for_init(pod)
    reason = waiting if waiting is not None and not _initialized_with_sidecars(pod) else _of_containers(pod, reason)
    if pod.metadata.deletion_timestamp is None:
        return reason
    if pod.status.reason == "NodeLost":
        return "Unknown"
    return reason if is_terminal(pod) else "Terminating"


def _initialized_with_sidecars(pod: core_v1.Pod) -> bool:
    return is_true(pod.status.conditions, "Initialized")


def _waiting_for_init(pod: core_v1.Pod) -> str | None:
    """Return the status of the first unfinished init container. Return None if all are finished."""
    restartable = _restartable(pod)
    for position, status in enumerate(pod.status.init_container_statuses):
        state = status.state or core_v1.ContainerState()
        if state.terminated is not None and state.terminated.exit_code == 0:
            continue
        if restartable.get(status.name) and status.started:
            continue
        if state.terminated is not None:
            return f"Init:{_end(state.terminated)}"
        if state.waiting is not None and state.waiting.reason not in ("", "PodInitializing"):
            return f"Init:{state.waiting.reason}"
        return f"Init:{position}/{len(pod.spec.init_containers)}"
    return None


def _end(terminated: core_v1.ContainerStateTerminated) -> str:
    if terminated.reason:
        return terminated.reason
    return f"Signal:{terminated.signal}" if terminated.signal else f"ExitCode:{terminated.exit_code}"


def _of_containers(pod: core_v1.Pod, reason: str) -> str:
    running = False
    failed = ""
    for status in reversed(pod.status.container_statuses):
        state = status.state or core_v1.ContainerState()
        if state.waiting is not None and state.waiting.reason:
            reason = state.waiting.reason
        elif state.terminated is not None:
            reason = _end(state.terminated)
            if state.terminated.exit_code != 0:
                failed = reason
        elif status.ready and state.running is not None:
            running = True
    if reason != "Completed":
        return reason
    if running:
        return "Running" if is_ready(pod) else "NotReady"
    return failed or reason
