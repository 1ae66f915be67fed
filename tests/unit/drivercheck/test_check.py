"""A right driver passes every check, and each fault is found by the check that is about it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cathedra.clock import SystemClock
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import LEVELS, PluginCheckResult, examine
from cathedra.drivercheck.checks import CHECKS
from cathedra.drivercheck.claims import Claims
from cathedra.drivercheck.plugin import PluginDirectory
from cathedra.drivercheck.program import DriverProgram, hosted_server
from cathedra.releases import FeatureGates
from tests.unit.drivercheck.faulty_driver import FaultyDriver

NEED_A_PROGRAM = {"restart", "unprepare-later", "killed", "reboot", "remembers", "overlap", "stops", "health-ends"}
NEED_ANOTHER = {"upgrade", "downgrade", "mixed-versions", "pools-apart", "nodes-at-once", "neighbours", "node-left"}
NEED_A_FEATURE = {check.name for check in CHECKS if check.level not in ("core", "health")}
FAULTS = {
    "wrong type": "describes-itself",
    "relative endpoint": "describes-itself",
    "unknown service": "known-services",
    "no service": "known-services",
    "unserved version": "serves-what-it-offers",
    "no empty calls": "serves-what-it-offers",
    "registers once": "registers-again",
    "device twice": "devices-once",
    "unowned slices": "slices-owned",
    "rewrites slices": "slices-settled",
    "wrong device": "prepares",
    "answers for one": "answers-for-all",
    "answers differ": "idempotent",
    "versions differ": "versions-agree",
    "knows its claims only": "unknown-claim",
    "takes all": "other-drivers",
    "subrequests": "subrequests",
    "no documents": "cdi-resolvable",
    "invalid documents": "cdi-valid",
    "documents once": "cdi-again",
    "leaves documents": "cdi-removed",
    "takes replaced claims": "replaced-claim",
    "never looks at claims": "unallocated-claim",
    "gives twice": "in-use",
    "chokes on parameters": "wrong-parameters",
    "one at a time": "parallel-calls",
    "unserved health": "health",
    "silent health": "health",
    "health of others": "health",
    "one health stream": "health-again",
    "too many watts": "counters-suffice",
    "siblings go together": "partitions-together",
    "no share IDs": "share-ids",
    "shares go together": "shares-apart",
    "metadata of others": "metadata-valid",
    "metadata once": "metadata-again",
    "metadata stays": "metadata-removed",
}
"""Fault of a driver → the check that finds it."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path: a socket's address has room for 107 characters."""
    with tempfile.TemporaryDirectory(prefix="check-") as directory:
        yield Path(directory)


@asynccontextmanager
async def bench_of(place: Path, fault: str, program: DriverProgram | None = None) -> AsyncIterator[Bench]:
    clock = SystemClock()
    async with hosted_server(place / "server", ["node-0"], FeatureGates.for_release(), clock) as client:
        driver = FaultyDriver(client, place, "node-0", fault)
        await driver.start()
        directory = PluginDirectory(driver.registry, clock)
        bench = Bench(
            client,
            clock=clock,
            directory=directory,
            cdi_directories=[driver.cdi],
            claims=Claims(client, "node-0", "checked"),
            program=program,
        )
        try:
            async with directory.watched():
                await bench.connect("")
                yield bench
        finally:
            await bench.close()
            await driver.stop()


async def results_of(place: Path, fault: str, only: str = "") -> dict[str, PluginCheckResult]:
    checks = [check for check in CHECKS if only in ("", check.name)]
    async with bench_of(place, fault) as bench:
        return {one.check.name: one async for one in examine(bench, checks, SystemClock())}


async def test_a_right_driver_passes_all_that_its_process_is_not_needed_for(place: Path) -> None:
    results = await results_of(place, "")
    assert {name: one.reason for name, one in results.items() if one.outcome == "failed"} == {}
    assert {name for name, one in results.items() if one.outcome == "skipped"} == (
        NEED_A_PROGRAM | NEED_ANOTHER | NEED_A_FEATURE
    )


@pytest.mark.parametrize(
    ("feature", "level"), [("counted", "partitionable"), ("shared", "shared capacity"), ("metadata", "metadata")]
)
async def test_a_right_driver_passes_the_level_of_its_feature(feature: str, level: str, place: Path) -> None:
    results = await results_of(place, feature)
    assert {name: one.reason for name, one in results.items() if one.outcome == "failed"} == {}
    assert {one.outcome for one in results.values() if one.check.level == level} == {"passed"}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_found_by_its_check(fault: str, place: Path) -> None:
    result = (await results_of(place, fault, FAULTS[fault]))[FAULTS[fault]]
    assert (result.outcome, result.reason != "") == ("failed", True)


def test_checks_have_names_rules_and_sources_of_their_own() -> None:
    for part in ("name", "rule"):
        assert len({getattr(check, part) for check in CHECKS}) == len(CHECKS)
    assert all(check.source.startswith("docs/spec/") for check in CHECKS)
    assert {check.level for check in CHECKS} == set(LEVELS)


async def test_a_driver_that_does_not_come_back_fails_what_comes_after(place: Path) -> None:
    once = f"test -e {place}/started && exit 3; touch {place}/started; exec sleep 600"
    program = DriverProgram(["sh", "-c", once], {}, place / "log")
    checks = [check for check in CHECKS if check.name in ("unprepare-later", "stops")]
    async with bench_of(place, "", program) as bench:
        bench.plugin.info.socket.unlink()
        results = [one async for one in examine(bench, checks, SystemClock())]
    assert [one.reason for one in results] == [
        "it does not come back: the driver has ended by itself",
        "the driver is not running",
    ]
