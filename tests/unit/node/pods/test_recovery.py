"""What the runtime and the API say of a pod's containers, put together by an agent that came back."""

from __future__ import annotations

from cathedra.api.core.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
)
from cathedra.api.struct import Time, replace
from cathedra.clock import SystemClock
from cathedra.node.containers.records import records_for
from cathedra.node.pods.recovery import RecoveredContainers, recover_containers
from cathedra.node.runtime.runtime import LOST_REASON, ContainerRun, PodIdentity
from tests.unit.node.fakes import make_pod

RUNNING = ContainerState(running=ContainerStateRunning(started_at=Time(100.0)))


def terminated(code: int) -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(exit_code=code, reason="Error"))


def known(policy: str, *statuses: ContainerStatus) -> Pod:
    """A pod of containers that the API knows like this."""
    containers = tuple(Container(name=status.name, image="busybox") for status in statuses)
    pod = make_pod("p", *containers, restart_policy=policy)
    return replace(pod, status=replace(pod.status, phase="Running", container_statuses=statuses))


def found(name: str, attempt: int, code: int | None = None) -> ContainerRun:
    """A run that the runtime knows."""
    ended = None if code is None else 105.0
    identity = PodIdentity("default", "p", "uid-p")
    return ContainerRun(f"{name}-{attempt}", identity, name, attempt, 100.0, finished_at=ended, exit_code=code)


def recover(pod: Pod, *runs: ContainerRun) -> RecoveredContainers:
    return recover_containers(pod, tuple(records_for(pod).values()), runs, SystemClock())


def test_a_pod_of_which_something_runs_goes_on() -> None:
    pod = known("Always", ContainerStatus(name="a", state=RUNNING, restart_count=2))
    recovered = recover(pod, found("a", 1, 3), found("a", 2))
    (record,) = recovered.records
    assert (recovered.continues, record.attempt, record.current) == (True, 2, found("a", 2))


def test_a_run_that_the_api_never_heard_of_is_the_latest() -> None:
    pod = known("Always", ContainerStatus(name="a", state=terminated(3), restart_count=0))
    (record,) = recover(pod, found("a", 1)).records
    assert (record.attempt, record.current) == (1, found("a", 1))
    assert record.previous is not None
    assert (record.previous.attempt, record.previous.exit_code) == (0, 3)


def test_a_pod_that_has_run_its_course_meanwhile_is_ended_not_begun_again() -> None:
    pod = known("Never", ContainerStatus(name="a", state=RUNNING))
    recovered = recover(pod, found("a", 0, 5))
    assert (recovered.continues, recovered.records[0].ended) == (True, found("a", 0, 5))


def test_a_container_that_the_runtime_lost_is_known_to_have_run() -> None:
    pod = known("Never", ContainerStatus(name="a", state=RUNNING), ContainerStatus(name="b", state=RUNNING))
    lost, running = recover(pod, found("b", 0)).records
    assert running.running
    assert lost.ended is not None
    assert (lost.ended.exit_code, lost.ended.reason, lost.ended.started_at) == (137, LOST_REASON, 100.0)


def test_a_pod_of_which_nothing_is_left_begins_anew_and_keeps_its_counts() -> None:
    pod = known("Always", ContainerStatus(name="a", state=RUNNING, restart_count=4))
    recovered = recover(pod)
    (record,) = recovered.records
    assert (recovered.continues, record.current, record.next_attempt) == (False, None, 5)
    assert record.previous is not None
    assert record.previous.reason == LOST_REASON


def test_a_new_pod_is_new() -> None:
    pod = make_pod()
    recovered = recover(pod)
    assert (recovered.continues, recovered.records) == (False, tuple(records_for(pod).values()))
