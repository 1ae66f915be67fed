"""A namespace with a config map, a secret and an account, and pods with volumes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from cathedra.api.core.authentication_v1 import TokenRequestStatus
from cathedra.api.core.core_v1 import (
    ConfigMap,
    Container,
    Pod,
    PodSecurityContext,
    ProjectedVolumeSource,
    Secret,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import CONFIGMAPS, SECRETS
from cathedra.client.transport import APICall
from cathedra.clock import LoopClock, run_virtual
from cathedra.node.resources import NodeFacts
from cathedra.node.setup.directories import PodDirectories
from cathedra.node.setup.launch import container_environment
from cathedra.node.setup.references import References
from cathedra.node.setup.volumes import VolumeMaker
from tests.unit.node.fakes import GATES, NodeTransport, make_pod

FACTS = NodeFacts("10.0.0.7", {"cpu": Quantity("4"), "memory": Quantity("8Gi")}, GATES)


class Tokens(NodeTransport):
    """Issues tokens."""

    issued = 0

    async def create(self, call: APICall) -> Any:
        obj = call.body
        if call.subresource == "token":
            audience = ",".join(obj.spec.audiences)
            which = ", the second" if self.issued else ""
            self.issued += 1
            token = f"token of {call.name} for {audience or 'all'}{which}"
            return replace(obj, status=TokenRequestStatus(token=token))
        return await super().create(call)


def play(body: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        transport = Tokens()
        client = Client(transport, clock=transport.clock())
        await client.resource(CONFIGMAPS, "default").create(
            ConfigMap(metadata=ObjectMeta(name="cm"), data={"a": "1", "b": "2"}, binary_data={"raw": b"\x00\x01"})
        )
        await client.resource(SECRETS, "default").create(Secret(metadata=ObjectMeta(name="s"), data={"pw": b"x y"}))
        await body(client)

    run_virtual(main())


async def variables(client: Client, container: Container) -> dict[str, str]:
    return await container_environment(make_pod("p", container), container, References(client, "default"), FACTS)


def with_volumes(*volumes: Volume, **spec: Any) -> Pod:
    return make_pod("p", volumes=volumes, **spec)


async def make(client: Client, pod: Pod, root: Path) -> dict[str, Path]:
    made = await maker_for(client, pod, root).make()
    return {name: Path(path) for name, path in made.items()}


def maker_for(client: Client, pod: Pod, root: Path) -> VolumeMaker:
    return VolumeMaker(client, pod, PodDirectories(root, pod), FACTS, LoopClock(asyncio.get_running_loop()))


def token_volume(**security: Any) -> Pod:
    wanted = ServiceAccountTokenProjection(path="token", audience="vault")
    source = ProjectedVolumeSource(sources=(VolumeProjection(service_account_token=wanted),))
    context = PodSecurityContext(**security) if security else None
    return with_volumes(Volume(name="t", projected=source), service_account_name="robot", security_context=context)
