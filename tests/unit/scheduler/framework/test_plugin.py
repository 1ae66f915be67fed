"""Batch filters return for all nodes what the plugins return for each (framework.plugin.FilterPlugin.filter_batch)."""

from __future__ import annotations

import asyncio
import inspect
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.struct import to_dict
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import PODS, RESOURCESLICES
from cathedra.client.transport import APICall
from cathedra.clock import LoopClock, run_virtual
from cathedra.releases import FeatureGates
from cathedra.scheduler.composition import device_plugin
from cathedra.scheduler.configuration.reading import ProfileConfiguration
from cathedra.scheduler.framework.events import EventResource
from cathedra.scheduler.framework.plugin import (
    CycleState,
    FilterPlugin,
    InformedPlugin,
    Plugin,
    PluginContext,
    PluginObserver,
    normalized,
    write_nomination,
)
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.metrics import SchedulerMetrics
from cathedra.scheduler.plugins.node_fitness import NodeUnschedulable, TaintToleration
from cathedra.scheduler.plugins.node_resources import NodeResourcesFit
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from tests.running import beside, run_with
from tests.unit.controllers.world import open_server
from tests.unit.inprocess import API, with_api
from tests.unit.passedon import PassedOn
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


@run_with(play)
async def test_every_node_gives_the_reason_of_the_first_filter_that_refuses_it(world: World) -> None:
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


def test_the_metrics_hear_all_that_is_told() -> None:
    told = {name for name in vars(PluginObserver) if not name.startswith("_")}
    assert {"evaluations", "ran", "waited_for_devices"} <= told
    for name in told:
        assert inspect.signature(getattr(SchedulerMetrics, name)) == inspect.signature(getattr(PluginObserver, name))


@run_with(play)
async def test_a_pod_woken_by_a_slice_sees_the_slices_devices_at_once(world: World) -> None:
    await world.create(node("n1"), device_class(), claim("c"))
    await world.create(pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]))
    await world.quiet()
    await world.create(slice_("n1"))
    await world.bound("p")
    await world.quiet()
    assert [reason for reason, _ in await world.events("p")] == ["FailedScheduling", "Scheduled"]


def test_what_a_plugin_hears_is_told_to_the_queue() -> None:
    async def main() -> EventResource:
        gates = FeatureGates.for_release()
        server = await open_server(gates)
        clock = LoopClock(asyncio.get_running_loop())
        client = Client(server.transport(), clock=clock)
        informers = SharedInformers(client, clock)
        recorder = EventRecorder(client, "default-scheduler", clock)
        context = PluginContext(client, informers, recorder, clock, random.Random(1), gates)
        follower: InformedPlugin = device_plugin(context, ProfileConfiguration())
        told: asyncio.Queue[EventResource] = asyncio.Queue()
        follower.listen(informers, lambda resource, *_: told.put_nowait(resource))
        async with beside(informers.run()):
            await client.resource(RESOURCESLICES).create(slice_("n1"))
            first = await told.get()
        await server.close()
        return first

    assert run_virtual(main()) is EventResource.RESOURCE_SLICE


def test_the_largest_becomes_a_hundred_and_the_others_follow_rounded_down() -> None:
    assert normalized([3, 2, 0]) == [100, 66, 0]
    assert normalized([3, 2, 0], reverse=True) == [0, 34, 100]


def test_where_all_are_zero_none_is_worse() -> None:
    assert normalized([0, 0]) == [0, 0]
    assert normalized([0, 0], reverse=True) == [100, 100]
    assert normalized([]) == []


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_order_stays_and_turns_around_in_reverse(scores: list[int]) -> None:
    up, down = normalized(scores), normalized(scores, reverse=True)
    assert all(0 <= score <= 100 for score in (*up, *down))
    for one, other in zip(range(len(scores)), range(1, len(scores)), strict=False):
        if scores[one] <= scores[other]:
            assert up[one] <= up[other]
            assert down[one] >= down[other]


class Patches(PassedOn):
    """Remembers the changes of pods' status."""

    def __init__(self, inner: Any, seen: list[Any]) -> None:
        self._inner, self._seen = inner, seen

    async def call(self, call: APICall) -> Any:
        if call.verb == "patch" and call.ref.resource == "pods":
            self._seen.append((call.name, call.body["status"]))
        return await self._inner.call(call)


def nominations(release: str) -> list[Any]:
    """Return the writes to the status of three pods: one waits for its device, one has another claim."""
    seen: list[Any] = []
    slow = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}

    async def body(world: World) -> None:
        await world.create(device_class(), device_class("slow", driver="slow.example.com"), node("n1"))
        await world.create(slice_("n1", 1), slice_("n1", 1, driver="slow.example.com", **slow))
        await world.create(claim("c"), claim("s", exactly(class_name="slow")))
        for name in ("c", "s"):
            await world.create(pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]))
        await world.create(pod("without"))
        await world.bound("c", "without")

    gates = {"DRADeviceBindingConditions": True, "DRAResourceClaimDeviceStatus": True}
    play(body, release=release, gates=gates, transport=lambda inner: Patches(inner, seen))
    return seen


@pytest.mark.parametrize("release", ["1.35", "1.36", "1.37"])
def test_a_pod_says_to_which_node_it_goes_while_its_devices_are_made_ready(release: str) -> None:
    assert nominations(release) == [("s", {"nominatedNodeName": "n1"})]


def test_up_to_1_34_only_preemption_nominates() -> None:
    assert nominations("1.34") == []


@run_with(with_api)
async def test_a_nomination_is_written_and_taken_back(api: API) -> None:
    pods = api.client.resource(PODS, "default")
    made = await pods.create(pod("p"))
    await write_nomination(api.client, made, "n1")
    assert (await pods.get("p")).status.nominated_node_name == "n1"
    await write_nomination(api.client, made, "")
    assert "nominatedNodeName" not in to_dict((await pods.get("p")).status)


def test_a_nomination_of_a_pod_that_is_gone_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def body(api: API) -> None:
        await write_nomination(api.client, pod("gone"), "n1")

    with_api(body)
    assert "default/gone: nomination not written" in caplog.text
