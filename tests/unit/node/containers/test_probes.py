"""Asking containers how they do (docs/spec/node.md §17.8)."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio
import pytest

from cathedra.api.core.core_v1 import Container, ContainerPort, GRPCAction, HTTPGetAction, Probe, TCPSocketAction
from cathedra.clock import SystemClock
from cathedra.node.containers.probes import ProbeTarget, run_action
from cathedra.node.runtime.simulated import SimulatedRuntime


def target() -> ProbeTarget:
    container = Container(name="c", ports=(ContainerPort(name="web", container_port=1),))
    return ProbeTarget(SimulatedRuntime(SystemClock()), "id", container, "127.0.0.1")


@pytest.mark.parametrize(
    ("service", "answer", "verdict"),
    [
        ("", b"\x08\x01", (True, "")),
        ("db", b"\x08\x01", (True, "")),
        ("", b"\x08\x02", (False, 'service unhealthy (responded with "NOT_SERVING")')),
        ("", b"", (False, 'service unhealthy (responded with "UNKNOWN")')),
    ],
)
async def test_a_grpc_service_says_itself_whether_it_serves(
    service: str, answer: bytes, verdict: tuple[bool, str]
) -> None:
    asked: list[bytes] = []

    async def check(request: bytes, context: Any) -> bytes:
        asked.append(request)
        return answer

    handler = grpc.unary_unary_rpc_method_handler(check)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        assert await run_action(Probe(grpc=GRPCAction(port=port, service=service)), target(), 5) == verdict
    finally:
        await server.stop(None)
    assert asked == [b"\x0a\x02db" if service else b""]


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
