"""Attached to a running container."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest

from cathedra.node.runtime.attached import MOST_WAITING, AttachedProcess
from cathedra.node.runtime.runtime import STDERR, STDOUT, RuntimeFailure
from cathedra.node.shim.protocol import ShimLost


class Shim:
    """The connection as an attached process uses it."""

    def __init__(self, error: str = "", *, lost: bool = False) -> None:
        self.error, self.lost = error, lost
        self.asked: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self.resumed = 0
        self.receivers: dict[str, Callable[[str, bytes], None]] = {}

    async def attach(self, container: str, received: Callable[[str, bytes], None]) -> str:
        if not self.error:
            self.receivers[container] = received
        return self.error

    async def detach(self, container: str, received: Callable[[str, bytes], None]) -> None:
        assert self.receivers.pop(container) == received

    async def call(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.lost:
            raise ShimLost("gone")
        self.asked.append(request)
        return {}

    def pause(self, container: str, received: Callable[[str, bytes], None]) -> None:
        self.asked.append({"do": "pause", "id": container})

    def resume(self, container: str, received: Callable[[str, bytes], None]) -> None:
        self.resumed += 1

    def send(self, request: dict[str, Any]) -> None:
        self.told.append(request)


async def opened(shim: Shim) -> AttachedProcess:
    process = AttachedProcess(shim, "c")  # type: ignore[arg-type]  # as much of a connection as is used
    await process.open()
    return process


async def test_output_comes_with_its_stream_until_there_is_no_more() -> None:
    shim = Shim()
    process = await opened(shim)
    for stream, data in (("stdout", b"out"), ("stderr", b"err"), ("stdout", b"")):
        shim.receivers["c"](stream, data)
    assert [piece async for piece in process.output()] == [(STDOUT, b"out"), (STDERR, b"err")]


async def test_what_does_not_run_cannot_be_attached_to() -> None:
    shim = Shim("container c is not running")
    process = AttachedProcess(shim, "c")  # type: ignore[arg-type]  # as much of a connection as is used
    with pytest.raises(RuntimeFailure, match="container c is not running"):
        await process.open()
    await process.close()
    assert shim.receivers == {}


async def test_input_its_end_and_the_size_of_the_terminal_reach_the_container() -> None:
    shim = Shim()
    process = await opened(shim)
    await process.write(b"hello")
    await process.close_input()
    process.resize(80, 24)
    encoded = base64.b64encode(b"hello").decode()
    assert shim.asked == [{"do": "input", "data": encoded, "id": "c"}, {"do": "close-input", "id": "c"}]
    assert shim.told == [{"do": "resize", "id": "c", "width": 80, "height": 24}]


async def test_input_for_a_shim_that_is_lost_is_lost_with_it() -> None:
    process = await opened(Shim(lost=True))
    await process.write(b"hello")
    await process.close_input()


async def test_going_away_leaves_the_container_alone_and_happens_once() -> None:
    shim = Shim()
    process = await opened(shim)
    await process.close()
    await process.close()
    assert (shim.receivers, shim.asked) == ({}, [])
    assert await asyncio.wait_for(process.wait(), 1) == 0


async def test_a_container_waits_for_a_client_that_reads_slowly() -> None:
    shim = Shim()
    process = await opened(shim)
    for _ in range(3):
        shim.receivers["c"]("stdout", b"x" * (MOST_WAITING // 2))
    assert shim.asked == [{"do": "pause", "id": "c"}]
    output = process.output()
    await anext(output)
    await anext(output)
    assert shim.resumed == 0
    await anext(output)
    assert shim.resumed == 1
