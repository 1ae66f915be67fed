"""Any Kubernetes cluster, over the wire, as a player's cluster: for comparing a real control plane with the vectors.

Time is the wall clock's, and nothing is known of the server but its API: whether something has changed is found out by
listing, and what the scheduler holds in its queues is not known. The cluster must have API server, scheduler and
controllers, and no nodes: the player does the kubelet's part, so a cluster that runs anything is refused.

Between two scenarios everything that the first left is removed; what was there before them stays.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from cathedra.api.struct import Time
from cathedra.client.http import tls_context
from cathedra.client.kubeconfig import Target
from tests.conformance.scenario_player import Cluster, Player
from tests.conformance.scenario_snapshot import RESOURCES, Resource

__all__ = ["ClusterInUse", "LiveCluster", "NotRemoved", "Stage", "column_of", "connected", "kinds_of", "play_live"]

Json = dict[str, Any]

_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_LONGEST_REMOVAL_SECONDS: Final = 90.0
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_MUST_BE_ABSENT: Final = ("Node", "ResourceSlice", "DeviceTaintRule", "ResourcePoolStatusRequest")
_ALPHA_VERSION: Final = "resource.k8s.io/v1alpha3"
"""Served only where the vectors' alpha gates are meant to be on."""


class ClusterInUse(Exception):
    """The cluster holds objects that would take part in scenarios; nothing has been changed."""

    def __init__(self, kind: str, names: Iterable[str]) -> None:
        self.kind, self.names = kind, tuple(names)
        super().__init__(
            f"the cluster has objects of kind {kind} ({', '.join(self.names[:3])}); scenarios need a control plane "
            "without nodes and devices, for example: cathedra up --nodes 0"
        )


class NotRemoved(Exception):
    """Objects of a scenario could not be removed, so the next one cannot begin."""

    def __init__(self, left: Iterable[str]) -> None:
        self.left = tuple(left)
        super().__init__(f"still there {_LONGEST_REMOVAL_SECONDS:.0f} seconds after their deletion: {self.left}")


class LiveCluster:
    """A server that is reached by HTTP, as a player's cluster."""

    step = 0.2

    def __init__(self, session: aiohttp.ClientSession, target: Target) -> None:
        self._session = session
        self._server = target.server
        self._tls_name = target.tls_server_name or None

    async def request(self, method: str, path: str, body: Any = None, content_type: str = _JSON) -> tuple[int, Any]:
        """Status code and value of the answer.

        Raises:
            aiohttp.ClientError: the server cannot be reached.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": content_type}
        async with self._session.request(
            method, self._server + path, data=data, headers=headers, server_hostname=self._tls_name
        ) as response:
            answer = await response.read()
        try:
            return response.status, json.loads(answer)
        except ValueError:
            return response.status, answer.decode("utf-8", "replace")

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def now(self) -> str:
        """The time of this machine's clock."""
        return self.later(0)

    def later(self, seconds: int) -> str:
        """The time ``seconds`` from now."""
        return str(Time(int(time.time()) + seconds))

    def state(self) -> object:
        """A new object each time: only a list shows if something has changed."""
        return object()

    def is_scheduling(self) -> bool:
        """Not known over the API."""
        return False


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[LiveCluster]:
    """A cluster as long as the block lasts; nothing is sent before the first request."""
    secure = target.server.startswith("https:")
    headers = {"Authorization": f"Bearer {target.token}"} if secure and target.token else {}
    connector = aiohttp.TCPConnector(ssl=tls_context(target) if secure else True)
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
        yield LiveCluster(session, target)


class Stage:
    """A cluster made ready for one scenario after another.

    Objects that were there when the stage was opened are left alone.
    """

    def __init__(self, cluster: Cluster, served: dict[str, Resource], before: set[tuple[str, str]]) -> None:
        self._cluster = cluster
        self._served = served
        self._before = before
        self._random = random.Random()

    @classmethod
    async def open(cls, cluster: Cluster) -> Stage:
        """Look what the cluster serves and holds.

        Raises:
            ClusterInUse: it has nodes or devices.
        """
        served: dict[str, Resource] = {}
        before: set[tuple[str, str]] = set()
        for kind, resource in RESOURCES.items():
            code, value = await cluster.request("GET", resource.path())
            if code != 200:
                continue
            served[kind] = resource
            names = [item["metadata"]["name"] for item in value["items"] or ()]
            if kind in _MUST_BE_ABSENT and names:
                raise ClusterInUse(kind, names)
            if not resource.namespaced:
                before.update((kind, name) for name in names)
        return cls(cluster, served, before)

    @property
    def served(self) -> frozenset[str]:
        """The kinds that the cluster serves."""
        return frozenset(self._served)

    async def enter(self) -> str:
        """A fresh namespace with its service account; its name."""
        name = "scenario-" + "".join(self._random.choices(_LETTERS, k=5))
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        code, value = await self._cluster.request("POST", RESOURCES["Namespace"].path(), body)
        if code >= 300:
            raise ConnectionError(f"namespace {name} could not be made: {code} {value}")
        account = RESOURCES["ServiceAccount"].path(name, "default")
        while (await self._cluster.request("GET", account))[0] != 200:
            await self._cluster.sleep(self._cluster.step)
        return name

    async def clear(self) -> None:
        """Remove what came after the stage was opened.

        Raises:
            NotRemoved: something does not go.
        """
        waited = 0.0
        while left := await self._left():
            if waited >= _LONGEST_REMOVAL_SECONDS:
                raise NotRemoved(f"{kind} {obj['metadata']['name']}" for kind, obj in left)
            for kind, obj in left:
                await self._remove(kind, obj)
            await self._cluster.sleep(self._cluster.step)
            waited += self._cluster.step

    async def _left(self) -> list[tuple[str, Json]]:
        """Return the objects to remove: namespaces first, since nothing can be created in one that is being deleted."""
        found: list[tuple[str, Json]] = []
        for kind in (kind for kind, resource in self._served.items() if not resource.namespaced):
            objects = await self._list(self._served[kind])
            found += [(kind, obj) for obj in objects if (kind, obj["metadata"]["name"]) not in self._before]
        for kind in (kind for kind, resource in self._served.items() if resource.namespaced):
            for namespace in [obj["metadata"]["name"] for what, obj in found if what == "Namespace"]:
                found += [(kind, obj) for obj in await self._list(self._served[kind], namespace)]
        events = await self._list(RESOURCES["Event"], "default")
        return found + [("Event", event) for event in events if not event["involvedObject"].get("namespace")]

    async def _list(self, resource: Resource, namespace: str = "") -> list[Json]:
        code, value = await self._cluster.request("GET", resource.path(namespace))
        return list(value["items"] or ()) if code == 200 else []

    async def _remove(self, kind: str, obj: Json) -> None:
        metadata = obj["metadata"]
        path = RESOURCES[kind].path(metadata.get("namespace", ""), metadata["name"])
        if metadata.get("finalizers"):
            await self._cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, _MERGE)
        if "deletionTimestamp" not in metadata or kind == "Pod":
            options = {"gracePeriodSeconds": 0} if kind == "Pod" else None
            await self._cluster.request("DELETE", path, options)


async def column_of(cluster: Cluster) -> str:
    """Return the set of gates of the scenarios that suit the cluster, by the served APIs: ``all`` or ``default``."""
    code, _ = await cluster.request("GET", f"/apis/{_ALPHA_VERSION}")
    return "all" if code == 200 else "default"


def kinds_of(scenario: Json) -> set[str]:
    """The kinds that a scenario makes."""
    return {step["object"]["kind"] for step in scenario["steps"] if "object" in step} & set(RESOURCES)


async def play_live(stage: Stage, cluster: Cluster, scenario: Json) -> str:
    """The first difference of a scenario, or ""; the cluster is as before afterwards.

    Raises:
        NotRemoved: what the scenario left does not go.
        aiohttp.ClientError: the server cannot be reached.
    """
    await stage.clear()
    namespace = await stage.enter()
    try:
        return await Player(cluster, namespace).play(scenario["steps"])
    finally:
        await stage.clear()
