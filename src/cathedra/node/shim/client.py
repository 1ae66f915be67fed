"""Connecting to the container shim of a directory, and starting one where none runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

import cathedra
from cathedra.node.shim.connection import ShimConnection
from cathedra.node.shim.errors import IncompatibleShim, ShimLost
from cathedra.node.shim.protocol import PROTOCOL

__all__ = ["ShimListing", "ShimOptions", "abandon", "connect", "connect_or_launch", "end"]

_PROGRAM: Final = (
    f"import sys; sys.path.append({str(Path(cathedra.__file__).parents[1])!r}); "
    "from cathedra.node.shim.main import main; main()"
)
_ATTEMPTS: Final = 2
"""One that is lost while it starts is replaced."""
_FORMER_SOCKET: Final = "keeper.sock"
"""The socket's name before the protocol had a number."""


class ShimOptions(msgspec.Struct, frozen=True):
    """Which shim: where its files are, seconds for which containers outlive the agent, its cgroup ("" for none)."""

    directory: Path
    orphan_seconds: float
    cgroup: str


class ShimListing(msgspec.Struct, frozen=True):
    """A connection with what the shim said first: its process ID and its containers."""

    connection: ShimConnection
    pid: int
    containers: tuple[dict[str, Any], ...]


async def connect_or_launch(options: ShimOptions, on_exit: Callable[[dict[str, Any]], None]) -> ShimListing:
    """Connect to the directory's shim; start it if there is none.

    Where this is cancelled meanwhile, no shim is left without an agent: it is waited for, and ended unless it holds
    containers.

    Raises:
        ShimLost: it cannot be started, or ended at once.
        IncompatibleShim: one of another version runs there.
    """
    connecting = asyncio.create_task(_connect_or_launch(options, on_exit))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        await _give_up(connecting)
        raise


async def _give_up(connecting: asyncio.Task[ShimListing]) -> None:
    with contextlib.suppress(OSError, IncompatibleShim):
        await abandon(await connecting)


async def abandon(shim: ShimListing) -> None:
    """Hang up on a shim for which there is no agent; one that holds no containers is ended.

    Raises:
        ShimLost: it was lost before it could answer.
    """
    if not shim.containers:
        await end(shim.connection)
    await shim.connection.close()


async def end(connection: ShimConnection) -> None:
    """Have a shim kill and remove its containers and end; returns when it is gone.

    Raises:
        ShimLost: it was lost before it could answer.
    """
    await connection.ask({"do": "end"})
    await connection.wait_lost()


async def _connect_or_launch(options: ShimOptions, on_exit: Callable[[dict[str, Any]], None]) -> ShimListing:
    options.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for _ in range(_ATTEMPTS):
        try:
            return await connect(options.directory, on_exit)
        except OSError:
            await _refuse_former(options.directory)
        await _launch(options)
    try:
        return await connect(options.directory, on_exit)
    except OSError as error:
        raise ShimLost(f"no container shim in {options.directory}: {error}") from error


async def connect(directory: Path, on_exit: Callable[[dict[str, Any]], None]) -> ShimListing:
    """Connect to the shim that runs in ``directory``.

    Raises:
        OSError: none does; `ShimLost` if it ended meanwhile.
        IncompatibleShim: it is of another version.
    """
    loop = asyncio.get_running_loop()
    with _socket_address(directory, "shim.sock") as address:
        _, connection = await loop.create_unix_connection(lambda: ShimConnection(on_exit), address)
    answer = await connection.ask({"do": "list"})
    if answer.get("protocol") != PROTOCOL:
        await connection.close()
        raise IncompatibleShim(directory, str(answer.get("protocol")), str(PROTOCOL), int(answer.get("pid", 0)))
    return ShimListing(connection, answer["pid"], tuple(answer["containers"]))


@contextmanager
def _socket_address(directory: Path, name: str) -> Iterator[str]:
    """A path to a socket that fits into a socket's address, as the real one may not."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{name}"
    finally:
        os.close(folder)


async def _refuse_former(directory: Path) -> None:
    if not (directory / _FORMER_SOCKET).exists():
        return
    with _socket_address(directory, _FORMER_SOCKET) as address:
        try:
            _, writer = await asyncio.open_unix_connection(address)
        except OSError:
            return  # it has ended, and only its socket is left
    writer.close()
    raise IncompatibleShim(directory, "0", str(PROTOCOL), 0)


async def _launch(options: ShimOptions) -> None:
    arguments = [str(options.directory), str(options.orphan_seconds), options.cgroup]
    log_path = options.directory / "shim.log"
    # No site packages: the shim needs none, and starts in a fraction of the time.
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, *arguments]
    with log_path.open("ab") as log:
        # In a thread: the loop's own way forks, and this process stands still until its memory map is copied.
        code = await asyncio.to_thread(
            subprocess.call,
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    if code != 0:
        lines = log_path.read_text(errors="replace").strip().splitlines()
        raise ShimLost(f"the container shim ended with code {code}: {lines[-1] if lines else 'no reason given'}")
