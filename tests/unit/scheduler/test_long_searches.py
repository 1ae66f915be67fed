"""Pods whose search takes longer than a turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from msgspec import structs

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceCapacity, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict
from cathedra.clock import LoopClock
from cathedra.offload import ComputeThread, Interruption
from cathedra.scheduler.configuration.reading import DEFAULT_CONFIGURATION
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.world import World, play

T = TypeVar("T")


class BusyClock(LoopClock):
    """A clock of a slow machine: every reading advances it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        super().__init__(loop)
        self._seconds = seconds
        self._spent = 0.0

    def monotonic(self) -> float:
        """The loop's time, and what the machine has needed."""
        self._spent += self._seconds
        return super().monotonic() + self._spent


class LateThread(ComputeThread):
    """A thread that is busy with something else for a second. In virtual time a search itself takes no time."""

    async def run(self, work: Callable[[Interruption], T], *, seconds: float, owner: str = "") -> T:
        """Do the work after a second."""
        await asyncio.sleep(1.0)
        return await super().run(work, seconds=seconds, owner=owner)


TWO_SECONDS = structs.replace(
    DEFAULT_CONFIGURATION, profiles=(structs.replace(DEFAULT_CONFIGURATION.profiles[0], filter_timeout=2.0),)
)


def slow(seconds: float = 0.004) -> Any:
    return lambda loop: BusyClock(loop, seconds)


CUBE = str(list(range(12)))
HARD = f"{CUBE}.all(a, {CUBE}.all(b, {CUBE}.all(c, a + b + c >= 0 || device.driver == 'x')))"
"""A selector that the API server accepts, and that takes some 10,000 steps."""
EASY_IF_LARGE = f'device.capacity["gpu.example.com"].mem.isGreaterThan(quantity("500")) || {HARD}'


def with_claim(name: str, **more: Any) -> Pod:
    return pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}], **more)


def hard(name: str, selector: str = EASY_IF_LARGE, count: int = 8) -> tuple[ResourceClaim, Pod]:
    """A pod whose claim needs the hard selector on every small device."""
    request = exactly(count=count)
    request["exactly"]["selectors"] = [{"cel": {"expression": selector}}]
    return claim(name, request), with_claim(name)


def memory(node_name: str, size: int = 100) -> ResourceSlice:
    """Eight devices, no two of them alike in ``size``."""
    made = slice_(node_name, 8)
    devices = tuple(
        structs.replace(one, capacity={"mem": DeviceCapacity(value=Quantity(str(size + number)))})
        for number, one in enumerate(made.spec.devices or ())
    )
    return structs.replace(made, spec=structs.replace(made.spec, devices=devices))


@run_with(lambda test: play(test, clock=slow(), compute=LateThread, configuration=TWO_SECONDS))
async def test_other_pods_are_scheduled_while_a_pod_is_searched_for(world: World) -> None:
    await world.create(node("n1"), device_class(), memory("n1"), *hard("hard"))
    await world.create(*(pod(f"easy-{n}") for n in range(3)))
    await world.bound("easy-0", "easy-1", "easy-2")
    assert await world.condition("hard") == ("", ""), "its first attempt has not come to an end"
    assert world.scheduler.statistics()["inflight"] == 1


def test_a_search_that_takes_too_long_is_an_error_of_the_attempt_which_backs_off() -> None:
    searches: list[float] = []

    class Noting(ComputeThread):
        async def run(self, work: Callable[[Interruption], T], *, seconds: float, owner: str = "") -> T:
            searches.append(asyncio.get_running_loop().time())
            return await super().run(work, seconds=seconds, owner=owner)

    async def body(world: World) -> None:
        await world.create(node("n1"), node("n2"), device_class(), memory("n1"), memory("n2"), *hard("hard"))
        await world.elapse(8)
        timed_out = 'running "DynamicResources" filter plugin: node n1: timed out trying to allocate devices'
        assert await world.condition("hard") == ("SchedulerError", timed_out)
        # The search itself takes no time of the loop. Back-offs of 1 s, 2 s and 4 s lie between the attempts.
        attempts = [searches[0], *(after for before, after in pairwise(searches) if after > before + 0.5)]
        assert [after - before for before, after in pairwise(attempts)] == pytest.approx([1.0, 2.0, 4.0], abs=0.5)

    play(body, clock=slow(0.02), compute=Noting)


@run_with(lambda test: play(test, release="1.36", clock=slow(5e-05), configuration=TWO_SECONDS))
async def test_until_136_a_node_whose_search_takes_too_long_is_refused_and_another_one_chosen(world: World) -> None:
    await world.create(node("n1"), node("n2"), device_class(), memory("n1"), memory("n2", 1000), *hard("hard"))
    await world.bound("hard")
    assert await world.node_of("hard") == "n2"


@run_with(lambda test: play(test, release="1.36", clock=slow(0.02)))
async def test_until_136_the_time_of_an_attempt_is_that_of_all_nodes(world: World) -> None:
    nodes = [f"n{number}" for number in range(5)]
    await world.create(*map(node, nodes), device_class())
    await world.create(*(memory(name, 100 + 10 * number) for number, name in enumerate(nodes)), *hard("hard"))

    async def told() -> bool:
        return (await world.condition("hard"))[0] != ""

    await world.until(told)
    _, message = await world.condition("hard")
    assert message.startswith("0/5 nodes are available: 5 timed out trying to allocate devices.")
    assert world.scheduler.statistics()["computed"] < len(nodes)


def test_a_long_search_finds_what_a_short_one_finds() -> None:
    found = []

    async def body(world: World) -> None:
        await world.create(node("n1"), device_class(), memory("n1"), *hard("p", count=2))
        await world.bound("p")
        found.append((await world.devices("p"), world.scheduler.statistics()["computed"]))

    play(body)
    play(body, clock=slow(0.00003))
    (short, none), (long, searches) = found
    assert short == long
    assert none == 0
    assert searches >= 1


@run_with(lambda test: play(test, clock=slow(), compute=LateThread, configuration=TWO_SECONDS))
async def test_a_pod_that_is_deleted_while_it_is_searched_for_is_forgotten(world: World) -> None:
    await world.create(node("n1"), device_class(), memory("n1"), *hard("hard"), pod("easy"))
    await world.bound("easy")
    await world.api(Pod).delete("hard")
    assert (await world.quiet())["inflight"] == 0
    assert not [reason for reason, _ in await world.events("hard") if reason == "FailedScheduling"]


def test_the_pods_of_a_group_are_searched_for_beside_others() -> None:
    async def body(world: World) -> None:
        group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": {"basic": {}}}}
        await world.create(from_dict(PodGroup, group), node("n1"), device_class(), memory("n1"))
        hard_pod = with_claim("hard", schedulingGroup={"podGroupName": "g"})
        await world.create(hard("hard")[0], hard_pod, pod("easy"))
        await world.bound("easy")
        assert await world.condition("hard") == ("", "")

        async def told() -> bool:
            return (await world.condition("hard"))[0] != ""

        await world.until(told)
        assert "timed out" in (await world.condition("hard"))[1]

    gates = {"GenericWorkload": True}
    play(body, gates=gates, clock=slow(), compute=LateThread, configuration=TWO_SECONDS)
