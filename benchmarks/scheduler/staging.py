"""Control planes for workloads: in this process, in processes of their own, or any cluster."""

from __future__ import annotations

import asyncio
import enum
import os
import random
import sys
import tempfile
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.scheduler.figures import Usage
from benchmarks.scheduler.serving import TransportOf, Ways, over_http, over_socket, over_tls, served_apart
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.etcd import EtcdAddress, EtcdStorage
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.clock import SystemClock
from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions
from cathedra.releases import FeatureGates
from cathedra.scheduler.metrics import SchedulerMetrics
from cathedra.scheduler.scheduler import Scheduler, SchedulerDependencies
from cathedra.session.opening import DISABLED, open_transport

__all__ = ["Arrangement", "Stage", "cluster", "stage"]

READY: Final = b"export KUBECONFIG="
CONTROLLING: Final = b"controllers for"
SCHEDULING: Final = b"scheduling for"
CLAIMS_ALONE: Final = ("--controllers=resourceclaim-controller",)
"""Lines that `cathedra up` and `cathedra apiserver` print when they accept requests."""


class Arrangement(enum.Enum):
    """Distribution of the parts over processes."""

    ONE = "one process"
    ETCD = "one process on etcd"
    SOCKET = "API server apart, over a unix socket"
    TLS = "API server apart, over TLS"
    HTTP = "API server apart, over TLS and HTTP alone"
    UP_HTTP = "cathedra up, client over TLS and HTTP"
    UP = "cathedra up"
    PARTS = "API server, scheduler and controllers apart, over TLS"
    PARTS_HTTP = "API server, scheduler and controllers apart, over TLS and HTTP alone"
    PARTS_SOCKET = "API server, scheduler and controllers apart, over its unix socket"


@dataclass(frozen=True)
class Stage:
    """A control plane that runs, a client of it, and what it uses."""

    client: Client
    informers: SharedInformers
    usage: Usage
    attempts: Sequence[float] = ()


def stage(arrangement: Arrangement) -> AbstractAsyncContextManager[Stage]:
    """A control plane for one workload."""
    return _STAGES[arrangement]()


class _Attempts(SchedulerMetrics):
    """Keeps how long each attempt took, in milliseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.durations: list[float] = []

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        super().attempted(result, profile, seconds)
        self.durations.append(seconds * 1000)


@asynccontextmanager
async def _one_process() -> AsyncIterator[Stage]:
    with tempfile.TemporaryDirectory() as directory:
        store = SQLiteStorage(Path(directory) / "store.db")
        config = ServerConfig(gates=FeatureGates.for_release())
        server = await APIServer.open(config, clock=SystemClock(), random=random.Random(1), store=store)
        try:
            async with _control_plane(server.transport, Usage()) as found:
                yield found
        finally:
            await server.close()


@asynccontextmanager
async def _on_etcd() -> AsyncIterator[Stage]:
    from benchmarks.etcd import running_etcd

    with running_etcd() as etcd:
        store = EtcdStorage(EtcdAddress.parse(etcd.url), clock=SystemClock())
        config = ServerConfig(gates=FeatureGates.for_release())
        server = await APIServer.open(config, clock=SystemClock(), random=random.Random(1), store=store)
        try:
            async with _control_plane(server.transport, Usage()) as found:
                yield found
        finally:
            await server.close()


@asynccontextmanager
async def _served(ways: Ways) -> AsyncIterator[Stage]:
    async with served_apart(ways) as (transport_of, pid), _control_plane(transport_of, Usage([pid])) as found:
        yield found


@asynccontextmanager
async def _control_plane(transport_of: TransportOf, usage: Usage) -> AsyncIterator[Stage]:
    """Scheduler and claim controller in this process, with what leads each of them to the API server."""
    clock, gates, attempts = SystemClock(), FeatureGates.for_release(), _Attempts()
    client = Client(transport_of("bench"), clock=clock, field_manager="bench")
    informers = SharedInformers(client, clock)
    controllers = ControllerManager(
        Client(transport_of("system:kube-controller-manager"), clock=clock),
        clock=clock,
        random=random.Random(2),
        gates=gates,
        options=ControllerOptions(informers=informers, controllers=["resourceclaim-controller"]),
    )
    scheduler = Scheduler(
        Client(transport_of("system:kube-scheduler"), clock=clock),
        clock=clock,
        random=random.Random(3),
        gates=gates,
        dependencies=SchedulerDependencies(informers=informers, metrics=attempts),
    )
    async with _running(controllers, scheduler, informers):
        yield Stage(client, informers, usage, attempts.durations)


@asynccontextmanager
async def _up() -> AsyncIterator[Stage]:
    """A cluster as a user starts it, with the load's client over TLS."""
    with _folder() as folder:
        options = ("--nodes=0", "--no-merge", f"--data-dir={folder}")
        async with (
            _program(folder, "up", *options, until=READY) as pid,
            cluster(folder / "kubeconfig", [pid]) as found,
        ):
            yield found


@asynccontextmanager
async def _up_over_http() -> AsyncIterator[Stage]:
    """The same, with a client that speaks HTTP alone, as kubectl and client-go do."""
    with _http_alone():
        async with _up() as found:
            yield found


@asynccontextmanager
async def _parts(kubeconfig: str) -> AsyncIterator[Stage]:
    with _folder() as folder:
        config = f"--kubeconfig={folder / kubeconfig}"
        async with (
            _program(folder, "apiserver", f"--data-dir={folder}", until=READY) as server,
            _program(folder, "controller-manager", config, *CLAIMS_ALONE, until=CONTROLLING) as controllers,
            _program(folder, "scheduler", config, until=SCHEDULING) as scheduler,
            cluster(folder / kubeconfig, [server, controllers, scheduler]) as found,
        ):
            yield found


@asynccontextmanager
async def _parts_over_http() -> AsyncIterator[Stage]:
    with _http_alone():  # the parts inherit it
        async with _parts("kubeconfig") as found:
            yield found


@contextmanager
def _http_alone() -> Iterator[None]:
    os.environ[DISABLED] = "1"
    try:
        yield
    finally:
        del os.environ[DISABLED]


@asynccontextmanager
async def cluster(path: Path, pids: Sequence[int] = ()) -> AsyncIterator[Stage]:
    """A cluster that runs already, as this kubeconfig's user sees it."""
    clock = SystemClock()
    async with open_transport(kubeconfig.load(path), user_agent="bench") as transport:
        client = Client(transport, clock=clock, field_manager="bench")
        informers = SharedInformers(client, clock)
        async with _running(informers):
            yield Stage(client, informers, Usage(pids))


@asynccontextmanager
async def _running(*parts: Any) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(part.run()) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _folder() -> Iterator[Path]:
    # Unix sockets leave no room for long names.
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        yield Path(name)


@asynccontextmanager
async def _program(folder: Path, part: str, *options: str, until: bytes = b"") -> AsyncIterator[int]:
    """``cathedra PART`` while the context lasts; its process id, once it has said what is waited for.

    Raises:
        RuntimeError: it ended instead; with what it said.
    """
    said = folder / f"{part}.log"
    with said.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "cathedra.cli.main", part, *options, stdin=DEVNULL, stdout=log, stderr=log
        )
    try:
        while until not in said.read_bytes():
            if process.returncode is not None:
                raise RuntimeError(said.read_text())
            await asyncio.sleep(0.02)
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


_STAGES: Final[Mapping[Arrangement, Callable[[], AbstractAsyncContextManager[Stage]]]] = {
    Arrangement.ONE: _one_process,
    Arrangement.ETCD: _on_etcd,
    Arrangement.SOCKET: partial(_served, over_socket),
    Arrangement.TLS: partial(_served, over_tls),
    Arrangement.HTTP: partial(_served, over_http),
    Arrangement.UP: _up,
    Arrangement.UP_HTTP: _up_over_http,
    Arrangement.PARTS: partial(_parts, "kubeconfig"),
    Arrangement.PARTS_HTTP: _parts_over_http,
    Arrangement.PARTS_SOCKET: partial(_parts, "local.kubeconfig"),
}
