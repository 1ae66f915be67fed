"""The node agent's end of the line to its shim: start it if need be, send requests, hear of ends."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import cathedra

__all__ = ["ShimClient", "ShimLost"]

_PROGRAM: Final = (
    f"import sys; sys.path.append({str(Path(cathedra.__file__).parents[1])!r}); "
    "from cathedra.node.shim.main import main; main()"
)
OutputCallback = Callable[[str, bytes], None]
"""Hears of a container's output: the stream and the bytes; no bytes mean that nothing more will come."""


class ShimLost(ConnectionError):
    """The shim does not answer any more."""


class ShimClient:
    """One connection to the shim of a directory."""

    def __init__(
        self, directory: Path, *, orphan_seconds: float, cgroup: str, on_exit: Callable[[dict[str, Any]], None]
    ) -> None:
        self._directory = directory
        self._orphan_seconds = orphan_seconds
        self._cgroup = cgroup
        self._on_exit = on_exit
        self._tags = itertools.count()
        self._attached: dict[str, list[OutputCallback]] = {}
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self.pid = 0

    async def open(self) -> list[dict[str, Any]]:
        """Connect to the shim, starting one if there is none; answers its containers.

        Raises:
            ShimLost: it cannot be started.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            await self._connect()
        except OSError:
            await self._launch()
            try:
                await self._connect()
            except OSError as error:
                raise ShimLost(f"no shim in {self._directory}: {error}") from error
        answer = await self.ask({"do": "list"})
        self.pid = answer["pid"]
        found: list[dict[str, Any]] = answer["containers"]
        return found

    async def _connect(self) -> None:
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # The real path may be longer than a socket's address can be.
            path = f"/proc/self/fd/{folder}/shim.sock"
            reader, self._writer = await asyncio.open_unix_connection(path, limit=1 << 24)
        finally:
            os.close(folder)
        self._reading = asyncio.ensure_future(self._read(reader))

    async def _launch(self) -> None:
        arguments = [str(self._directory), str(self._orphan_seconds), self._cgroup]
        # No site packages: the shim needs none, and starts in a fraction of the time.
        with (self._directory / "shim.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                "-c",
                _PROGRAM,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
            code = await process.wait()
        if code != 0:
            lines = (self._directory / "shim.log").read_text(errors="replace").strip().splitlines()
            raise ShimLost(f"the container shim ended with code {code}: {lines[-1] if lines else 'no reason given'}")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                message = json.loads(line)
                if "exited" in message:
                    self._on_exit(message["exited"])
                    continue
                if "output" in message:
                    for hear in tuple(self._attached.get(message["output"], ())):
                        hear(message["stream"], base64.b64decode(message["data"]))
                    continue
                future = self._answers.pop(message["tag"], None)
                if future is not None and not future.done():
                    future.set_result(message)
        except ConnectionError:
            pass
        finally:
            for future in self._answers.values():
                if not future.done():
                    future.set_exception(ShimLost("the container shim is gone"))
            self._answers.clear()
            for hearers in self._attached.values():
                for hear in tuple(hearers):
                    hear("", b"")

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer; ``error`` in it is the requester's business.

        Raises:
            ShimLost: no answer can come.
        """
        if self._writer is None or self._reading is None or self._reading.done():
            raise ShimLost("the container shim is gone")
        tag = next(self._tags)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[tag] = future
        self._writer.write(json.dumps(request | {"tag": tag}).encode() + b"\n")
        try:
            return await future
        finally:
            self._answers.pop(tag, None)

    def tell(self, request: dict[str, Any]) -> None:
        """Send a request whose answer nobody waits for."""
        if self._writer is not None:
            self._writer.write(json.dumps(request | {"tag": next(self._tags)}).encode() + b"\n")

    async def attach(self, container_id: str, hear: OutputCallback) -> str:
        """Have ``hear`` called with a container's output from now on; why that cannot be, or "".

        Raises:
            ShimLost: no answer can come.
        """
        hearers = self._attached.setdefault(container_id, [])
        hearers.append(hear)
        try:
            answer = await self.ask({"do": "attach", "id": container_id})
        except ShimLost:
            hearers.remove(hear)
            raise
        if "error" in answer:
            hearers.remove(hear)
        return str(answer.get("error", ""))

    async def detach(self, container_id: str, hear: OutputCallback) -> None:
        """Do not call ``hear`` any more."""
        hearers = self._attached.get(container_id, [])
        hearers.remove(hear)
        if not hearers:
            self._attached.pop(container_id, None)
            with contextlib.suppress(ShimLost):
                await self.ask({"do": "detach", "id": container_id})

    @property
    def lost(self) -> asyncio.Task[None] | None:
        """Done when the connection has ended."""
        return self._reading

    async def close(self, *, end: bool) -> None:
        """Hang up; with ``end`` the shim kills its containers, cleans up and leaves first."""
        if self._writer is None or self._reading is None:
            return
        if end:
            with contextlib.suppress(ShimLost, TimeoutError):
                await self.ask({"do": "end"})
                async with asyncio.timeout(10):
                    await asyncio.shield(self._reading)
        self._writer.close()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer = None
