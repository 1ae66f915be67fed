"""The agent's side of the container shim: find or start the shim of a directory, and call it.

Messages are JSON lines on a unix socket. The end of the connection means that the shim is lost: the kernel closes the
socket of a process that dies, for any reason, so no polling is needed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import msgspec

import cathedra
from cathedra.node.shim.protocol import PROTOCOL, IncompatibleShim, ShimLost

_PROGRAM: Final = (
    f"import sys; sys.path.append({str(Path(cathedra.__file__).parents[1])!r}); "
    "from cathedra.node.shim.main import main; main()"
)
_ATTEMPTS: Final = 2
"""Attempts to start a shim; one that is lost while it starts is replaced."""
_FORMER_SOCKET: Final = "keeper.sock"
"""The socket's name before the protocol had a number."""


class ShimOptions(msgspec.Struct, frozen=True):
    """Identity of a shim: its directory, seconds for which containers outlive the agent, its cgroup ("" for none)."""

    directory: Path
    orphan_seconds: float
    cgroup: str


class ShimListing(msgspec.Struct, frozen=True):
    """A connection with the shim's first message: its process ID and its containers."""

    connection: ShimConnection
    pid: int
    containers: tuple[dict[str, Any], ...]


async def connect_or_launch(options: ShimOptions, on_exit: Callable[[dict[str, Any]], None]) -> ShimListing:
    """Connect to the directory's shim; start it if there is none.

    If this is cancelled, no shim is left without an agent: its start is completed, and it is ended unless it holds
    containers.

    Raises:
        ShimLost: it cannot be started, or ended at once.
        IncompatibleShim: one of another version runs there.
    """
    # Shielded: a shim that was just started would otherwise stay without an agent and hold the directory's lock.
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
    """Disconnect from a shim without an agent, and end it if it holds no containers.

    Raises:
        ShimLost: it was lost before it could answer.
    """
    if not shim.containers:
        await end(shim.connection)
    await shim.connection.close()


async def end(connection: ShimConnection) -> None:
    """Make a shim kill and remove its containers and exit; return when it has exited.

    Raises:
        ShimLost: it was lost before it could answer.
    """
    await connection.call({"do": "end"})
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
    answer = await connection.call({"do": "list"})
    if answer.get("protocol") != PROTOCOL:
        await connection.close()
        raise IncompatibleShim(directory, str(answer.get("protocol")), str(PROTOCOL), int(answer.get("pid", 0)))
    return ShimListing(connection, answer["pid"], tuple(answer["containers"]))


@contextmanager
def _socket_address(directory: Path, name: str) -> Iterator[str]:
    """Yield a path to a socket that fits into a socket's address, as the real one may not."""
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
            # Signals to the agent's process group (Ctrl-C) must not reach the shim and its containers.
            start_new_session=True,
        )
    if code != 0:
        lines = log_path.read_text(errors="replace").strip().splitlines()
        raise ShimLost(f"the container shim ended with code {code}: {lines[-1] if lines else 'no reason given'}")


OutputCallback = Callable[[str, bytes], None]
"""Called with a container's output: the stream and the bytes; no bytes mean that nothing more will come."""
_LOG = logging.getLogger(__name__)


class ShimConnection(asyncio.Protocol):
    """One connection to one shim; ``on_exit`` is called for every container that ends."""

    def __init__(self, on_exit: Callable[[dict[str, Any]], None]) -> None:
        self._on_exit = on_exit
        self._transport: asyncio.Transport | None = None
        self._unparsed = bytearray()
        self._tags = itertools.count()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._attached: dict[str, list[OutputCallback]] = {}
        self._behind: dict[str, set[OutputCallback]] = {}
        """Callbacks whose clients take a container's output slowly."""
        self._ended = asyncio.Event()

    @property
    def lost(self) -> bool:
        """Return True if the shim has ended."""
        return self._ended.is_set()

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the socket is connected."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from asyncio's

    def data_received(self, data: bytes) -> None:
        """Take bytes from the shim, in pieces of any length."""
        *lines, rest = (self._unparsed + data).split(b"\n")
        self._unparsed = bytearray(rest)
        for line in lines:
            try:
                self._dispatch(json.loads(line))
            except (ValueError, KeyError):
                _LOG.exception("the container shim sent what is no message of its protocol: %.200r", bytes(line))
                self.abort()
                return

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the shim has ended, or the connection was closed from here."""
        self._ended.set()
        # Callers must not wait for answers that cannot come. They decide whether to repeat the request at the next
        # shim.
        for future in self._answers.values():
            if not future.done():
                future.set_exception(ShimLost("the container shim is gone"))
        self._answers.clear()
        for callbacks in self._attached.values():
            for callback in tuple(callbacks):
                callback("", b"")

    def _dispatch(self, message: dict[str, Any]) -> None:
        if "exited" in message:
            self._on_exit(message["exited"])
            return
        if "output" in message:
            for callback in tuple(self._attached.get(message["output"], ())):
                callback(message["stream"], base64.b64decode(message["data"]))
            return
        future = self._answers.pop(message["tag"], None)
        if future is not None and not future.done():
            future.set_result(message)

    # Requests

    async def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer; the caller handles an ``error`` in it.

        Raises:
            ShimLost: no answer can come. Whether the request was carried out is unknown.
        """
        if self._transport is None or self.lost:
            raise ShimLost("the container shim is gone")
        tag = next(self._tags)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        # Entered before the request is sent, because the answer may arrive as soon as this task waits.
        self._answers[tag] = future
        self._send(request | {"tag": tag})
        try:
            return await future
        finally:
            self._answers.pop(tag, None)

    def send(self, request: dict[str, Any]) -> None:
        """Send a request without waiting for its answer."""
        if not self.lost:
            self._send(request | {"tag": next(self._tags)})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._transport is not None
        self._transport.write(json.dumps(message).encode() + b"\n")

    async def attach(self, container_id: str, callback: OutputCallback) -> str:
        """Call ``callback`` with a container's output from now on. Return the reason if that is impossible, or "".

        Raises:
            ShimLost: the connection is lost.
        """
        callbacks = self._attached.setdefault(container_id, [])
        callbacks.append(callback)
        try:
            # The callback is registered before the request: output may arrive before its answer.
            answer = await self.call({"do": "attach", "id": container_id})
        except ShimLost:
            callbacks.remove(callback)
            raise
        if "error" in answer:
            callbacks.remove(callback)
        return str(answer.get("error", ""))

    async def detach(self, container_id: str, callback: OutputCallback) -> None:
        """Stop calling ``callback`` with the container's output."""
        self.resume(container_id, callback)
        callbacks = self._attached.get(container_id, [])
        callbacks.remove(callback)
        if not callbacks:
            self._attached.pop(container_id, None)
            with contextlib.suppress(ShimLost):
                await self.call({"do": "detach", "id": container_id})

    def pause(self, container_id: str, callback: OutputCallback) -> None:
        """Stop reading output until every callback that has paused has called `resume` or is detached."""
        behind = self._behind.setdefault(container_id, set())
        if not behind:
            self.send({"do": "pause", "id": container_id})
        behind.add(callback)

    def resume(self, container_id: str, callback: OutputCallback) -> None:
        """Read output again; without effect unless `pause` was called."""
        behind = self._behind.get(container_id, set())
        if callback in behind:
            behind.discard(callback)
            if not behind:
                del self._behind[container_id]
                self.send({"do": "resume", "id": container_id})

    # The end

    async def wait_lost(self) -> None:
        """Wait for the end of the connection."""
        await self._ended.wait()

    def abort(self) -> None:
        """Close the connection without waiting."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close the connection and wait until it is closed."""
        if self._transport is not None:
            self._transport.close()
            await self._ended.wait()
