"""Commands with their input and output."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.node.runtime.command import Command, ConsoleSocket
from cathedra.node.runtime.runtime import STDERR, STDOUT
from cathedra.node.shim.processes import process_session

RUNTIME = """
import os, pty, socket, sys
child, terminal = pty.fork()
if child == 0:
    os.execvp("sh", ["sh", "-c", sys.argv[2]])
with socket.socket(socket.AF_UNIX) as console:
    console.connect(sys.argv[1])
    socket.send_fds(console, [b"/dev/ptmx"], [terminal])
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""Act as a container runtime with a console socket: open a terminal, pass it on, wait for the command."""


async def run(*argv: str, tty: bool = False, stdin: bool = False) -> Command:
    return await Command.start(argv, None, "/", tty=tty, stdin=stdin)


async def everything(command: Command) -> dict[int, bytes]:
    found = {STDOUT: b"", STDERR: b""}
    async for channel, data in command.output():
        found[channel] += data
    return found


async def test_output_and_errors_are_told_apart_and_the_exit_code_is_kept() -> None:
    command = await run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert await everything(command) == {STDOUT: b"out\n", STDERR: b"err\n"}
    assert await command.wait() == 7
    await command.close()


async def test_a_command_that_a_signal_ends_has_the_code_of_a_shell() -> None:
    command = await run("sh", "-c", "kill -9 $$")
    assert await command.wait() == 137
    await command.close()


async def test_input_ends_where_it_is_closed() -> None:
    command = await run("cat", stdin=True)

    async def send() -> None:
        await command.write(b"x" * 200_000)
        await command.close_input()

    sending = asyncio.create_task(send())
    assert (await everything(command))[STDOUT] == b"x" * 200_000
    await sending
    await command.close()


@pytest.fixture
def hangups_are_heeded() -> Iterator[None]:
    """Take back what ``nohup`` sets, and what all programs that this process starts inherit."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups_are_heeded")
async def test_closing_hangs_up_what_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine a process may take longer than the pause before it is killed.
    monkeypatch.setattr("cathedra.node.runtime.command._HANGUP_SECONDS", 120.0)
    command = await run("sleep", "3600")
    await command.close()
    assert await command.wait() == 129


async def ended(pid: int) -> None:
    async with asyncio.timeout(120):
        while process_session(pid) >= 0:  # noqa: ASYNC110 - processes do not set events
            await asyncio.sleep(0.01)


_BOTH_RUN = "sleep 3600 & echo $!; sleep 3600"
_IGNORES_THE_SIGNAL = "trap '' HUP; sleep 3600 & echo $!; wait"
_IN_ANOTHER_SESSION = "setsid sleep 3600 & echo $!; wait"


@pytest.mark.parametrize(
    ("script", "tty"),
    [
        (_BOTH_RUN, False),
        (_BOTH_RUN, True),
        # Without a terminal, which the kernel hangs up when its first process ends.
        ("sleep 3600 & echo $!", False),
        (_IGNORES_THE_SIGNAL, False),
        (_IGNORES_THE_SIGNAL, True),
        (_IN_ANOTHER_SESSION, False),
        (_IN_ANOTHER_SESSION, True),
    ],
)
async def test_the_children_of_a_command_end_with_its_client(script: str, tty: bool) -> None:
    command = await run("sh", "-c", script, tty=tty)
    output = command.output()
    _, line = await anext(output)
    await command.close()
    await ended(int(line))


async def test_what_a_command_leaves_in_the_background_when_it_ends_belongs_to_its_container() -> None:
    command = await run("sh", "-c", "sleep 3600 >/dev/null 2>&1 & echo $!")
    pid = int((await everything(command))[STDOUT])
    assert await command.wait() == 0
    await command.close()
    assert process_session(pid) >= 0
    os.kill(pid, signal.SIGKILL)


async def test_a_command_whose_output_is_not_read_waits_and_leaves_nothing_open() -> None:
    before = set(os.listdir("/proc/self/fd"))
    command = await run("sh", "-c", "yes; true", stdin=True)
    output = command.output()
    assert (await anext(output))[1].startswith(b"y")
    await command.close()
    assert set(os.listdir("/proc/self/fd")) <= before


async def test_a_terminal_has_the_size_before_the_command_reads_what_was_written_after_it() -> None:
    command = await run("sh", "-c", "read x; stty size", tty=True)
    command.resize(91, 27)
    await command.write(b"\n")
    assert (await everything(command))[STDOUT].endswith(b"27 91\r\n")
    assert await command.wait() == 0
    await command.close()


async def test_a_command_that_is_not_there_raises() -> None:
    with pytest.raises(FileNotFoundError):
        await run("/no/such/program")


async def on_console(program: str, script: str) -> Command:
    with ConsoleSocket() as console:
        return await Command.start_on_console((sys.executable, "-S", "-c", program, str(console.path), script), console)


async def test_a_size_that_comes_first_is_not_lost_by_a_runtime_that_makes_the_terminal() -> None:
    command = await on_console(RUNTIME, "read x; stty size; exit 5")
    command.resize(91, 27)
    await command.write(b"\n")
    assert (await everything(command))[STDOUT].endswith(b"27 91\r\n")
    assert await command.wait() == 5
    await command.close()


async def test_end_of_input_on_a_terminal_is_control_d() -> None:
    command = await on_console(RUNTIME, "cat")
    await command.close_input()
    async with asyncio.timeout(120):
        await everything(command)
        assert await command.wait() == 0
    await command.close()


async def test_what_a_runtime_says_instead_of_handing_over_a_terminal_is_the_output() -> None:
    command = await on_console("import sys; print('no such container', file=sys.stderr); sys.exit(1)", "")
    assert (await everything(command))[STDOUT] == b"no such container\n"
    assert await command.wait() == 1
    await command.close()


async def test_a_command_that_writes_without_pause_leaves_the_loop_to_others() -> None:
    command = await run("yes")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(others())
    pieces = 0
    async for _ in command.output():
        pieces += 1
        if pieces == 200:
            break
    beside.cancel()
    await command.close()
    assert turns >= 100


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
