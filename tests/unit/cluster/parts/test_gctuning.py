"""Garbage is collected when a process has grown, and not only when it has many objects."""

from __future__ import annotations

import asyncio
import gc
import weakref
from itertools import accumulate

from cathedra.clock import LoopClock, run_virtual
from cathedra.cluster.parts.gctuning import (
    EVERYTHING,
    EXEMPT_GROWTH,
    FULL_GROWTH,
    LATER_SECONDS,
    MOVED_GROWTH,
    SETTLED_GROWTH,
    YOUNG_GROWTH,
    MemoryWatch,
    collect,
    collected_by_memory,
    uncollected,
)
from cathedra.memory import resident_bytes


class Process:
    """A process of some size, and which generations of it are collected."""

    def __init__(self) -> None:
        self.size = 1000 * 1024 * 1024
        self.collected: list[int] = []

    def resident(self) -> int:
        return self.size

    def watch(self) -> MemoryWatch:
        return MemoryWatch(self.resident, self.collected.append)


def test_a_process_that_does_not_grow_is_left_alone() -> None:
    process = Process()
    watch = process.watch()
    assert [watch.look() for _ in range(10)] == [False] * 10
    process.size += YOUNG_GROWTH
    assert not watch.look()
    assert process.collected == []


def test_growth_is_looked_into_once_and_the_oldest_objects_when_there_is_much_of_it() -> None:
    process = Process()
    watch = process.watch()
    process.size += YOUNG_GROWTH + 1
    assert [watch.look() for _ in range(3)] == [True, False, False]
    assert process.collected == [1]
    process.size += max(FULL_GROWTH, process.size // 2)
    assert [watch.look() for _ in range(3)] == [True, False, False]
    assert process.collected == [1, 2]


def test_exempt_objects_are_examined_only_after_the_process_has_tripled() -> None:
    """Examining two million objects stops a server for more than a second, and a growing cluster leaves no garbage."""
    process = Process()
    watch = process.watch()
    for _ in range(4):
        process.size += process.size // 2 + 1
        assert watch.look()
    assert process.collected == [2, 2, EVERYTHING, 2]


def test_exempt_objects_of_a_small_process_wait_for_a_certain_growth() -> None:
    process = Process()
    watch = process.watch()
    process.size = 100 * 1024 * 1024
    assert not watch.look()
    process.size += EXEMPT_GROWTH
    assert watch.look()
    process.size += 1
    assert watch.look()
    assert process.collected == [2, EVERYTHING]


def test_growth_counts_from_the_least_that_was_held() -> None:
    process = Process()
    watch = process.watch()
    process.size -= 2 * YOUNG_GROWTH
    assert not watch.look()
    process.size += YOUNG_GROWTH + 1
    assert watch.look()


def moments_of_giving_back(shrinks_after: float) -> list[float]:
    """Return the times at which a process that grows after 10.5 s releases freed memory, in seconds after it was first
    seen."""
    given_back: list[float] = []

    async def body() -> None:
        loop = asyncio.get_running_loop()
        process = Process()
        watching = process.watch().run(LoopClock(loop), lambda: given_back.append(loop.time() - 11), lambda: None)
        running = asyncio.create_task(watching)
        await asyncio.sleep(10.5)
        assert given_back == []
        process.size += YOUNG_GROWTH + 1
        await asyncio.sleep(shrinks_after)
        process.size -= YOUNG_GROWTH
        await asyncio.sleep(1000)
        running.cancel()

    run_virtual(body())
    return given_back


def test_freed_memory_is_given_back_when_it_grew_and_again_until_the_growth_is_over() -> None:
    assert moments_of_giving_back(2.0) == [0.0]
    assert moments_of_giving_back(16.0) == [0.0, 5.0, 15.0]
    assert moments_of_giving_back(500.0) == [0.0, *accumulate(LATER_SECONDS)]


def test_memory_is_moved_to_huge_pages_at_the_second_look_and_after_each_growth() -> None:
    moved: list[float] = []

    async def body() -> None:
        loop = asyncio.get_running_loop()
        began, process = loop.time(), Process()
        watching = process.watch().run(LoopClock(loop), lambda: None, lambda: moved.append(loop.time() - began))
        running = asyncio.create_task(watching)
        await asyncio.sleep(10.5)
        for growth in (MOVED_GROWTH, 1, -2 * MOVED_GROWTH, MOVED_GROWTH, 1):
            process.size += growth
            await asyncio.sleep(10)
        running.cancel()

    run_virtual(body())
    assert moved == [2, 21, 51]


def test_memory_is_not_moved_while_a_process_grows() -> None:
    moved: list[float] = []

    async def body() -> None:
        loop = asyncio.get_running_loop()
        process = Process()
        watching = process.watch().run(LoopClock(loop), lambda: None, lambda: moved.append(loop.time() - began))
        began = loop.time()
        running = asyncio.create_task(watching)
        for _ in range(20):
            process.size += SETTLED_GROWTH
            await asyncio.sleep(1)
        await asyncio.sleep(10)
        running.cancel()

    run_virtual(body())
    assert len(moved) == 1
    assert 20 <= moved[0] <= 22


def test_the_size_of_this_process_is_known() -> None:
    before = resident_bytes()
    held = bytearray(b"x" * (64 * 1024 * 1024))
    assert resident_bytes() - before > 32 * 1024 * 1024
    del held


def test_a_cycle_of_few_objects_is_found() -> None:
    class Knot:
        def __init__(self) -> None:
            self.self = self
            self.held = bytearray(8 * 1024 * 1024)

    process = Process()
    gc.collect()
    gc.disable()
    try:
        watch = MemoryWatch(process.resident)
        knot = Knot()
        gone = weakref.ref(knot)
        del knot
        assert gone() is not None
        process.size += YOUNG_GROWTH + 1
        assert watch.look()
        assert gone() is None
    finally:
        gc.enable()


class Cyclic:
    """An object that only a collection can free, once it is in a cycle with itself."""

    def __init__(self) -> None:
        self.itself = self


def test_objects_that_survived_a_collection_are_examined_again_only_with_everything() -> None:
    """Examining all objects of a large server stops it for a second."""
    before = gc.get_threshold()

    async def body() -> None:
        async with collected_by_memory(LoopClock(asyncio.get_running_loop())):
            survivor = Cyclic()
            gc.collect(1)
            assert not any(one is survivor for one in gc.get_objects())
            known = weakref.ref(survivor)
            del survivor
            gc.collect()
            assert known() is not None
            collect(EVERYTHING)
            assert known() is None

    try:
        run_virtual(body())
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_growth_by_a_share_of_a_small_process_is_enough() -> None:
    process = Process()
    process.size = 64 * 1024 * 1024
    watch = MemoryWatch(process.resident, process.collected.append, young_share=1 / 16)
    process.size += 4 * 1024 * 1024
    assert not watch.look()
    process.size += 1
    assert watch.look()


def test_collection_is_suspended_until_the_last_of_several_blocks_ends() -> None:
    first, second = uncollected(), uncollected()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_collector_that_was_suspended_before_a_block_stays_so() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
