"""Nodes that fail on purpose."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from cathedra.clock import LoopClock
from cathedra.cluster.config import (
    DYING_DEVICES,
    FLAPPING,
    SLOW_PREPARE,
    ClusterConfig,
    InvalidOption,
    NodeFault,
)
from cathedra.cluster.parts.nodes import DEAD_SECONDS, PREPARE_SECONDS, NodeFailures, SlowPlugin, fails
from cathedra.driver import Health
from cathedra.drivers.example.controls import Controls
from cathedra.node.plugins.client import ClaimReference, PrepareOutcome
from tests.running import on_virtual_clock


@pytest.mark.parametrize(("share", "nodes"), [(1.0, [0, 1, 2, 3]), (0.5, [0, 2]), (0.25, [0]), (0.01, [0])])
def test_a_share_of_the_nodes_fails_and_the_first_always(share: float, nodes: list[int]) -> None:
    faults = (NodeFault(FLAPPING, share),)
    assert [number for number in range(4) if fails(faults, number)] == nodes


def test_a_node_may_fail_in_several_ways() -> None:
    faults = (NodeFault(FLAPPING, 0.5), NodeFault(SLOW_PREPARE))
    assert fails(faults, 0) == {FLAPPING, SLOW_PREPARE}
    assert fails(faults, 1) == {SLOW_PREPARE}


@pytest.mark.parametrize(("profile", "share"), [("sleepy", 1.0), (FLAPPING, 0.0), (FLAPPING, 1.5)])
def test_other_ways_to_fail_are_refused(profile: str, share: float) -> None:
    with pytest.raises(InvalidOption, match="--fail"):
        NodeFault(profile, share)


def test_only_simulated_nodes_fail_on_purpose(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="needs --runtime simulated"):
        ClusterConfig(data_dir=tmp_path, faults=(NodeFault(FLAPPING),))
    assert ClusterConfig(data_dir=tmp_path, runtime="simulated", faults=(NodeFault(FLAPPING),)).faults


async def failing(*profiles: str, heard: asyncio.Event, controls: Controls, seconds: float) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    failures = NodeFailures(frozenset(profiles), heard, clock=clock, random=Random(1))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(failures.run([controls]))
        await clock.sleep(seconds)
        task.cancel()


@on_virtual_clock
async def test_a_flapping_node_falls_silent_and_is_heard_again() -> None:
    heard, seen = asyncio.Event(), []
    heard.set()
    controls = Controls(list, lambda: None)

    async def watch() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        while True:
            seen.append(heard.is_set())
            await clock.sleep(10)

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch())
        await failing(FLAPPING, heard=heard, controls=controls, seconds=3600)
        watching.cancel()
    assert seen[0]
    changes = sum(one != next_one for one, next_one in itertools.pairwise(seen))
    assert changes >= 10


@on_virtual_clock
async def test_devices_die_one_by_one_and_are_replaced() -> None:
    heard = asyncio.Event()
    heard.set()
    published: list[int] = []
    controls = Controls(lambda: ["gpu-0", "gpu-1"], lambda: published.append(1))
    await failing(DYING_DEVICES, heard=heard, controls=controls, seconds=310)
    ill = [report for report in controls.health() if report.state is Health.UNHEALTHY]
    assert ill
    assert all(controls.taints(report.device)[0].effect == "NoExecute" for report in ill)
    assert published
    assert heard.is_set()


@on_virtual_clock
async def test_a_dead_device_comes_back() -> None:
    controls = Controls(lambda: ["gpu-0"], lambda: None)
    returned = 0
    clock = LoopClock(asyncio.get_running_loop())
    async with asyncio.TaskGroup() as group:
        failures = NodeFailures(frozenset({DYING_DEVICES}), asyncio.Event(), clock=clock, random=Random(1))
        task = group.create_task(failures.run([controls]))
        was_dead = False
        for _ in range(100):
            await clock.sleep(DEAD_SECONDS / 20)
            is_dead = bool(controls.taints("gpu-0"))
            returned += was_dead and not is_dead
            was_dead = is_dead
        task.cancel()
    assert returned >= 2


class Plugin:
    """Answers at once."""

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        return {claim.uid: PrepareOutcome() for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        return {claim.uid: "" for claim in claims}


@on_virtual_clock
async def test_a_slow_driver_prepares_late_and_lets_go_at_once() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    slow = SlowPlugin(Plugin(), clock=clock, random=Random(1))
    claim = ClaimReference("ns", "uid", "name")
    began = clock.monotonic()
    assert set(await slow.prepare([claim])) == {"uid"}
    took = clock.monotonic() - began
    assert PREPARE_SECONDS[0] <= took <= PREPARE_SECONDS[1]
    assert await slow.unprepare([claim]) == {"uid": ""}
    assert clock.monotonic() - began == took
