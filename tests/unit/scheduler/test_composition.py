"""The default profile."""

from __future__ import annotations

import asyncio
import random

from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.clock import LoopClock, run_virtual
from cathedra.releases import FeatureGates
from cathedra.scheduler.composition import compose, device_plugin
from cathedra.scheduler.configuration.reading import ProfileConfiguration
from cathedra.scheduler.framework.plugin import CycleState, PluginContext
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.state.cache import Cache, Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.controllers.world import open_server
from tests.unit.scheduler.objects import node, pod


def composed() -> Profile:
    async def main() -> Profile:
        gates = FeatureGates.for_release()
        server = await open_server(gates)
        clock = LoopClock(asyncio.get_running_loop())
        client = Client(server.transport(), clock=clock)
        informers, recorder = SharedInformers(client, clock), EventRecorder(client, "mine", clock)
        configuration = ProfileConfiguration(name="mine")
        context = PluginContext(client, informers, recorder, clock, random.Random(1), gates)
        profile = compose(
            context,
            configuration,
            devices=device_plugin(context, configuration),
            nominations=Nominations(),
            has_place=lambda _: False,
        )
        await server.close()
        return profile

    return run_virtual(main())


def test_filters_are_asked_in_kube_schedulers_order() -> None:
    """A node that an earlier plugin refuses never reaches DynamicResources, so the order is part of the behaviour."""
    state = CycleState(Cache().snapshot())
    names = [plugin.name for plugin, *_ in composed().filters(state)]
    assert names[:5] == ["NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts"]
    assert names.index("NodeResourcesFit") < names.index("DynamicResources")


def test_a_cordoned_node_that_is_also_too_small_gives_the_first_reason() -> None:
    profile = composed()
    cache = Cache()
    cache.set_node(node("n", unschedulable=True, cpu="1"))
    info = PodInfo(pod("p", requests={"cpu": "2"}))
    state = CycleState(cache.snapshot())
    refusal = profile.filter(profile.filters(state), state, info, state.snapshot.nodes[0])
    assert refusal is not None
    assert (refusal.plugin, refusal.message) == ("NodeUnschedulable", "node(s) were unschedulable")
