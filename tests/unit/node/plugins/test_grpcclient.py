"""Calls to a driver on its socket."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from cathedra._proto import dra_health_v1_pb2 as health
from cathedra.clock import SystemClock
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import ClaimReference, DeviceCondition, PluginCallError, ReportedHealth
from cathedra.node.plugins.grpcclient import (
    DRA_SERVICES,
    DRIVER_TYPE,
    GRPCPluginClient,
    PluginChannel,
    PluginServices,
    RegistrationSocket,
    call_error,
)
from tests.running import beside
from tests.unit.node.driver_server import DriverServer

NAME = "gpu.example.com"
EMPTY_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The frame after which gRPC takes an HTTP/2 connection for one."""
CLAIMS = [ClaimReference("ns", "u1", "one"), ClaimReference("ns", "u2", "two")]


def client_of(driver: DriverServer, service: str = "v1.DRAPlugin", **more: Any) -> GRPCPluginClient:
    clock = SystemClock()
    services = PluginServices(service, more.pop("health", "v1.DRAResourceHealth"))
    return GRPCPluginClient(NAME, str(driver.socket), services, clock=clock, metrics=NodeMetrics(clock), **more)


@asynccontextmanager
async def connected(driver: DriverServer, *args: Any, **more: Any) -> AsyncIterator[GRPCPluginClient]:
    client = client_of(driver, *args, **more)
    try:
        yield client
    finally:
        await client.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - the driver sets no event
            await asyncio.sleep(0.005)


@pytest.fixture
async def driver(tmp_path: Path) -> AsyncIterator[DriverServer]:
    made = DriverServer(tmp_path, NAME)
    device = health.DeviceIdentifier(pool_name="n1", device_name="gpu-0")
    report = health.DeviceHealth(device=device, health=health.UNHEALTHY, message="hot", health_check_timeout_seconds=9)
    made.reports.append(health.NodeWatchResourcesResponse(devices=[report]))
    await made.start()
    yield made
    await made.stop()


@pytest.mark.parametrize("service", DRA_SERVICES)
async def test_claims_are_prepared_and_let_go_in_the_version_that_the_driver_offers(
    driver: DriverServer, service: str
) -> None:
    version = service.partition(".")[0]
    async with connected(driver, service) as client:
        prepared = await client.prepare(CLAIMS)
        assert set(prepared) == {"u1", "u2"}
        assert all(outcome.devices and not outcome.error for outcome in prepared.values())
        assert await client.unprepare(CLAIMS[:1]) == {"u1": ""}
    assert driver.calls == [(f"prepare {version}", ["one", "two"]), (f"unprepare {version}", ["one"])]


async def test_a_driver_that_is_not_there_yet_is_waited_for_until_the_time_is_over(tmp_path: Path) -> None:
    late = DriverServer(tmp_path, NAME)
    async with connected(late) as client:
        call = asyncio.ensure_future(client.unprepare(CLAIMS[:1]))
        await asyncio.sleep(0)
        assert not call.done()
        await late.start()
        assert await call == {"u1": ""}
    await late.stop()
    async with connected(late, timeout=0.05) as client:
        with pytest.raises(PluginCallError) as raised:
            await client.prepare(CLAIMS)
    assert str(raised.value) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


async def test_beginnings_and_ends_of_the_connection_are_reported(driver: DriverServer) -> None:
    seen: list[bool] = []
    async with connected(driver) as client, beside(client.follow_connection(seen.append)):
        await until(lambda: seen[-1:] == [True])
        await driver.stop()
        await until(lambda: seen[-1:] == [False])
        await driver.start()
        await until(lambda: seen[-1:] == [True])


async def test_a_socket_that_ends_every_connection_is_not_connected_to_in_a_loop(tmp_path: Path) -> None:
    """Without a pause these were 300 connections a second, and the driver was usable and unusable as often."""
    connections: list[int] = []
    seen: list[bool] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        writer.write(EMPTY_SETTINGS)
        await writer.drain()
        await until(lambda: seen.count(True) == len(connections))
        writer.transport.abort()

    endpoint = tmp_path / "reset.sock"
    async with await asyncio.start_unix_server(accept, endpoint):
        clock = StoppedClock()
        channel = PluginChannel(NAME, str(endpoint), clock=clock, metrics=NodeMetrics(clock))
        async with beside(channel.follow_connection(seen.append)):
            for number in range(1, 9):
                await until(lambda number=number: len(clock.pauses) == number)  # type: ignore[misc]
                assert len(connections) == number
                clock.go_on.set()
            assert clock.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
        await channel.close()


class StoppedClock(SystemClock):
    """A clock whose sleepers wait until the test lets them go on."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.go_on = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.go_on.wait()
        self.go_on.clear()


async def test_health_comes_as_the_driver_reports_it(driver: DriverServer) -> None:
    async with connected(driver) as client:
        reports = client.watch_health()
        first = await anext(reports)
        assert first == (ReportedHealth("n1", "gpu-0", DeviceCondition.UNHEALTHY, 9.0, "hot"),)
        await reports.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_a_driver_without_a_health_service_says_so_in_grpcs_words(driver: DriverServer) -> None:
    async with connected(driver, health=None) as client:
        with pytest.raises(PluginCallError, match="code = Unimplemented"):
            await anext(client.watch_health())


@pytest.mark.parametrize(
    ("code", "word"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Unavailable"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "ResourceExhausted"),
        (grpc.StatusCode.CANCELLED, "Canceled"),
        (grpc.StatusCode.UNKNOWN, "Unknown"),
    ],
)
def test_codes_are_spelled_as_go_spells_them(code: grpc.StatusCode, word: str) -> None:
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details="why")
    assert str(call_error(error)) == f"rpc error: code = {word} desc = why"


@pytest.fixture
def root() -> Iterator[Path]:
    """A short path: a socket's address has room for 107 characters."""
    with tempfile.TemporaryDirectory(prefix="hand-") as directory:
        yield Path(directory)


async def test_a_driver_says_who_it_is_and_is_told_what_came_of_it(root: Path) -> None:
    driver = DriverServer(root, "a.example.com")
    await driver.start()
    try:
        async with RegistrationSocket(driver.registration) as socket:
            await socket.connect(60)
            info = await socket.get_info(60)
            await socket.notify(registered=False, error="not today")
        assert (info.socket, info.type, info.name) == (driver.registration, DRIVER_TYPE, "a.example.com")
        assert info.services
    finally:
        await driver.stop()


async def test_a_socket_that_is_not_served_is_told_apart_from_one_that_does_not_answer(root: Path) -> None:
    async with RegistrationSocket(root / "nothing.sock") as socket:
        with pytest.raises(TimeoutError):
            await socket.connect(0.05)
        with pytest.raises(PluginCallError, match="DeadlineExceeded"):
            await socket.get_info(0.05)
        with pytest.raises(TimeoutError):
            await socket.connect(0.05)
