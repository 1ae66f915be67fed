"""The driver's process, where the examination starts it: with what a DaemonSet's pod finds, and ended as pods are."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from cathedra.api.core.core_v1 import Node
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.kubeconfig import Target, write
from cathedra.client.resources import NODES
from cathedra.clock import Clock
from cathedra.drivercheck.errors import DriverCheckError
from cathedra.releases import FeatureGates

_STOP_SECONDS = 60.0


class DriverProgram:
    """Runs ``command``; several instances may run side by side, as during a rolling update."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """``environment`` is added to this process's; what the driver prints goes to ``log``."""
        self._command = tuple(command)
        self._environment = dict(environment)
        self._log = log

    async def start(self, **more: str) -> asyncio.subprocess.Process:
        """Start an instance, with ``more`` variables.

        Raises:
            DriverCheckError: it cannot be executed.
        """
        environment = {**os.environ, **self._environment, **more}
        with self._log.open("ab") as log:
            try:
                return await asyncio.create_subprocess_exec(*self._command, stdout=log, stderr=log, env=environment)
            except OSError as error:
                raise DriverCheckError(f"cannot start {self._command[0]}: {error.strerror}") from error

    async def stop(self, process: asyncio.subprocess.Process, seconds: float = _STOP_SECONDS) -> int:
        """End an instance as a pod is ended, and return its exit status.

        Raises:
            TimeoutError: it does not end, and was killed.
        """
        if process.returncode is None:
            # SIGTERM first, as the kubelet ends a pod: a driver may deregister and remove its sockets.
            process.terminate()
        try:
            async with asyncio.timeout(seconds):
                return await process.wait()
        except TimeoutError:
            await self.kill(process)
            raise

    async def kill(self, process: asyncio.subprocess.Process) -> None:
        """Kill an instance that still runs, and wait for its end."""
        if process.returncode is None:
            process.kill()
        await process.wait()

    def said(self) -> str:
        """Return the last lines that the driver has printed."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-5:])


@asynccontextmanager
async def hosted_server(
    directory: Path, nodes: Sequence[str], gates: FeatureGates, clock: Clock
) -> AsyncIterator[Client]:
    """Yield a server with these nodes, on the loopback; ``directory/kubeconfig`` leads there."""
    config = ServerConfig(release=gates.release, gates=gates)
    server = await APIServer.open(config, clock=clock, random=random.Random())
    # A token of its own for each run: the server listens on the loopback, where other users of the machine can reach
    # it.
    token = secrets.token_urlsafe(32)
    try:
        user = UserInfo("driver-check", ("system:masters",))
        url = await server.serve(ServeOptions(pki=directory / "pki", tokens={token: user}))
        authority = (directory / "pki" / "ca.crt").read_bytes()
        write(directory / "kubeconfig", Target(url, certificate_authority=authority, token=token))
        client = Client(server.transport(), clock=clock)
        for node in nodes:
            await client.resource(NODES).create(Node(metadata=ObjectMeta(name=node)))
        yield client
    finally:
        await server.close()
