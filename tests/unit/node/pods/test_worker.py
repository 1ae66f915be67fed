"""Pods whose container shim is lost, in virtual time: restart policies apply, and terminating pods finish."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cathedra.api.core.core_v1 import Container, ContainerStateTerminated, ExecAction, Pod, Probe
from cathedra.client.resources import PODS
from cathedra.clock import run_virtual
from cathedra.node.runtime.runtime import LOST_MESSAGE
from cathedra.node.runtime.simulated import Act
from tests.unit.node.fakes import Setting, make_claim, make_pod


def play(body: Callable[[Setting], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Setting() as setting:
            await body(setting)

    run_virtual(main())


def lost(pod: Pod) -> ContainerStateTerminated | None:
    (status,) = pod.status.container_statuses
    return status.state.terminated or status.last_state.terminated


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
def test_lost_containers_are_started_again_where_the_policy_says_so(policy: str) -> None:
    async def body(s: Setting) -> None:
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

    play(body)


def test_a_pod_that_is_never_restarted_fails_and_its_claim_is_let_go() -> None:
    async def body(s: Setting) -> None:
        await s.create(make_claim("c1", "p"), make_pod(claims=["c1"]))
        await asyncio.sleep(1)
        s.runtime.lose_shim()
        await asyncio.sleep(1)
        ended = lost(s.pod())
        assert ended is not None
        assert (s.pod().status.phase, ended.reason) == ("Failed", "ContainerStatusUnknown")
        assert s.driver.calls == [("prepare", ("c1",)), ("unprepare", ("c1",))]

    play(body)


def test_a_terminating_pod_finishes_at_once_when_its_containers_are_lost() -> None:
    async def body(s: Setting) -> None:
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

    play(body)


def test_init_containers_that_are_lost_run_again_before_the_others_begin() -> None:
    async def body(s: Setting) -> None:
        first = Container(name="first", image="busybox", command=("true",))
        await s.create(make_pod(restart_policy="OnFailure", init_containers=(first,)))
        await asyncio.sleep(1)
        s.runtime.lose_shim()
        await asyncio.sleep(1)
        (status,) = s.pod().status.init_container_statuses
        assert (s.pod().status.phase, status.restart_count) == ("Pending", 1)
        assert status.state.running is not None
        assert [spec.name for spec in s.runtime.specs.values()] == ["first"]

    play(body)


def test_a_lost_container_is_not_probed_any_more_and_its_next_run_is() -> None:
    async def body(s: Setting) -> None:
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

    play(body)
