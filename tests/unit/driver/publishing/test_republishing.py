"""A driver is asked for its devices at the start, and again when it says so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from cathedra.driver.publishing.controller import ResourceSliceController
from cathedra.driver.publishing.layout import DesiredPool, DesiredSlice
from cathedra.driver.publishing.republishing import keep_published
from tests.unit.driver.world import DRIVER, World, in_virtual_time


def test_an_answer_that_fails_later_leaves_published_what_was() -> None:
    async def test(world: World) -> None:
        errors: list[str] = []
        answers: list[Mapping[str, DesiredPool] | Exception] = [
            {"p": DesiredPool("p", (DesiredSlice(),), all_nodes=True)},
            RuntimeError("the bus is busy"),
        ]

        async def desired() -> Mapping[str, DesiredPool]:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        def report(error: Exception, message: str) -> None:
            errors.append(f"{message}: {error}")

        slices = ResourceSliceController(world.client, DRIVER, clock=world.clock, on_error=report)
        wanted = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(slices.run()),
                group.create_task(keep_published(slices, desired, wanted, clock=world.clock, on_error=report)),
            ]
            await slices.wait_published()
            wanted.set()
            await asyncio.sleep(1)
            assert errors == ["asking the driver for its devices: the bus is busy"]
            assert [one.spec.pool.name for one in await world.slices()] == ["p"]
            for task in tasks:
                task.cancel()

    in_virtual_time(test)


def test_a_first_answer_that_fails_is_raised() -> None:
    async def test(world: World) -> None:
        async def desired() -> Mapping[str, DesiredPool]:
            raise RuntimeError("no such bus")

        slices = ResourceSliceController(world.client, DRIVER, clock=world.clock, on_error=lambda *_: None)
        with pytest.raises(RuntimeError, match="no such bus"):
            await keep_published(slices, desired, asyncio.Event(), clock=world.clock, on_error=lambda *_: None)

    in_virtual_time(test)
