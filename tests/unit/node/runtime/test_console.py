"""Terminals taken over from a container runtime."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from cathedra.node.runtime.console import ConsoleSocket

HANDS_OVER = """
import os, socket, sys
ours, theirs = os.openpty()
with socket.socket(socket.AF_UNIX) as console:
    console.connect(sys.argv[1])
    socket.send_fds(console, [b"/dev/ptmx"], [ours])
"""
"""A runtime that ends as soon as it has sent a terminal."""


async def start(program: str, console: ConsoleSocket) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", program, str(console.path))


async def test_a_terminal_arrives_also_when_its_runtime_has_ended_meanwhile() -> None:
    with ConsoleSocket() as console:
        runtime = await start(HANDS_OVER, console)
        await runtime.wait()
        terminal = await console.terminal(runtime)
    assert terminal is not None
    assert os.isatty(terminal)
    os.close(terminal)


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(1)",
        "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])",
        "import socket, sys; c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1]); c.send(b'none')",
    ],
)
async def test_a_runtime_that_ends_without_a_terminal_is_not_waited_for(program: str) -> None:
    with ConsoleSocket() as console:
        runtime = await start(program, console)
        assert await console.terminal(runtime) is None


def test_the_socket_is_private_and_gone_afterwards() -> None:
    with ConsoleSocket() as console:
        directory: Path = console.path.parent
        assert directory.stat().st_mode & 0o777 == 0o700
    assert not directory.exists()


async def test_giving_up_leaves_the_runtime_to_its_owner() -> None:
    with ConsoleSocket() as console:
        runtime = await start("import time; time.sleep(3600)", console)
        waiting = asyncio.ensure_future(console.terminal(runtime))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert runtime.returncode is None
        runtime.kill()
        await runtime.wait()
