"""A classic driver for cats, in one process: its controller allocates, its node plugin tells containers which cat.

python examples/classic/cats_driver.py KUBECONFIG KUBELET_DIRECTORY
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.struct import KubeStruct
from cathedra.classic.controller import Allocation, ClaimAllocation, ClassicController, ClassicDriver
from cathedra.classic.nodes.plugin import NodeClaim, NodeDriver, serving
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.transport import ResourceRef
from cathedra.clock import SystemClock
from cathedra.driver.claim import Edits
from cathedra.driver.files import DiskFiles
from cathedra.driver.preparing.specs import ClaimSpecs

NAME = "resource-driver.example.com"
GROUP = "cats.resource.example.com"


class Cat(KubeStruct, frozen=True):
    """What a user wants of a cat."""

    color: str = ""
    size: str = ""


class ClaimParameters(KubeObject, frozen=True, rename={"api_version": "apiVersion"}):
    """The driver's own kind."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Cat = Cat()


PARAMETERS = ResourceRef(GROUP, "v1", "claimparameters", "ClaimParameters", True, ClaimParameters)


class Cats(ClassicDriver):
    """Every node has cats enough."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get_claim_parameters(
        self, claim: v1alpha2.ResourceClaim, resource_class: v1alpha2.ResourceClass, class_parameters: Any
    ) -> Cat:
        """The cat that the claim's parameters describe."""
        reference = claim.spec.parameters_ref
        if reference is None:
            return Cat()
        if (reference.api_group, reference.kind) != (GROUP, "ClaimParameters"):
            raise ValueError(f"parameters must be ClaimParameters of {GROUP}, not {reference.kind}")
        found = await self._client.resource(PARAMETERS, claim.metadata.namespace).get(reference.name)
        return found.spec

    async def allocate(self, claims: Sequence[ClaimAllocation], selected_node: str) -> None:
        """A cat of the wanted colour and size for each claim."""
        for wanted in claims:
            cat: Cat = wanted.claim_parameters
            data = json.dumps({"CAT_COLOR": cat.color, "CAT_SIZE": cat.size})
            handle = v1alpha2.ResourceHandle(driver_name=NAME, data=data)
            wanted.allocation = Allocation(resource_handles=(handle,))

    async def deallocate(self, claim: v1alpha2.ResourceClaim) -> None:
        """Cats go home on their own."""

    async def unsuitable_nodes(self, pod: Pod, claims: Sequence[ClaimAllocation], potential_nodes: list[str]) -> None:
        """All nodes do."""


class CatsOnNode(NodeDriver):
    """Tells a container of its cat in the environment."""

    def __init__(self, directory: Path) -> None:
        self._specs = ClaimSpecs(DiskFiles(), directory, NAME, "cat")

    async def prepare(self, claim: NodeClaim) -> Sequence[str]:
        """Write the claim's CDI document."""
        document = self._specs.document({claim.uid: Edits(env=json.loads(claim.handle))})
        assert document is not None, "a cat has a colour"
        self._specs.ensure(claim.uid, document)
        return [self._specs.device_id(claim.uid)]

    async def unprepare(self, claim: NodeClaim) -> None:
        """Remove it."""
        self._specs.remove(claim.uid)


async def main(configuration: Path, root: Path) -> None:
    """Run both parts until the process is ended."""
    async with await HTTPTransport.open(kubeconfig.load(configuration), user_agent=NAME) as transport:
        client = Client(transport, clock=SystemClock())
        node = CatsOnNode(root / "cdi")
        async with serving(NAME, node, plugin_dir=root / "plugins" / NAME, registry_dir=root / "plugins_registry"):
            await ClassicController(client, NAME, Cats(client), clock=SystemClock()).run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
