"""Time that is moved on: timers run in order, sockets still work, and real time passes as ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from cathedra.testing.loop import AdvanceableLoop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=AdvanceableLoop) as runner:
        return runner.run(main)


def this_loop() -> AdvanceableLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, AdvanceableLoop)
    return loop


def test_what_is_due_happens_in_its_order_and_at_its_time() -> None:
    async def main() -> list[tuple[str, int]]:
        loop, seen = this_loop(), list[tuple[str, int]]()
        began = loop.time()

        async def sleeper(name: str, seconds: float) -> None:
            for _ in range(2):
                await asyncio.sleep(seconds)
                seen.append((name, round(loop.time() - began)))

        tasks = [asyncio.ensure_future(sleeper(name, seconds)) for name, seconds in (("a", 3600), ("b", 2500))]
        await loop.advance(6000)
        for task in tasks:
            task.cancel()
        return seen

    assert run(main()) == [("b", 2500), ("a", 3600), ("b", 5000)]


def test_time_moves_by_what_was_asked_for() -> None:
    async def main() -> float:
        loop = this_loop()
        before = loop.time()
        await loop.advance(1000)
        await loop.advance(500)
        return loop.time() - before

    assert 1500 <= run(main()) < 1560


def test_a_chain_of_what_follows_at_once_has_run_when_it_returns() -> None:
    async def main() -> int:
        steps = 0

        async def chain() -> None:
            nonlocal steps
            await asyncio.sleep(10)
            for _ in range(100):
                await asyncio.sleep(0)
                steps += 1

        task = asyncio.ensure_future(chain())
        await this_loop().advance(10)
        assert task.done()
        return steps

    assert run(main()) == 100


def test_sockets_are_served_while_time_stands() -> None:
    async def main() -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(4))
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        def ask() -> bytes:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(b"ping")
                return connection.recv(4)

        answer = await asyncio.to_thread(ask)
        server.close()
        return answer

    assert run(main()) == b"ping"


def test_a_loop_in_a_hurry_waits_for_no_timer() -> None:
    async def main() -> float:
        loop = this_loop()
        before = loop.time()
        loop.hurry()
        await asyncio.sleep(3600)
        return loop.time() - before

    assert run(main()) >= 3600


def test_time_does_not_run_backwards_nor_twice_at_once() -> None:
    async def main() -> None:
        loop = this_loop()
        with pytest.raises(ValueError, match="time does not run backwards: -1"):
            await loop.advance(-1)
        first = asyncio.ensure_future(loop.advance(1))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="is being advanced already"):
            await loop.advance(1)
        await first

    run(main())
