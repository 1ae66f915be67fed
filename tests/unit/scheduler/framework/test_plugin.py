"""What filters know of all nodes at once must be what they say of each (framework.plugin.FilterPlugin.filter_batch)."""

from __future__ import annotations

import random

import pytest

from cathedra.scheduler.framework.plugin import CycleState, FilterPlugin, Plugin
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.plugins.node_fitness import NodeUnschedulable, TaintToleration
from cathedra.scheduler.plugins.node_resources import NodeResourcesFit
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.world import World, play

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize("plugin", [NodeUnschedulable(), TaintToleration(), NodeResourcesFit(lambda _: False)])
@pytest.mark.parametrize("seed", range(10))
def test_the_batch_says_what_the_filter_says(plugin: Plugin, seed: int) -> None:
    assert isinstance(plugin, FilterPlugin)
    dice = random.Random(seed)
    cache = Cache()
    for index in range(20):
        taints = [TAINT] if dice.random() < 0.3 else []
        cache.set_node(
            node(f"n{index}", unschedulable=dice.random() < 0.3, taints=taints, pods=str(dice.randint(0, 2)))
        )
    for index in range(15):
        cache.add_pod(pod(f"old{index}", nodeName=f"n{dice.randrange(20)}"))
    tolerations = [{"operator": "Exists"}] if dice.random() < 0.3 else []
    requests = {"cpu": "1"} if dice.random() < 0.3 else {}
    info = PodInfo(pod("new", tolerations=tolerations, requests=requests))
    state = CycleState(cache.snapshot())
    batch = plugin.filter_batch(state, info, state.snapshot.nodes)
    for one in state.snapshot.nodes:
        said: Status | None = plugin.filter(state, info, one)
        if one in batch.passing:
            assert said is None
        elif one in batch.refused:
            assert said == batch.refused[one]


def test_every_node_gives_the_reason_of_the_first_filter_that_refuses_it() -> None:
    async def body(world: World) -> None:
        await world.create(device_class())
        for kind, more in (
            ("cordoned", {"unschedulable": True}),
            ("tainted", {"taints": [TAINT]}),
            ("full", {"pods": "0"}),
            ("bare", {}),
            ("small", {}),
        ):
            for index in range(2):
                await world.create(node(f"{kind}-{index}", **more))
        for name in ("cordoned-0", "tainted-0", "full-0", "small-0", "small-1"):
            await world.create(slice_(name, 2 if name != "small-1" else 1))
        await world.create(claim("held", exactly()), claim("c", exactly(count=3)))
        entries = [{"name": "gpus", "resourceClaimName": "c"}]
        await world.create(pod("p", resourceClaims=entries))
        await world.quiet()
        assert await world.condition("p") == (
            "Unschedulable",
            "0/10 nodes are available: 2 Too many pods, 2 node(s) had untolerated taint(s), "
            "2 node(s) were unschedulable, 4 cannot allocate all claims. "
            "preemption: 0/10 nodes are available: 2 No preemption victims found for incoming pod, "
            "8 Preemption is not helpful for scheduling.",
        )
        await world.create(slice_("bare-1", 3))
        await world.quiet()
        assert await world.node_of("p") == "bare-1"

    play(body)
