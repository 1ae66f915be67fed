"""Sessions in the binary protocol whose client sends much and reads nothing, or reads all."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Final

from cathedra.frames import write_frame
from cathedra.session.protocol import PROTOCOL, Attach, RequestMessage, RequestOptions
from tools.attack.client import Connection
from tools.attack.measuring import Attack, Scene
from tools.attack.target import MEMBER, NAMESPACE, STRANGER, Cluster

__all__ = ["ATTACKS", "AUDITED"]

MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
OBJECTS: Final = 2000
"""Objects of 1 kB that a list shows."""


def request(
    number: int, verb: str, options: RequestOptions | None = None, name: str = "", body: bytes = b""
) -> RequestMessage:
    """A request about config maps of the namespace."""
    return RequestMessage(
        number, 0, verb, "", "v1", "configmaps", NAMESPACE, name, "", 0, options or RequestOptions(), body
    )


def requests(verb: str, count: int) -> list[RequestMessage]:
    """Equal requests in one frame."""
    return [request(number, verb) for number in range(1, count + 1)]


async def filled(cluster: Cluster) -> None:
    """Make objects for lists and watches to show, unless they are there."""
    if (await cluster.member.send("GET", f"{MAPS}/m0")).status == 200:
        return
    bodies = [{"metadata": {"name": f"m{number}"}, "data": {"key": "x" * 1000}} for number in range(OBJECTS)]
    await cluster.member.create_many(MAPS, bodies)


async def discard(connection: Connection) -> None:
    """Read and forget what comes, until the connection ends."""
    while await connection.reader.read(1 << 20):
        pass


async def lists_read(scene: Scene) -> None:
    """A frame of lists, whose client reads the answers."""
    await filled(scene.cluster)
    scene.begin()
    connection = scene.hold(await scene.cluster.member.session(requests("list", 8000)))
    transport: Any = connection.writer.transport
    transport.resume_reading()
    async with asyncio.timeout(15):
        await discard(connection)


async def lists_unread(scene: Scene) -> None:
    """A frame of lists, whose client reads nothing."""
    await filled(scene.cluster)
    scene.begin()
    scene.hold(await scene.cluster.member.session(requests("list", 8000)))
    await asyncio.sleep(8)


async def watches_unread(scene: Scene) -> None:
    """A frame of watches, whose client reads nothing."""
    await filled(scene.cluster)
    scene.begin()
    scene.hold(await scene.cluster.member.session(requests("watch", 8000)))
    await asyncio.sleep(8)


async def own_selectors(scene: Scene) -> None:
    """Watches that each have a selector of their own, and writes that all of them are compared with."""
    await filled(scene.cluster)
    scene.begin()
    for first in range(7):
        many = [
            request(number, "watch", RequestOptions(label_selector=f"own=v{first}x{number}", resource_version="0"))
            for number in range(1, 8001)
        ]
        scene.hold(await scene.cluster.member.session(many))
    await asyncio.sleep(10)
    for number in range(20):
        body = {"metadata": {"labels": {"own": f"v0x{number}"}}}
        await scene.cluster.member.send("PATCH", f"{MAPS}/m{number}", body, "application/merge-patch+json")


async def agents(scene: Scene) -> None:
    """Users that are attached with long agents, in sessions that are closed soon."""
    frame = [bytes(write_frame([Attach(PROTOCOL, user, "", "a" * 5_200_000)])) for user in range(1, 11)]
    scene.begin()
    for _ in range(10):
        connection = scene.hold(await scene.cluster.stranger.session())
        for one in frame:
            connection.write(one)
            await connection.drain()
        await asyncio.sleep(0.2)
        connection.abort()


async def audited_agents(scene: Scene) -> None:
    """Requests of a user that is attached with a long agent, which the audit log names with each."""
    await filled(scene.cluster)
    scene.begin()
    connection = scene.hold(await scene.cluster.member.session())
    connection.write(write_frame([Attach(PROTOCOL, 0, "", "a" * 5_200_000)]))
    connection.write(write_frame([request(number, "get", name="m0") for number in range(1, 4001)]))
    await connection.drain()
    await asyncio.sleep(5)


async def large_bodies(scene: Scene) -> None:
    """Sessions with large bodies under way, that are closed soon."""
    body = json.dumps({"metadata": {"generateName": "large-"}, "data": {"key": "x" * 1_000_000}}).encode()
    frames = [
        bytes(write_frame([request(number, "create", RequestOptions(dry_run=True), body=body)]))
        for number in range(1, 31)
    ]
    scene.begin()
    for _ in range(10):
        connection = scene.hold(await scene.cluster.member.session())
        for frame in frames:
            connection.write(frame)
        with suppress(TimeoutError):  # the server stops reading from a client that reads nothing
            async with asyncio.timeout(2):
                await connection.drain()
        connection.abort()


ATTACKS: Final = (
    Attack(
        "session-lists", "lists of 2,000 objects in one frame of a session, read", "8,000 lists", MEMBER, lists_read
    ),
    Attack(
        "session-lists-unread",
        "lists of 2,000 objects in one frame of a session, not read",
        "8,000 lists",
        MEMBER,
        lists_unread,
    ),
    Attack(
        "session-watches",
        "watches of 2,000 objects in one frame of a session, not read",
        "8,000 watches",
        MEMBER,
        watches_unread,
    ),
    Attack(
        "own-selectors",
        "watches with selectors of their own in seven sessions, and writes",
        "56,000 watches",
        MEMBER,
        own_selectors,
    ),
    Attack(
        "session-agents", "`Attach` with long agents in sessions that are closed", "10 × 10 × 5 MB", STRANGER, agents
    ),
    Attack("session-bodies", "large bodies in sessions that are closed", "10 × 30 × 1 MB", MEMBER, large_bodies),
)

AUDITED: Final = (
    Attack(
        "audited-agents",
        "requests of a user with a long agent, with an audit log",
        "4,000, 5 MB",
        MEMBER,
        audited_agents,
    ),
)
"""On a cluster with an audit log."""
