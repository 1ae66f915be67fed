"""The probes of a pod's containers, each in its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Container, ExecAction, Probe
from cathedra.clock import LoopClock, run_virtual
from cathedra.node.concurrency import BlockTasks
from cathedra.node.containers import probemonitor
from cathedra.node.containers.probemonitor import ProbeMonitor
from cathedra.node.containers.probes import ProbeTarget
from cathedra.node.containers.records import ContainerRecord, records_for
from cathedra.node.runtime.simulated import SimulatedRuntime
from tests.unit.node.fakes import make_pod

PROBE = Probe(exec=ExecAction(command=("true",)), period_seconds=10, timeout_seconds=1)


def record(**probes: Probe) -> ContainerRecord:
    return records_for(make_pod("p", Container(name="c", image="i", **probes)))["c"]


class Reports:
    """What was reported: name, kind, verdict, and when."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bool]] = []
        self.changed = asyncio.Event()

    def __call__(self, name: str, kind: Any, *, good: bool, output: str) -> None:
        self.seen.append((name, kind.value, good))
        self.changed.set()


def monitored(body: Callable[[ProbeMonitor, Reports, ProbeTarget], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        reports = Reports()
        target = ProbeTarget(SimulatedRuntime(clock), "id", Container(name="c", image="i"), "127.0.0.1")
        async with BlockTasks() as tasks:
            await body(ProbeMonitor(clock, tasks, reports), reports, target)

    run_virtual(main())


@pytest.fixture(autouse=True)
def probes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every probe is good after a second, and ``once`` ends with that; the probes that were begun."""
    begun: list[Any] = []

    async def run_probe(probe: Any, target: Any, clock: Any, report: Any, *, once: bool = False) -> None:
        begun.append(probe)
        while True:
            await clock.sleep(1)
            report(True, "")
            if once:
                return

    monkeypatch.setattr(probemonitor, "run_probe", run_probe)
    return begun


def test_the_other_probes_wait_for_the_startup_probe() -> None:
    async def body(monitor: ProbeMonitor, reports: Reports, target: ProbeTarget) -> None:
        monitor.begin(record(startup_probe=PROBE, readiness_probe=PROBE, liveness_probe=PROBE), target)
        await asyncio.sleep(1.5)
        assert reports.seen == [("c", "Startup", True)]
        await asyncio.sleep(1)
        assert sorted(kind for _, kind, _ in reports.seen[1:]) == ["Liveness", "Readiness"]

    monitored(body)


def test_a_container_without_probes_is_left_alone(probes: list[Any]) -> None:
    async def body(monitor: ProbeMonitor, reports: Reports, target: ProbeTarget) -> None:
        monitor.begin(record(), target)
        await asyncio.sleep(10)
        assert (probes, reports.seen) == ([], [])

    monitored(body)


def test_an_ended_container_is_not_probed_any_more() -> None:
    async def body(monitor: ProbeMonitor, reports: Reports, target: ProbeTarget) -> None:
        monitor.begin(record(readiness_probe=PROBE), target)
        await asyncio.sleep(2.5)
        monitor.cancel("c")
        monitor.cancel("unknown")
        await asyncio.sleep(10)
        assert len(reports.seen) == 2

    monitored(body)


def test_probes_of_an_earlier_run_end_when_a_new_one_begins(probes: list[Any]) -> None:
    async def body(monitor: ProbeMonitor, reports: Reports, target: ProbeTarget) -> None:
        for _ in range(3):
            monitor.begin(record(liveness_probe=PROBE), target)
            await asyncio.sleep(0.5)
        await asyncio.sleep(1)
        assert len(probes) == 3
        assert len(reports.seen) == 1, "only the last run is probed"

    monitored(body)
