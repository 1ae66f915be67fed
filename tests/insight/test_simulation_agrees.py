"""A simulation places pods as the whole cluster does that it is a copy of."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from cathedra.api.struct import from_dict
from cathedra.client.resources import DEVICECLASSES, PODS, RESOURCECLAIMTEMPLATES
from cathedra.clock import run_virtual
from cathedra.insight import ClusterState, PlannedChanges, read_client, simulate
from tests.insight.building import device_class, pod, request, template
from tests.simulation.world import World, running

CLASS = device_class("gpu")
TEMPLATE = template("three", request("gpus", "gpu", 3))
PODS_WITH_NODES = [
    pod("template:three", name="a", nodeSelector={"kubernetes.io/hostname": "node-1"}),
    pod("template:three", name="b"),
    pod("template:three", name="c"),
]
"""The first has to go to the second node, the next has the other one left, and the last finds none."""


def plain(one: dict[str, Any]) -> dict[str, Any]:
    """Without the UID that builders give, as a manifest."""
    return {**one, "metadata": {key: value for key, value in one["metadata"].items() if key != "uid"}, "status": {}}


async def lived(world: World) -> tuple[ClusterState, dict[str, tuple[str, int]]]:
    """The cluster as it was, and where the pods went in it, with how many devices."""
    await world.of(DEVICECLASSES).create(from_dict(DeviceClass, CLASS))
    before = await read_client(world.client, source="the cluster")
    await world.of(RESOURCECLAIMTEMPLATES).create(from_dict(ResourceClaimTemplate, TEMPLATE))
    for one in PODS_WITH_NODES:
        await world.of(PODS).create(from_dict(Pod, plain(one)))
        await world.clock.sleep(30)
    after = await read_client(world.client, source="the cluster")
    return before, {one.metadata.name: (one.spec.node_name, _devices(one, after)) for one in after.pods}


def _devices(one: Pod, state: ClusterState) -> int:
    names = [status.resource_claim_name for status in one.status.resource_claim_statuses]
    claims = [state.get(ResourceClaim, name, "default") for name in names]
    return sum(
        len(claim.status.allocation.devices.results)
        for claim in claims
        if claim is not None and claim.status.allocation is not None
    )


def test_the_placements_are_those_of_the_cluster() -> None:
    async def main() -> tuple[ClusterState, dict[str, tuple[str, int]]]:
        async with running(3) as world:
            return await lived(world)

    before, placed = run_virtual(main())
    found = simulate(before, PlannedChanges(apply=[TEMPLATE, *map(plain, PODS_WITH_NODES)]), copies=0)
    simulated = {one.pod.partition("/")[2]: (one.node, sum(map(len, one.devices.values()))) for one in found.placed}
    simulated |= {name.partition("/")[2]: ("", 0) for group in found.pending for name in group.pods}
    assert simulated == placed
    assert placed == {"a": ("node-1", 3), "b": ("node-0", 3), "c": ("", 0)}
