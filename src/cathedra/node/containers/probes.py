"""Startup, liveness and readiness probes of a pod's running containers (docs/spec/node.md §17.8).

`run_probe` runs one probe of one run of a container, `ProbeMonitor` those of a pod. Both report verdicts; what follows
from these is decided by the pod's runner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlunsplit

from cathedra.api.core.core_v1 import Container, GRPCAction, Probe
from cathedra.api.protobuf.wire import delimited
from cathedra.clock import Clock
from cathedra.node.concurrency import BlockTasks
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.runtime.runtime import Runtime, RuntimeFailure

_SERVING: Final = 1
_HEALTH: Final = {0: "UNKNOWN", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


class ProbeTarget(NamedTuple):
    """Target of a probe: a running container and the address of its ports."""

    runtime: Runtime
    container_id: str
    container: Container
    address: str


async def run_probe(
    probe: Probe, target: ProbeTarget, clock: Clock, report: Callable[[bool, str], None], *, once: bool = False
) -> None:
    """Probe until cancelled; ``report(verdict, output)`` is called with every verdict, each after enough equal answers.

    With ``once`` it ends after the first success (a startup probe).
    """
    await clock.sleep(probe.initial_delay_seconds)
    # Pods from files and from other servers may lack the defaults that an API server sets.
    needed = {True: probe.success_threshold or 1, False: probe.failure_threshold or 3}
    last: bool | None = None
    count = 0
    while True:
        good, output = await run_action(probe, target, probe.timeout_seconds or 1)
        # A single answer of the other kind begins the count again: thresholds mean answers in a row.
        count = count + 1 if good == last else 1
        last = good
        if count >= needed[good]:
            report(good, output)
            # The caller starts the other probes after this one.
            if good and once:
                return
        await clock.sleep(probe.period_seconds or 10)


async def run_action(probe: Probe, target: ProbeTarget, timeout: float) -> tuple[bool, str]:
    """Run a probe's action once. Return success, and the output."""
    if probe.grpc is not None:
        return await _grpc(probe.grpc, target, timeout)
    try:
        async with asyncio.timeout(timeout):
            if probe.exec is not None:
                return await _exec(probe.exec.command, target, timeout)
            if probe.http_get is not None:
                return await _http(probe, target)
            port = probe.tcp_socket.port if probe.tcp_socket is not None else None
            return await _tcp(target, _port(port, target.container))
    except TimeoutError:
        return False, f"command timed out after {timeout:g}s" if probe.exec is not None else "context deadline exceeded"
    # A container that ends during the probe looks like a failed probe. Its end is reported by the runtime.
    except (OSError, RuntimeFailure) as error:
        return False, str(error)


async def _exec(command: tuple[str, ...], target: ProbeTarget, timeout: float) -> tuple[bool, str]:
    code, output = await target.runtime.exec_sync(target.container_id, command, timeout)
    return code == 0, output.decode(errors="replace")


async def _http(probe: Probe, target: ProbeTarget) -> tuple[bool, str]:
    import aiohttp  # only pods with HTTP probes pay for it

    action = probe.http_get
    assert action is not None
    host = f"{action.host or target.address}:{_port(action.port, target.container)}"
    url = urlunsplit(((action.scheme or "HTTP").lower(), host, action.path or "/", "", ""))
    headers = {header.name: header.value for header in action.http_headers}
    try:
        async with (
            aiohttp.ClientSession() as session,
            # The kubelet checks no certificate of a probe: the node connects to an address, not to a name.
            session.get(url, headers=headers, ssl=False, allow_redirects=True) as response,
        ):
            good = 200 <= response.status < 400
            return good, "" if good else f"HTTP probe failed with statuscode: {response.status}"
    except aiohttp.ClientError as error:
        return False, f'Get "{url}": {error}'


async def _grpc(action: GRPCAction, target: ProbeTarget, timeout: float) -> tuple[bool, str]:
    """Call the standard health service. Its two messages are small enough to be encoded by hand.

    As in the kubelet, a refused connection is retried until the timeout: the service may be about to listen.
    """
    import grpc.aio  # only pods with gRPC probes pay for it

    service = (action.service or "").encode()
    where = f"{target.address}:{action.port}"
    async with grpc.aio.insecure_channel(where) as channel:
        check: Any = channel.unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)
        try:
            request = b"\x0a" + delimited(service) if service else b""
            answer: bytes = await check(request, timeout=timeout, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
                return False, f"{text}: {error.details()}"
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                if channel.get_state() is grpc.ChannelConnectivity.READY:
                    return False, f"timeout: health rpc did not complete within {timeout:g}s"
                text = f'timeout: failed to connect service "{where}" within {timeout:g}s'
                return False, f"{text}: context deadline exceeded"
            return False, f"error: health rpc probe failed: {error.details()}"
    # An empty message is the status UNKNOWN: protobuf leaves the value 0 out.
    status = answer[1] if answer[:1] == b"\x08" and len(answer) > 1 else 0
    if status == _SERVING:
        return True, ""
    return False, f'service unhealthy (responded with "{_HEALTH.get(status, str(status))}")'


async def _tcp(target: ProbeTarget, port: int) -> tuple[bool, str]:
    _, writer = await asyncio.open_connection(target.address, port)
    writer.close()
    return True, ""


def _port(port: int | str | None, container: Container) -> int:
    if isinstance(port, int):
        return port
    named = next((p.container_port for p in container.ports if p.name == port), None)
    if named is not None:
        return named
    if port is not None and port.isdigit():
        return int(port)
    raise OSError(f"couldn't find port: {port!r}")


class ProbeKind(Enum):
    """Kind of probe, as events name it."""

    STARTUP = "Startup"
    READINESS = "Readiness"
    LIVENESS = "Liveness"


class ReportProbe(Protocol):
    """Receives a result: container name, kind of probe, success, output."""

    def __call__(self, name: str, kind: ProbeKind, *, good: bool, output: str) -> None: ...


class ProbeMonitor:
    """Runs the probes of one pod's containers among ``tasks``, one task for each container."""

    __slots__ = ("_clock", "_probing", "_report", "_tasks")

    def __init__(self, clock: Clock, tasks: BlockTasks, report: ReportProbe) -> None:
        self._clock = clock
        self._tasks = tasks
        self._report = report
        self._probing: dict[str, asyncio.Task[None]] = {}

    def begin(self, record: ContainerRecord, target: ProbeTarget) -> None:
        """Probe a container that has been started, if it has probes; probes of an earlier run end."""
        container = record.container
        # A restarted container has the same name; verdicts of its earlier run would judge the new one.
        self.cancel(record.name)
        if any((container.startup_probe, container.readiness_probe, container.liveness_probe)):
            self._probing[record.name] = self._tasks.start(self._probe(record, target))

    def cancel(self, name: str) -> None:
        """Stop probing a container: it has ended."""
        task = self._probing.pop(name, None)
        if task is not None:
            task.cancel()

    async def _probe(self, record: ContainerRecord, target: ProbeTarget) -> None:
        container = record.container

        def reporter(kind: ProbeKind) -> Callable[[bool, str], None]:
            return lambda good, output: self._report(record.name, kind, good=good, output=output)

        if container.startup_probe is not None:
            startup = reporter(ProbeKind.STARTUP)
            await run_probe(container.startup_probe, target, self._clock, startup, once=True)
        # Until the startup probe has succeeded the others do not run: a slow start is no failure.
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                readiness = reporter(ProbeKind.READINESS)
                group.create_task(run_probe(container.readiness_probe, target, self._clock, readiness))
            if container.liveness_probe is not None:
                liveness = reporter(ProbeKind.LIVENESS)
                group.create_task(run_probe(container.liveness_probe, target, self._clock, liveness))
