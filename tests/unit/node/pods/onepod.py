"""One pod, the parts that work for it, and the node around them, in virtual time."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cathedra.api.core.core_v1 import ObjectReference, Pod
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.objects import reference_to
from cathedra.client.resources import PODS
from cathedra.clock import run_virtual
from cathedra.node.claims.checkpoint import MemoryCheckpoint
from cathedra.node.claims.manager import ClaimManager
from cathedra.node.concurrency import Wakeup
from cathedra.node.config import NodeConfig
from cathedra.node.containers.records import ContainerTable
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.health import HealthCache
from cathedra.node.plugins.registry import PluginInstance, PluginRegistry
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.lifecycle import PodLifecycle
from cathedra.node.pods.podobject import PodObject
from cathedra.node.pods.preparation import PodPreparation
from cathedra.node.pods.resizer import Neighbours, PodResizer, ResourceGrants
from cathedra.node.resources import NodeFacts
from cathedra.node.runtime.simulated import SimulatedRuntime
from tests.unit.node.fakes import DRIVER, GATES, NODE, FakeDriver, NodeTransport, make_pod


class Told(EventRecorder):
    """Records events: type, reason, message, and the part of the pod."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, "kubelet", client.clock, host=NODE)
        self.told: list[tuple[str, str, str, str]] = []

    def record(self, involved: Any, type_: Any, reason: str, message: str, **_: Any) -> None:
        about = involved if isinstance(involved, ObjectReference) else reference_to(involved, "")
        self.told.append((type_, reason, message, about.field_path))

    def messages(self, reason: str) -> list[str]:
        return [message for _, why, message, _ in self.told if why == reason]


class OnePod:
    """The pod is not yet at the API server (see `create`)."""

    def __init__(self, pod: Pod | None = None, root: Path | None = None, **settings: Any) -> None:
        self.server = NodeTransport()
        self.clock = self.server.clock()
        self.client = Client(self.server, clock=self.clock)
        self.driver = FakeDriver()
        self.runtime = SimulatedRuntime(self.clock)
        self.events = Told(self.client)
        registry, metrics = PluginRegistry(), NodeMetrics(self.clock)
        registry.add(PluginInstance(DRIVER, "in-process", self.driver, connected=True))
        self.context = PodContext(
            client=self.client,
            config=NodeConfig(name=NODE, root=root, **settings),
            clock=self.clock,
            random=random.Random(1),
            gates=GATES,
            runtime=self.runtime,
            claims=ClaimManager(
                self.client, registry, MemoryCheckpoint(), clock=self.clock, gates=GATES, metrics=metrics
            ),
            recorder=self.events,
            health=HealthCache(self.clock, GATES),
            facts=NodeFacts("127.0.0.1", {}, GATES),
            metrics=metrics,
        )
        self.wakeup = Wakeup()
        self.object = PodObject(pod or make_pod(), self.wakeup.notify)
        self.life = PodLifecycle()
        self.restarted: list[str] = []
        self.freed: list[float] = []

    def preparation(self) -> PodPreparation:
        return PodPreparation(self.object, self.life, self.context, self.wakeup)

    def resizer(self, table: ContainerTable, grants: ResourceGrants | None = None, *others: Pod) -> PodResizer:
        """``restarted`` and ``freed`` are the calls that it makes."""

        async def restart(name: str) -> None:
            self.restarted.append(name)

        return PodResizer(
            self.object,
            grants or ResourceGrants(self.object.pod),
            table,
            self.context,
            neighbours=Neighbours(lambda: others, lambda: self.freed.append(self.clock.now())),
            restart=restart,
        )

    async def create(self) -> None:
        """Enter the pod at the API server."""
        self.object.note_written(await self.client.resource(PODS, "default").create(self.object.pod))

    def stored(self) -> Pod:
        """The pod as the API server has it."""
        metadata = self.object.pod.metadata
        found = self.server.objects["pods", metadata.namespace, metadata.name]
        assert isinstance(found, Pod)
        return found

    def requests(self, verb: str) -> int:
        """Return the number of such requests for pods."""
        return sum(request[:2] == (verb, "pods") for request in self.server.requests)


def play(body: Callable[[OnePod], Awaitable[None]], *args: Any, **more: Any) -> None:
    """Run ``body`` in virtual time."""

    async def main() -> None:
        await body(OnePod(*args, **more))

    run_virtual(main())
