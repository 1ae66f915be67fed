"""Reports about devices reach every listener in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from cathedra.driver import DeviceHealth, Health
from cathedra.driver.health import HealthBoard
from tests.running import on_virtual_clock, run_with
from tests.unit.driver.world import Lamps, World, in_virtual_time, running


@on_virtual_clock
async def test_last_state_is_repeated_before_it_expires() -> None:
    board = HealthBoard()
    board.post([DeviceHealth("a", Health.HEALTHY, timeout=30)])
    stream = board.watch()
    loop = asyncio.get_running_loop()
    times = []
    for _ in range(3):
        await anext(stream)
        times.append(loop.time())
    assert times == [0.0, 10.0, 20.0]


@on_virtual_clock
async def test_reports_about_some_devices_leave_the_others_as_they_were() -> None:
    board = HealthBoard()
    board.post([DeviceHealth("a", Health.HEALTHY), DeviceHealth("b", Health.HEALTHY)])
    board.post([DeviceHealth("b", Health.UNHEALTHY)])
    assert [(r.device, r.state) for r in await anext(board.watch())] == [
        ("a", Health.HEALTHY),
        ("b", Health.UNHEALTHY),
    ]


@run_with(in_virtual_time)
async def test_source_that_fails_is_silent_until_it_reports_again(world: World) -> None:
    class Flaky(Lamps):
        starts = 0

        async def health(self) -> AsyncIterator[list[DeviceHealth]]:
            self.starts += 1
            yield [DeviceHealth("lamp-0", Health.HEALTHY, message=f"start {self.starts}")]
            if self.starts == 1:
                await asyncio.sleep(60)
                raise OSError("bus is gone")
            await asyncio.sleep(1000)

    driver = Flaky()
    async with running(world.runner(driver)) as runner:
        assert runner.health is not None
        seen = []
        stream = runner.health.watch()
        while not seen or seen[-1][1] != "start 2":
            (report,) = await anext(stream)
            seen.append((world.clock.monotonic(), report.message))
        assert driver.errors == ["watching the health of devices: bus is gone"]
        assert max(time for time, message in seen if message == "start 1") < 60


@run_with(in_virtual_time)
async def test_driver_that_does_not_override_health_has_no_board(world: World) -> None:
    assert world.runner(Lamps()).health is None
    with pytest.raises(NotImplementedError):
        Lamps().health()
