"""The bench for drivers, and what it finds out about them (docs/spec/driver-sdk.md §21.8)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cathedra.driver import Claim, Driver, Prepared, PreparedClaim, Ref
from cathedra.driver.kit import CHECKS, check_driver
from cathedra.driver.kit.__main__ import main
from cathedra.drivers.gpu import GpuDriver
from tests.unit.driver.world import Lamps


class Empty(Driver):
    name = "empty.example.com"


class Moody(Lamps):
    """Returns another result each time."""

    replay = False

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        for lamp in claim.allocations:
            yield lamp.prepared([f"moody.example.com/lamp=x{random.random():.10f}"])


class Careless(Lamps):
    """Names CDI devices that are written down nowhere."""

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        for lamp in claim.allocations:
            yield lamp.prepared(["careless.example.com/lamp=nowhere"])


class Clinging(Lamps):
    """Never releases a completed claim."""

    def unprepare(self, ref: Ref, prepared: PreparedClaim) -> None:
        raise RuntimeError("mine")


async def failed(make_driver: Callable[[], Driver]) -> set[str]:
    return {verdict.check.name for verdict in await check_driver(make_driver) if verdict.outcome == "failed"}


@pytest.mark.parametrize("make_driver", [Lamps, GpuDriver])
async def test_our_own_drivers_keep_the_contract(make_driver: Callable[[], Driver]) -> None:
    verdicts = await check_driver(make_driver)
    assert [(v.check.name, v.outcome, v.reason) for v in verdicts] == [(c.name, "passed", "") for c in CHECKS]


async def test_what_a_driver_without_devices_cannot_show_is_skipped() -> None:
    verdicts = {verdict.check.name: verdict for verdict in await check_driver(Empty)}
    assert verdicts["publishes"].outcome == "passed"
    assert verdicts["idempotent"].outcome == "skipped"
    assert verdicts["idempotent"].reason == "the driver has published no device"


@pytest.mark.parametrize(
    ("make_driver", "complaints"),
    [
        (Moody, {"idempotent", "restart", "resolvable"}),
        (Careless, {"resolvable", "reboot", "lost-files"}),
        (Clinging, {"unprepare-later", "in-use"}),
    ],
)
async def test_drivers_that_break_the_contract_are_found_out(
    make_driver: Callable[[], Driver], complaints: set[str]
) -> None:
    assert complaints <= await failed(make_driver)


def test_the_program_prints_a_line_for_each_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[4] / "examples/drivers")
    assert main(["minimal:Lamps"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(CHECKS) + 1
    assert lines[-1] == f"{len(CHECKS)} of {len(CHECKS)} kept"
    assert main(["nothing"]) == 2
    assert main(["no_such_module:Driver"]) == 2


async def test_the_example_with_partitions_keeps_the_contract(slicer: Callable[[], Driver]) -> None:
    assert await failed(slicer) == set()
