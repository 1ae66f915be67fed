"""Concurrent clients over TLS that write down each request with its times, and watches with their events."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from typing import Any, Final

from tools.attack.client import Connection, User
from tools.linearizability.model import Answer, Event, KubernetesOperation, Request

__all__ = ["Clients"]

PATH: Final = "/api/v1/namespaces/default/configmaps"
LABEL: Final = "linearizability"
SELECTED: Final = f"labelSelector={LABEL}%3Dyes"
KEYS: Final = tuple(f"k{number}" for number in range(4))
REQUEST_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.02
LOST: Final = frozenset({429, 500, 502, 503, 504})
"""Statuses after which a write may have been carried out."""
VERBS: Final = ("get", "list", "create", "create", "update", "update", "patch", "delete")


@dataclass
class Watched:
    """The events of one watch, from a version on."""

    start: int
    events: list[Event] = field(default_factory=list)


class Clients:
    """All clients, and the history that they write."""

    def __init__(self, seed: int) -> None:
        self.history: list[KubernetesOperation] = []
        self.watches: list[Watched] = []
        self._random = random.Random(seed)
        self._count = 0
        self._versions: dict[str, int] = {}

    async def work(self, user: User) -> None:
        """Send one request after another, until cancelled."""
        connection: Connection | None = None
        while True:
            try:
                connection = connection or await user.connect()
                if not await self._operate(connection):
                    connection.abort()
                    connection = None
            except OSError:
                connection = None
                await asyncio.sleep(PAUSE_SECONDS)

    async def follow(self, user: User) -> None:
        """Watch from the present on, again and again, until cancelled."""
        while True:
            try:
                connection = await user.connect()
                try:
                    await self._watch(connection)
                finally:
                    connection.abort()
            except (OSError, EOFError, ValueError, KeyError):
                await asyncio.sleep(PAUSE_SECONDS)

    async def _operate(self, connection: Connection) -> bool:
        """Send one request. Return False if the connection is of no more use."""
        verb, key = self._random.choice(VERBS), self._random.choice(KEYS)
        self._count += 1
        request = Request(verb, f"v{self._count}" if verb in ("create", "update", "patch") else "")
        if verb == "update" or (verb == "delete" and self._random.random() < 0.5):
            request = Request(verb, request.value, self._versions.get(key, 1))
        called = time.monotonic()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await connection.send(*_sent(request, key))
        except (OSError, EOFError, TimeoutError, ValueError):
            self._lost(request, key, called)
            return False
        except asyncio.CancelledError:
            self._lost(request, key, called)
            raise
        if answer.status in LOST:
            self._lost(request, key, called)
            return True
        self._note(request, key, (called, time.monotonic()), answer.status, answer.json())
        return True

    def _lost(self, request: Request, key: str, called: float) -> None:
        if request.verb not in ("get", "list"):
            self.history.append(KubernetesOperation(key, request, called))

    def _note(self, request: Request, key: str, times: tuple[float, float], status: int, body: Any) -> None:
        if request.verb == "list":
            found = {item["metadata"]["name"]: item for item in body["items"]}
            listed = int(body["metadata"]["resourceVersion"])
            for name in KEYS:
                item = found.get(name)
                value, version = (item["data"]["value"], _version(item)) if item else (None, 0)
                answer = Answer(status, value, version, listed)
                self.history.append(KubernetesOperation(name, request, *times, answer))
            return
        written = status < 300 and request.verb != "delete"
        value, version = (body["data"]["value"], _version(body)) if written else (None, 0)
        if written:
            self._versions[key] = version
        self.history.append(KubernetesOperation(key, request, *times, Answer(status, value, version)))

    async def _watch(self, connection: Connection) -> None:
        listed = (await connection.send("GET", f"{PATH}?{SELECTED}")).json()
        watched = Watched(int(listed["metadata"]["resourceVersion"]))
        self.watches.append(watched)
        connection.request("GET", f"{PATH}?watch=true&{SELECTED}&resourceVersion={watched.start}")
        await connection.head()
        rest = b""
        while size := int(await connection.reader.readline(), 16):
            rest += await connection.reader.readexactly(size)
            await connection.reader.readexactly(2)
            *lines, rest = rest.split(b"\n")
            for line in lines:
                event = json.loads(line)
                item = event["object"]
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    found = Event(event["type"], item["metadata"]["name"], item["data"]["value"], _version(item))
                    watched.events.append(found)


def _version(item: Any) -> int:
    return int(item["metadata"]["resourceVersion"])


def _sent(request: Request, key: str) -> tuple[str, str, Any, str]:
    """Method, path, body and content type of a request."""
    path, plain = f"{PATH}/{key}", "application/json"
    metadata: dict[str, Any] = {"name": key, "labels": {LABEL: "yes"}}
    if request.verb == "get":
        return "GET", path, None, plain
    if request.verb == "list":
        return "GET", f"{PATH}?{SELECTED}", None, plain
    if request.verb == "create":
        return "POST", PATH, {"metadata": metadata, "data": {"value": request.value}}, plain
    if request.verb == "patch":
        return "PATCH", path, {"data": {"value": request.value}}, "application/merge-patch+json"
    if request.verb == "update":
        metadata["resourceVersion"] = str(request.version)
        return "PUT", path, {"metadata": metadata, "data": {"value": request.value}}, plain
    options = {"preconditions": {"resourceVersion": str(request.version)}} if request.version else {}
    return "DELETE", path, options, plain
