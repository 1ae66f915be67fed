"""The edge that node tests stand on: an API server in a dict that knows what a node relies on, and a driver object."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cathedra.api.core.authentication_v1 import TokenReview, TokenReviewStatus, UserInfo
from cathedra.api.core.authorization_v1 import SubjectAccessReview, SubjectAccessReviewStatus
from cathedra.api.core.core_v1 import (
    Container,
    Event,
    ObjectReference,
    Pod,
    PodResourceClaim,
    PodSpec,
    ResourceRequirements,
)
from cathedra.api.core.core_v1 import (
    ResourceClaim as ContainerClaim,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from cathedra.api.struct import Time, replace
from cathedra.client.client import Client
from cathedra.client.resources import PODS, RESOURCECLAIMS
from cathedra.client.transport import APICall, EventType
from cathedra.node.agent import NodeAgent, NodeDependencies
from cathedra.node.config import NodeConfig
from cathedra.node.plugins.client import ClaimReference, PluginCallError, PluginDevice, PrepareOutcome
from cathedra.node.runtime.simulated import SimulatedRuntime
from cathedra.releases import FeatureGates
from tests.unit.client.fake_transport import FakeTransport

GATES = FeatureGates.for_release("1.37")
NODE = "n1"
DRIVER = "gpu.example.com"


class NodeTransport(FakeTransport):
    """Grace periods of pods, status sub-resources, field selectors on the node's name, and reviews.

    ``tokens`` are bearer tokens with their users, ``grants`` what users may do: (user, verb, sub-resource of nodes).
    """

    def __init__(self) -> None:
        super().__init__()
        self.tokens: dict[str, str] = {}
        self.grants: set[tuple[str, str, str]] = set()

    async def create(self, call: APICall) -> Any:
        ref, obj = call.ref, call.body
        if isinstance(obj, TokenReview):
            await self._enter("create", ref.resource, obj.spec.token)
            user = self.tokens.get(obj.spec.token)
            status = TokenReviewStatus(authenticated=user is not None, user=UserInfo(username=user or ""))
            return replace(obj, status=status)
        if isinstance(obj, SubjectAccessReview):
            wanted = obj.spec.resource_attributes
            assert wanted is not None
            assert (wanted.group, wanted.resource, wanted.name) == ("", "nodes", NODE)
            await self._enter("create", ref.resource, wanted.subresource)
            allowed = (obj.spec.user, wanted.verb, wanted.subresource) in self.grants
            return replace(obj, status=SubjectAccessReviewStatus(allowed=allowed))
        return await super().create(call)

    async def update(self, call: APICall) -> Any:
        obj = call.body
        old = self.objects.get((call.ref.resource, call.namespace, call.name))
        if call.subresource == "status" and old is not None:
            status = obj.status
            metadata = replace(old.metadata, resource_version=_version(obj))
            call = msgspec.structs.replace(call, body=replace(old, status=status, metadata=metadata))
        return await super().update(call)

    async def delete(self, call: APICall) -> Any:
        ref, options = call.ref, call.body
        old = self.objects.get((ref.resource, call.namespace, call.name))
        grace = options.grace_period_seconds
        if isinstance(old, Pod) and grace != 0 and old.status.phase not in {"", "Succeeded", "Failed"}:
            grace = grace if grace is not None else old.spec.termination_grace_period_seconds or 30
            self.requests.append(("delete", ref.resource, call.name))
            metadata = replace(
                old.metadata,
                deletion_timestamp=Time(self.clock().now() + grace),
                deletion_grace_period_seconds=grace,
            )
            return await self._record(ref, EventType.MODIFIED, replace(old, metadata=metadata))
        return await super().delete(call)

    async def deletecollection(self, call: APICall) -> None:
        self.requests.append(("deletecollection", call.ref.resource, call.selection.field_selector))

    def events(self, reason: str) -> list[Event]:
        """Events with that reason."""
        return [obj for obj in self.objects.values() if isinstance(obj, Event) and obj.reason == reason]


def _version(obj: Any) -> str:
    return obj.metadata.resource_version


class FakeDriver:
    """A driver that prepares one device for each claim; its calls are in ``calls``."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.failures: list[str] = []
        self.seconds = 0.0

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        self.calls.append(("prepare", tuple(claim.name for claim in claims)))
        await asyncio.sleep(self.seconds)
        if self.failures:
            raise PluginCallError("Unavailable", self.failures.pop(0))
        return {c.uid: PrepareOutcome((self.device(c),)) for c in claims}

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        self.calls.append(("unprepare", tuple(claim.name for claim in claims)))
        await asyncio.sleep(self.seconds)
        if self.failures:
            raise PluginCallError("Unavailable", self.failures.pop(0))
        return {claim.uid: "" for claim in claims}

    @staticmethod
    def device(claim: ClaimReference) -> PluginDevice:
        return PluginDevice(
            pool=NODE, device="gpu-0", request_names=("gpu",), cdi_device_ids=(f"{DRIVER}/gpu={claim.uid}",)
        )


def make_pod(name: str = "p", *containers: Container, claims: Sequence[str] = (), **spec: Any) -> Pod:
    """A pod bound to the node; its containers refer to all of its claims."""
    resources = ResourceRequirements(claims=tuple(ContainerClaim(name=claim) for claim in claims))
    chosen = containers or (Container(name="c", image="busybox", command=("sleep", "1")),)
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"),
        spec=PodSpec(
            node_name=NODE,
            containers=tuple(replace(c, resources=resources) if claims else c for c in chosen),
            resource_claims=tuple(PodResourceClaim(name=claim, resource_claim_name=claim) for claim in claims),
            restart_policy=spec.pop("restart_policy", "Never"),
            **spec,
        ),
    )


def make_claim(name: str, *pods: str, driver: str = DRIVER) -> ResourceClaim:
    """A claim allocated by ``driver`` and reserved for pods."""
    result = DeviceRequestAllocationResult(request="gpu", driver=driver, pool=NODE, device="gpu-0")
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"),
        status=ResourceClaimStatus(
            allocation=AllocationResult(devices=DeviceAllocationResult(results=(result,))),
            reserved_for=tuple(
                ResourceClaimConsumerReference(resource="pods", name=pod, uid=f"uid-{pod}") for pod in pods
            ),
        ),
    )


class Setting:
    """A simulated node with one driver, in virtual time."""

    def __init__(self, server: NodeTransport | None = None) -> None:
        self.server = server or NodeTransport()
        self.clock = self.server.clock()
        self.client = Client(self.server, clock=self.clock)
        self.driver = FakeDriver()
        self.runtime = SimulatedRuntime(self.clock)
        self.config = NodeConfig(name=NODE, root=None)
        self.agent = self.make_agent()
        self.task: asyncio.Task[None] | None = None

    def make_agent(self, **parts: Any) -> NodeAgent:
        return NodeAgent(
            self.client,
            self.config,
            clock=self.clock,
            random=random.Random(1),
            gates=GATES,
            dependencies=NodeDependencies(**{"runtime": self.runtime, "plugins": {DRIVER: self.driver}, **parts}),
        )

    async def __aenter__(self) -> Setting:
        self.task = asyncio.ensure_future(self.agent.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End the agent."""
        if self.task is not None:
            self.task.cancel()
            result = (await asyncio.gather(self.task, return_exceptions=True))[0]
            if isinstance(result, Exception):
                raise result
            self.task = None

    async def create(self, *objects: Pod | ResourceClaim) -> None:
        """Create claims and pods."""
        for obj in objects:
            if isinstance(obj, Pod):
                await self.client.resource(PODS, "default").create(obj)
            else:
                await self.client.resource(RESOURCECLAIMS, "default").create(obj)

    def pod(self, name: str = "p") -> Pod:
        """A pod as the API server has it."""
        found = self.server.objects["pods", "default", name]
        assert isinstance(found, Pod)
        return found

    def has_pod(self, name: str = "p") -> bool:
        """Return True if the API server still has a pod."""
        return ("pods", "default", name) in self.server.objects

    def events_of(self, reason: str) -> list[str]:
        """Messages of all events with that reason."""
        return [event.message for event in self.server.events(reason)]


__all__ = [
    "DRIVER",
    "GATES",
    "NODE",
    "FakeDriver",
    "NodeTransport",
    "ObjectReference",
    "Setting",
    "make_claim",
    "make_pod",
]
