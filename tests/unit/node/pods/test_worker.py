"""Pods whose container shim is lost, in virtual time: restart policies apply, and terminating pods finish."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cathedra.api.core.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    ExecAction,
    Pod,
    Probe,
)
from cathedra.api.struct import Time, replace
from cathedra.client.resources import PODS
from cathedra.clock import SystemClock, run_virtual
from cathedra.node.config import NodeConfig
from cathedra.node.containers.records import records_for
from cathedra.node.pods.worker import RecoveredContainers, recover_containers
from cathedra.node.runtime.runtime import LOST_MESSAGE, LOST_REASON, ContainerRun, PodIdentity
from cathedra.node.runtime.simulated import Act
from tests.running import on_virtual_clock, run_with
from tests.unit.node.fakes import NODE, Setting, make_claim, make_pod


def play(body: Callable[[Setting], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Setting() as setting:
            await body(setting)

    run_virtual(main())


def lost(pod: Pod) -> ContainerStateTerminated | None:
    (status,) = pod.status.container_statuses
    return status.state.terminated or status.last_state.terminated


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
@run_with(play)
async def test_lost_containers_are_started_again_where_the_policy_says_so(s: Setting, *, policy: str) -> None:
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"], restart_policy=policy))
    await asyncio.sleep(1)
    s.runtime.lose_shim()
    await asyncio.sleep(1)
    (status,) = s.pod().status.container_statuses
    assert (s.pod().status.phase, status.restart_count) == ("Running", 1)
    assert status.state.running is not None
    ended = status.last_state.terminated
    assert ended is not None
    assert (ended.exit_code, ended.reason, ended.message) == (137, "ContainerStatusUnknown", LOST_MESSAGE)
    assert s.driver.calls == [("prepare", ("c1",))]
    s.runtime.lose_shim()
    await asyncio.sleep(5)
    waiting = s.pod().status.container_statuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "CrashLoopBackOff"
    await asyncio.sleep(6)
    assert s.pod().status.container_statuses[0].restart_count == 2


@on_virtual_clock
async def test_an_agent_that_starts_anew_writes_nothing_about_a_pod_that_goes_on() -> None:
    first = Setting()
    first.config = NodeConfig(name=NODE, root=None, stop_containers=False)
    first.agent = first.make_agent()
    async with first:
        await first.create(make_pod())
        await asyncio.sleep(1)
    before = first.pod()
    ready = [condition.status for condition in before.status.conditions if condition.type == "Ready"]
    assert ready == ["True"]
    second = Setting(first.server)
    second.runtime = first.runtime
    second.agent = second.make_agent()
    async with second:
        await asyncio.sleep(5)
        # Each condition would otherwise turn false for a moment, and services would lose the pod.
        assert second.pod() is before


@run_with(play)
async def test_a_pod_that_is_never_restarted_fails_and_its_claim_is_let_go(s: Setting) -> None:
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"]))
    await asyncio.sleep(1)
    s.runtime.lose_shim()
    await asyncio.sleep(1)
    ended = lost(s.pod())
    assert ended is not None
    assert (s.pod().status.phase, ended.reason) == ("Failed", "ContainerStatusUnknown")
    assert s.driver.calls == [("prepare", ("c1",)), ("unprepare", ("c1",))]


@run_with(play)
async def test_a_pod_that_is_marked_as_failed_by_a_controller_ends_and_its_claim_is_unprepared(s: Setting) -> None:
    """As the collector of garbage does with the pods of a node that has gone: another node of the name may have them.

    From then on the devices of the claim may be allocated to another pod.
    """
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"], restart_policy="Always"))
    await asyncio.sleep(1)
    failed = replace(s.pod(), status=replace(s.pod().status, phase="Failed", reason="NodeLost"))
    await s.client.resource(PODS, "default").update_status(failed)
    await asyncio.sleep(40)
    assert s.driver.calls == [("prepare", ("c1",)), ("unprepare", ("c1",))]
    assert not s.runtime.specs
    assert (s.pod().status.phase, s.pod().status.reason) == ("Failed", "NodeLost")


@run_with(play)
async def test_a_terminating_pod_finishes_at_once_when_its_containers_are_lost(s: Setting) -> None:
    s.runtime._behaviour = lambda spec: Act(stop_seconds=1000)
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"], termination_grace_period_seconds=600))
    await asyncio.sleep(1)
    await s.client.resource(PODS, "default").delete("p")
    await asyncio.sleep(10)
    assert s.has_pod()
    s.runtime.lose_shim()
    await asyncio.sleep(1)
    assert not s.has_pod()
    assert s.driver.calls[-1] == ("unprepare", ("c1",))


@run_with(play)
async def test_init_containers_that_are_lost_run_again_before_the_others_begin(s: Setting) -> None:
    first = Container(name="first", image="busybox", command=("true",))
    await s.create(make_pod(restart_policy="OnFailure", init_containers=(first,)))
    await asyncio.sleep(1)
    s.runtime.lose_shim()
    await asyncio.sleep(1)
    (status,) = s.pod().status.init_container_statuses
    assert (s.pod().status.phase, status.restart_count) == ("Pending", 1)
    assert status.state.running is not None
    assert [spec.name for spec in s.runtime.specs.values()] == ["first"]


@run_with(play)
async def test_a_lost_container_is_not_probed_any_more_and_its_next_run_is(s: Setting) -> None:
    probe = Probe(exec=ExecAction(command=("true",)), period_seconds=1)
    container = Container(name="c", image="busybox", command=("x",), readiness_probe=probe)
    await s.create(make_pod("p", container, restart_policy="Always"))
    await asyncio.sleep(3)
    assert s.pod().status.container_statuses[0].ready
    s.runtime.lose_shim()
    s.runtime.lose_shim()
    await asyncio.sleep(5)
    (status,) = s.pod().status.container_statuses
    assert (status.ready, status.restart_count) == (True, 1)
    assert s.events_of("Unhealthy") == []


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


def test_a_pod_that_is_never_restarted_does_not_run_again_when_everything_is_lost() -> None:
    """As after ``cathedra down`` and ``up``, or a restart of the machine."""
    recovered = recover(known("Never", ContainerStatus(name="a", state=RUNNING)))
    (record,) = recovered.records
    assert recovered.continues
    assert record.ended is not None
    assert (record.ended.exit_code, record.ended.reason) == (137, LOST_REASON)


def test_a_container_that_has_done_its_work_does_not_run_again_beside_one_that_is_lost() -> None:
    pod = known("OnFailure", ContainerStatus(name="a", state=terminated(0)), ContainerStatus(name="b", state=RUNNING))
    recovered = recover(pod)
    done, lost = recovered.records
    assert (recovered.continues, done.ended is not None, lost.current) == (False, True, None)


def test_a_new_pod_is_new() -> None:
    pod = make_pod()
    recovered = recover(pod)
    assert (recovered.continues, recovered.records) == (False, tuple(records_for(pod).values()))
