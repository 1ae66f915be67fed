"""No client's requests keep the others waiting for long, or fill the memory of the server, also when it reads nothing.

The bounds are far above what is measured, and far below what the same attacks did where there was no limit
(docs/security.md).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cathedra.session.protocol import PROTOCOL, Attach, RequestMessage, RequestOptions
from tests.security.attacked import Attacked, attacked

STALL_SECONDS = 3.0
MIB = 150.0
Attack = Callable[[Attacked], Awaitable[list[asyncio.StreamWriter]]]


def asking(verb: str, count: int) -> list[RequestMessage]:
    """Return a number of requests for config maps."""
    numbers = range(1, count + 1)
    return [
        RequestMessage(number, 0, verb, "", "v1", "configmaps", "", "", "", 0, RequestOptions()) for number in numbers
    ]


async def lists_in_a_session(server: Attacked) -> list[asyncio.StreamWriter]:
    return [await server.session(asking("list", 4000), read=True)]


async def lists_in_a_session_that_is_not_read(server: Attacked) -> list[asyncio.StreamWriter]:
    return [await server.session(asking("list", 4000))]


async def watches_in_a_session(server: Attacked) -> list[asyncio.StreamWriter]:
    return [await server.session(asking("watch", 4000))]


async def agents_of_sessions(server: Attacked) -> list[asyncio.StreamWriter]:
    """Ten sessions with 30 users each, whose agents have 1 MiB, opened and closed one after another."""
    for _ in range(10):
        writer = await server.session([])
        for user in range(1, 31):
            writer.write(_attached(user, "a" * (1024 * 1024)))
            await writer.drain()
        await asyncio.sleep(0.2)
        writer.transport.abort()
    return []


def _attached(user: int, agent: str) -> bytes:
    from cathedra.frames import write_frame

    return bytes(write_frame([Attach(PROTOCOL, user, "", agent)]))


async def upgrades_without_credentials(server: Attacked) -> list[asyncio.StreamWriter]:
    padding = "\r\n".join(f"X-Padding-{number}: {'x' * 8000}" for number in range(100))
    lines = ("GET /api/session HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: cathedra-session/2", padding)
    head = "\r\n".join((*lines, "", ""))
    for _ in range(500):
        reader, writer = await server.connect(certificate=False)
        writer.write(head.encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
    return []


async def access_reviews_of_long_names(server: Attacked) -> list[asyncio.StreamWriter]:
    token = await server.account_token()
    way = await server.connect(certificate=False)
    for number in range(200):
        name = f"{number}{'x' * 2_900_000}"
        wanted = {"namespace": "default", "verb": "get", "resource": name}
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        body = json.dumps(kind | {"spec": {"resourceAttributes": wanted}}).encode()
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        status, _ = await server.ask("POST", path, body, token=token, way=way)
        assert status == 201
    return [way[1]]


async def watches_over_http(server: Attacked) -> list[asyncio.StreamWriter]:
    """300 watches that are not read, and 100 writes of half a megabyte."""
    writers = []
    for _ in range(300):
        reader, writer = await server.connect()
        writer.write(b"GET /api/v1/namespaces/kube-system/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writers.append(writer)
    way = await server.connect()
    path = "/api/v1/namespaces/kube-system/configmaps"
    for number in range(100):
        body = {"metadata": {"name": f"large{number}"}, "data": {"key": "x" * 500_000}}
        status, _ = await server.ask("POST", path, json.dumps(body).encode(), way=way)
        assert status == 201
    return [*writers, way[1]]


async def lists_over_http(server: Attacked) -> list[asyncio.StreamWriter]:
    """A hundred lists of ten megabytes that are not read."""
    writers = []
    for _ in range(100):
        reader, writer = await server.connect()
        writer.write(b"GET /api/v1/configmaps HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writers.append(writer)
    return writers


@pytest.mark.parametrize(
    ("attack", "mib"),
    [
        (lists_in_a_session, MIB),
        (lists_in_a_session_that_is_not_read, MIB),
        (watches_in_a_session, MIB),
        (agents_of_sessions, MIB),
        (upgrades_without_credentials, MIB),
        (access_reviews_of_long_names, MIB),
        (lists_over_http, 750.0),  # 512 MiB may wait for all clients
        (watches_over_http, 500.0),  # 50 MB of objects and their forms, and 300 connections
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_others_are_answered_and_memory_is_bounded_under(tmp_path: Path, attack: Attack, mib: float) -> None:
    async with attacked(tmp_path) as server:
        if "session" in getattr(attack, "__name__", ""):
            await server.fill(2000, 1000)
        if attack is lists_over_http:
            await server.fill(200, 50_000)
        effect = await server.under(lambda: attack(server))
        print(getattr(attack, "__name__", ""), effect)
        assert effect.stall < STALL_SECONDS
        assert effect.most < mib
