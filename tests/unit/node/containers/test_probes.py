"""Probes of containers (docs/spec/node.md §17.8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from cathedra.api.core.core_v1 import (
    Container,
    ContainerPort,
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    Probe,
    TCPSocketAction,
)
from cathedra.api.protobuf.wire import delimited
from cathedra.clock import LoopClock, SystemClock, run_virtual
from cathedra.node.concurrency import BlockTasks
from cathedra.node.containers import probes
from cathedra.node.containers.probes import ProbeMonitor, ProbeTarget, run_action
from cathedra.node.containers.records import ContainerRecord, records_for
from cathedra.node.runtime.simulated import SimulatedRuntime
from tests.ports import free_port
from tests.running import run_with
from tests.unit.node.fakes import make_pod


def target() -> ProbeTarget:
    container = Container(name="c", ports=(ContainerPort(name="web", container_port=1),))
    return ProbeTarget(SimulatedRuntime(SystemClock()), "id", container, "127.0.0.1")


Check = Callable[[bytes, Any], Awaitable[bytes]]


@asynccontextmanager
async def health_service(check: Check, port: int = 0) -> AsyncIterator[int]:
    """Serve the standard health service, and yield its port."""
    handler = grpc.unary_unary_rpc_method_handler(check)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    served = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield served
    finally:
        await server.stop(None)


@pytest.mark.parametrize(
    ("service", "answer", "verdict"),
    [
        ("", b"\x08\x01", (True, "")),
        ("db", b"\x08\x01", (True, "")),
        ("d" * 300, b"\x08\x01", (True, "")),
        ("", b"\x08\x02", (False, 'service unhealthy (responded with "NOT_SERVING")')),
        ("", b"", (False, 'service unhealthy (responded with "UNKNOWN")')),
    ],
)
async def test_a_grpc_service_reports_itself_whether_it_serves(
    service: str, answer: bytes, verdict: tuple[bool, str]
) -> None:
    requests: list[bytes] = []

    async def check(request: bytes, context: Any) -> bytes:
        requests.append(request)
        return answer

    async with health_service(check) as port:
        assert await run_action(Probe(grpc=GRPCAction(port=port, service=service)), target(), 5) == verdict
    assert requests == [b"\x0a" + delimited(service.encode()) if service else b""]


async def test_a_grpc_service_that_does_not_answer_differs_from_one_that_does_not_listen() -> None:
    """The texts are those of the kubelet, ``pkg/probe/grpc``."""

    async def check(request: bytes, context: Any) -> bytes:
        return await asyncio.get_running_loop().create_future()

    async with health_service(check) as port:
        hung = await run_action(Probe(grpc=GRPCAction(port=port)), target(), 1)
    assert hung == (False, "timeout: health rpc did not complete within 1s")
    port = free_port()
    refused = f'timeout: failed to connect service "127.0.0.1:{port}" within 0.2s: context deadline exceeded'
    assert await run_action(Probe(grpc=GRPCAction(port=port)), target(), 0.2) == (False, refused)


async def test_a_grpc_service_that_listens_before_the_timeout_is_well() -> None:
    async def check(request: bytes, context: Any) -> bytes:
        return b"\x08\x01"

    port = free_port()
    running = asyncio.ensure_future(run_action(Probe(grpc=GRPCAction(port=port)), target(), 30))
    await asyncio.sleep(0)
    async with health_service(check, port):
        assert await running == (True, "")


async def test_a_grpc_server_without_a_health_service_is_not_well() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        good, said = await run_action(Probe(grpc=GRPCAction(port=port)), target(), 5)
    finally:
        await server.stop(None)
    assert not good
    assert said.startswith("error: this server does not implement the grpc health protocol (grpc.health.v1.Health)")


@pytest.mark.parametrize(("status", "good"), [(200, True), (302, True), (404, False), (503, False)])
async def test_http_answers_below_400_are_good(status: int, good: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert (await run_action(Probe(http_get=HTTPGetAction(port=port, path="/x")), target(), 5))[0] == good


async def test_a_port_may_be_named_and_one_that_is_not_open_is_bad() -> None:
    good, said = await run_action(Probe(tcp_socket=TCPSocketAction(port="web")), target(), 5)
    assert not good
    assert "1" in said
    assert (await run_action(Probe(tcp_socket=TCPSocketAction(port="x")), target(), 5))[1] == "couldn't find port: 'x'"


PROBE = Probe(exec=ExecAction(command=("true",)), period_seconds=10, timeout_seconds=1)


def record(**probes: Probe) -> ContainerRecord:
    return records_for(make_pod("p", Container(name="c", image="i", **probes)))["c"]


class Reports:
    """Reports: name, kind, verdict, and time."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bool]] = []
        self.changed = asyncio.Event()

    def __call__(self, name: str, kind: Any, *, good: bool, output: str) -> None:
        self.seen.append((name, kind.value, good))
        self.changed.set()


def monitored(body: Callable[[ProbeMonitor, Reports, ProbeTarget], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        reports = Reports()
        target = ProbeTarget(SimulatedRuntime(clock), "id", Container(name="c", image="i"), "127.0.0.1")
        async with BlockTasks() as tasks:
            await body(ProbeMonitor(clock, tasks, reports), reports, target)

    run_virtual(main())


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every probe is good after a second, and ``once`` ends with that; the probes that were begun."""
    probed: list[Any] = []

    async def run_probe(probe: Any, target: Any, clock: Any, report: Any, *, once: bool = False) -> None:
        probed.append(probe)
        while True:
            await clock.sleep(1)
            report(True, "")
            if once:
                return

    monkeypatch.setattr(probes, "run_probe", run_probe)
    return probed


@run_with(monitored)
async def test_the_other_probes_wait_for_the_startup_probe(
    monitor: ProbeMonitor, reports: Reports, target: ProbeTarget
) -> None:
    monitor.begin(record(startup_probe=PROBE, readiness_probe=PROBE, liveness_probe=PROBE), target)
    await asyncio.sleep(1.5)
    assert reports.seen == [("c", "Startup", True)]
    await asyncio.sleep(1)
    assert sorted(kind for _, kind, _ in reports.seen[1:]) == ["Liveness", "Readiness"]


@run_with(monitored)
async def test_a_container_without_probes_is_left_alone(
    monitor: ProbeMonitor, reports: Reports, target: ProbeTarget, *, begun: list[Any]
) -> None:
    monitor.begin(record(), target)
    await asyncio.sleep(10)
    assert (begun, reports.seen) == ([], [])


@run_with(monitored)
async def test_an_ended_container_is_not_probed_any_more(
    monitor: ProbeMonitor, reports: Reports, target: ProbeTarget
) -> None:
    monitor.begin(record(readiness_probe=PROBE), target)
    await asyncio.sleep(2.5)
    monitor.cancel("c")
    monitor.cancel("unknown")
    await asyncio.sleep(10)
    assert len(reports.seen) == 2


@run_with(monitored)
async def test_probes_of_an_earlier_run_end_when_a_new_one_begins(
    monitor: ProbeMonitor, reports: Reports, target: ProbeTarget, *, begun: list[Any]
) -> None:
    for _ in range(3):
        monitor.begin(record(liveness_probe=PROBE), target)
        await asyncio.sleep(0.5)
    await asyncio.sleep(1)
    assert len(begun) == 3
    assert len(reports.seen) == 1, "only the last run is probed"
