"""Virtual time: what makes whole-cluster tests instant and repeatable."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from cathedra.clock import LoopClock, SystemClock, VirtualTimeDeadlock, run_virtual


def test_an_hour_of_sleep_takes_no_real_time_and_moves_the_clock_by_an_hour() -> None:
    system = SystemClock()

    async def main() -> float:
        clock = LoopClock(asyncio.get_running_loop())
        before = clock.now()
        await clock.sleep(3600)
        return clock.now() - before

    began = system.monotonic()
    assert run_virtual(main()) == pytest.approx(3600)
    assert system.monotonic() - began < 5


def test_timers_fire_in_order_of_their_time_not_of_their_start() -> None:
    async def main() -> list[str]:
        fired: list[str] = []

        async def after(seconds: float, name: str) -> None:
            await asyncio.sleep(seconds)
            fired.append(name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(after(30, "late"))
            tasks.create_task(after(10, "early"))
        return fired

    assert run_virtual(main()) == ["early", "late"]


def test_a_timeout_follows_virtual_time() -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await asyncio.sleep(61)

    with pytest.raises(TimeoutError):
        run_virtual(main())


def test_waiting_for_what_cannot_come_is_reported_instead_of_hanging() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(VirtualTimeDeadlock, match="no task is left to send"):
        run_virtual(main())


def test_a_process_knows_how_old_it_is() -> None:
    code = "import time; time.sleep(0.3); from cathedra.clock import process_age; print(process_age())"
    began = time.monotonic()
    age = float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert 0.29 < age < time.monotonic() - began + 0.02


def test_what_runs_in_a_thread_takes_no_virtual_time_and_raises_where_it_is_awaited() -> None:
    def fail() -> None:
        raise KeyError("k")

    async def main() -> float:
        assert await asyncio.to_thread(lambda: 3) == 3
        with pytest.raises(KeyError):
            await asyncio.to_thread(fail)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 0.0


def test_a_virtual_loop_needs_no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """WebAssembly has none."""

    def refused(*_: object, **__: object) -> None:
        raise OSError("no sockets here")

    monkeypatch.setattr("socket.socketpair", refused)
    monkeypatch.setattr("select.select", refused)
    assert run_virtual(asyncio.sleep(5, "slept")) == "slept"
