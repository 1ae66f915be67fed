"""Orders to a driver that runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from cathedra.driver import Health, OptionError
from cathedra.drivers.example.controls import (
    CONTROL_SOCKET,
    PREPARE,
    UNPREPARE,
    Controls,
    OrderError,
    Orders,
    order,
    read_orders,
    serving_controls,
)
from cathedra.drivers.example.gpu import GpuOptions, GpuProfile
from tests.running import run_with
from tests.unit.driver.world import World, in_virtual_time, running
from tests.unit.drivers.example.bench import Bench


@pytest.fixture
def controls() -> Controls:
    return Controls(lambda: ["gpu-0", "gpu-1"], lambda: None)


@run_with(in_virtual_time)
async def test_a_taint_reaches_the_slice_and_leaves_it(world: World) -> None:
    bench = Bench(world, GpuProfile(GpuOptions(count=2)))
    async with running(bench.runner):
        assert bench.driver.controls.carry_out(["taint", "gpu-1", "broken=yes:NoExecute"]) == [
            "gpu-1: taint broken=yes:NoExecute"
        ]
        await asyncio.sleep(1)
        (found,) = await world.slices()
        assert [[t.key for t in device.taints] for device in found.spec.devices] == [[], ["broken"]]
        assert bench.driver.controls.carry_out(["untaint", "gpu-1", "broken"]) == []
        await asyncio.sleep(1)
        (found,) = await world.slices()
        assert [device.taints for device in found.spec.devices] == [(), ()]


def test_all_devices_are_healthy_until_one_falls_ill(controls: Controls) -> None:
    assert {report.state for report in controls.health()} == {Health.HEALTHY}
    lines = controls.carry_out(["health", "gpu-1", "Unhealthy", "too hot"])
    assert lines == ["gpu-1: Unhealthy (too hot)"]
    assert [(report.state, report.message) for report in controls.health()] == [
        (Health.HEALTHY, ""),
        (Health.UNHEALTHY, "too hot"),
    ]


@run_with(in_virtual_time)
async def test_calls_fail_until_they_are_released(world: World) -> None:
    bench = Bench(world, GpuProfile(GpuOptions(count=2)))
    controls = bench.driver.controls
    assert controls.carry_out(["fail", PREPARE, "no power"]) == [f"{PREPARE}: fails: no power"]
    assert await bench.prepare(bench.share("gpu-0")) == "no power"
    controls.carry_out(["release", PREPARE])
    ref = await world.allocate("d", bench.share("gpu-1"))
    assert (await bench.runner.service.node_prepare_resources([ref]))[ref.uid].error == ""
    controls.carry_out(["fail", UNPREPARE])
    assert await bench.runner.service.node_unprepare_resources([ref]) == {ref.uid: f"{UNPREPARE} was ordered to fail"}


@run_with(in_virtual_time)
async def test_a_blocked_call_waits_until_it_is_released_or_its_deadline_comes(world: World) -> None:
    bench = Bench(world, GpuProfile(GpuOptions(count=2)))
    bench.driver.controls.carry_out(["block", PREPARE])
    assert "did not finish before the call's deadline" in await bench.prepare(bench.share("gpu-0"), name="late")
    calling = asyncio.create_task(bench.prepare(bench.share("gpu-1")))
    await asyncio.sleep(5)
    assert not calling.done()
    bench.driver.controls.carry_out(["release", PREPARE])
    assert await calling == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["dance"], "'dance' is no order; there are taint, untaint"),
        (["taint", "gpu-9", "a=b:NoSchedule"], "there is no device 'gpu-9'; there are gpu-0, gpu-1"),
        (["taint", "gpu-0", "a=b:Never"], "with one of the effects None, NoSchedule, NoExecute"),
        (["taint", "gpu-0"], "taint takes: DEVICE KEY"),
        (["untaint", "gpu-0", "a"], "gpu-0 has no taint 'a'"),
        (["health", "gpu-0", "Fine"], "'Fine' is no state of health"),
        (["fail", "NodeDance"], "'NodeDance' is no call"),
        (["binding", "never"], "'never' is not one of ready, hold, fail"),
        (["show", "more"], "show takes: nothing"),
    ],
)
def test_what_cannot_be_done_says_what_can(controls: Controls, words: list[str], text: str) -> None:
    with pytest.raises(OrderError) as refused:
        controls.carry_out(words)
    assert text in str(refused.value)


async def test_orders_come_over_a_socket_that_others_cannot_open(controls: Controls, tmp_path: Path) -> None:
    async with serving_controls(controls, tmp_path):
        assert (tmp_path / CONTROL_SOCKET).stat().st_mode & 0o777 == 0o600
        assert await order(tmp_path, ["binding", "hold"]) == ["binding conditions: hold"]
        assert await order(tmp_path, ["show"]) == ["binding conditions: hold"]
        with pytest.raises(OrderError, match="is no order"):
            await order(tmp_path, ["dance"])
    with pytest.raises(OrderError, match="no driver takes orders at"):
        await order(tmp_path, ["show"])


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"[1]\n", b"[" * 60000 + b"\n", b'"show"\n'])
async def test_what_is_no_array_of_words_is_answered_with_an_error(
    controls: Controls, tmp_path: Path, line: bytes
) -> None:
    async with serving_controls(controls, tmp_path):
        reader, writer = await asyncio.open_unix_connection(tmp_path / CONTROL_SOCKET)
        writer.write(line)
        assert "error" in json.loads(await reader.readline())
        writer.close()


@run_with(in_virtual_time)
async def test_calls_that_reached_the_driver_are_listed(world: World) -> None:
    bench = Bench(world, GpuProfile(GpuOptions(count=1)))
    assert await bench.prepare(bench.share("gpu-0")) == ""
    assert bench.driver.controls.carry_out(["calls"]) == [f"{PREPARE} default/c"]


@run_with(in_virtual_time)
async def test_orders_hold_when_the_driver_is_started_again(world: World, *, tmp_path: Path) -> None:
    bench = Bench(world, GpuProfile(GpuOptions(count=2)))
    bench.driver.install("node-a", lambda: None, tmp_path)
    bench.driver.resume(())
    controls = bench.driver.controls
    controls.carry_out(["taint", "gpu-1", "broken=yes:NoExecute"])
    controls.carry_out(["health", "gpu-0", "Unhealthy", "too hot"])
    controls.carry_out(["fail", PREPARE, "no power"])
    controls.carry_out(["block", UNPREPARE])
    said = controls.carry_out(["binding", "hold"])

    again = Bench(world, GpuProfile(GpuOptions(count=2)))
    again.driver.install("node-a", lambda: None, tmp_path)
    again.driver.resume(())
    assert again.driver.controls.carry_out(["show"]) == said
    assert len(said) == 5
    tainted = {device.name: [taint.key for taint in device.taints] for device in again.driver.resources().devices}
    assert tainted == {"gpu-0": [], "gpu-1": ["broken"]}
    assert await again.prepare(again.share("gpu-0")) == "no power"
    assert again.driver.controls.carry_out(["reset"]) == []
    assert read_orders(tmp_path) == Orders()


def test_a_file_of_orders_by_another_hand_is_not_guessed_at(controls: Controls, tmp_path: Path) -> None:
    (tmp_path / "orders.json").write_text('{"taints": 7}')
    with pytest.raises(OptionError, match=r"orders\.json: .*without this file the driver starts with no orders"):
        controls.keep_in(tmp_path)
