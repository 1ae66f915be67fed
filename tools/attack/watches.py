"""Watches over HTTP whose events are never read."""

from __future__ import annotations

import asyncio
from typing import Final

from tools.attack.measuring import Attack, Scene
from tools.attack.target import MEMBER, NAMESPACE

__all__ = ["ATTACKS"]

MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


async def unread(scene: Scene) -> None:
    """Watches that are not read, and large writes. The writes change one object, so that the store does not grow."""
    user = scene.cluster.member
    await user.create(MAPS, {"metadata": {"name": "watched"}})
    scene.begin()
    for _ in range(300):
        connection = scene.hold(await user.connect())
        connection.request("GET", f"{MAPS}?watch=1")
        await connection.head()
        connection.stop_reading()
    writing = scene.hold(await user.connect())
    for number in range(100):
        body = {"metadata": {"name": "watched"}, "data": {"key": str(number % 10) * 500_000}}
        await writing.send("PUT", f"{MAPS}/watched", body)
    await asyncio.sleep(2)


ATTACKS: Final = (
    Attack("unread-watches", "unread watches over HTTP, and writes of 0.5 MB", "300 × 100 writes", MEMBER, unread),
)
