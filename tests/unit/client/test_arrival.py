"""Parts that are started before their API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cathedra.client.arrival import server_arrives
from cathedra.client.kubeconfig import KubeconfigError, Target
from cathedra.clock import SystemClock
from tests.ports import free_port


async def test_a_server_that_is_there_needs_no_word() -> None:
    said: list[str] = []
    async with await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0) as server:
        target = Target(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert await server_arrives(target, asyncio.Event(), clock=SystemClock(), say=said.append)
    assert said == []


async def test_one_of_several_servers_suffices() -> None:
    said: list[str] = []
    async with await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0) as server:
        there = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        target = Target(f"https://127.0.0.1:{free_port()}", further=(there,))
        assert await server_arrives(target, asyncio.Event(), clock=SystemClock(), say=said.append)
    assert said == []


async def test_a_socket_is_waited_for_as_a_port_is(tmp_path: Path) -> None:
    said: list[str] = []
    stopped = asyncio.Event()

    def say(line: str) -> None:
        said.append(line)
        stopped.set()

    target = Target(f"unix://{tmp_path / 'api.sock'}")
    assert not await server_arrives(target, stopped, clock=SystemClock(), say=say)
    assert said == [f"waiting for the API server at {target.server}: no such file or directory"]
    async with await asyncio.start_unix_server(lambda r, w: w.close(), tmp_path / "api.sock"):
        assert await server_arrives(target, asyncio.Event(), clock=SystemClock(), say=say)
    assert len(said) == 1


async def test_one_that_comes_later_is_waited_for_with_one_line() -> None:
    port, waiting = free_port(), asyncio.Event()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        waiting.set()

    url = f"https://127.0.0.1:{port}"
    async with asyncio.timeout(120):
        arriving = asyncio.ensure_future(server_arrives(Target(url), asyncio.Event(), clock=SystemClock(), say=say))
        await waiting.wait()
        async with await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", port):
            assert await arriving
    assert said[0].startswith(f"waiting for the API server at {url}: ")
    assert said[1:] == [f"the API server at {url} is there"]


async def test_who_is_told_to_stop_waits_no_longer() -> None:
    stopped = asyncio.Event()
    target = Target(f"https://127.0.0.1:{free_port()}")
    async with asyncio.timeout(120):
        assert not await server_arrives(target, stopped, clock=SystemClock(), say=lambda _: stopped.set())


async def test_what_is_no_url_is_not_waited_for() -> None:
    with pytest.raises(KubeconfigError, match="is no URL"):
        await server_arrives(Target("nowhere"), asyncio.Event(), clock=SystemClock(), say=print)
