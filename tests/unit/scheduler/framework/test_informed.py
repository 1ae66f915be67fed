"""Plugins that follow informers bring their state up to date before a pod is tried."""

from __future__ import annotations

import asyncio
import random

from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import RESOURCESLICES
from cathedra.clock import LoopClock, run_virtual
from cathedra.releases import FeatureGates
from cathedra.scheduler.composition import device_plugin
from cathedra.scheduler.configuration.reading import ProfileConfiguration
from cathedra.scheduler.framework.events import ClusterEvent, Resource
from cathedra.scheduler.framework.informed import InformedPlugin
from tests.unit.controllers.world import open_server
from tests.unit.scheduler.objects import claim, device_class, node, pod, slice_
from tests.unit.scheduler.world import World, play


def test_a_pod_woken_by_a_slice_sees_the_slices_devices_at_once() -> None:
    async def body(world: World) -> None:
        await world.create(node("n1"), device_class(), claim("c"))
        await world.create(pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]))
        await world.quiet()
        await world.create(slice_("n1"))
        await world.bound("p")
        await world.quiet()
        assert [reason for reason, _ in await world.events("p")] == ["FailedScheduling", "Scheduled"]

    play(body)


def test_what_a_plugin_hears_is_told_to_the_queue() -> None:
    async def main() -> Resource:
        gates = FeatureGates.for_release()
        server = await open_server(gates)
        clock = LoopClock(asyncio.get_running_loop())
        client = Client(server.transport(), clock=clock)
        informers = SharedInformers(client, clock)
        recorder = EventRecorder(client, "default-scheduler", clock)
        follower: InformedPlugin = device_plugin(
            client, informers, recorder, ProfileConfiguration(), clock=clock, random=random.Random(1), gates=gates
        )
        told: asyncio.Queue[ClusterEvent] = asyncio.Queue()
        follower.listen(informers, told.put_nowait)
        running = asyncio.ensure_future(informers.run())
        await client.resource(RESOURCESLICES).create(slice_("n1"))
        first = await told.get()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.close()
        return first.resource

    assert run_virtual(main()) is Resource.RESOURCE_SLICE
