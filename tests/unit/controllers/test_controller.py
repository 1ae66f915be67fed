"""The base of every controller."""

from __future__ import annotations

import random

import msgspec
from prometheus_client import CollectorRegistry

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.informer import SharedInformers
from cathedra.client.queuemetrics import QueueMetrics
from cathedra.client.resources import EVENTS
from cathedra.controllers.controller import ControllerContext
from cathedra.releases import FeatureGates
from tests.running import beside, run_with
from tests.unit.inprocess import API, with_api

GATES = FeatureGates.for_release("1.37", {"DRADeviceTaints": False})


def context(api: API) -> ControllerContext:
    return ControllerContext(
        client=api.client,
        informers=SharedInformers(api.client, api.clock),
        clock=api.clock,
        random=random.Random(1),
        gates=GATES,
    )


@run_with(with_api)
async def test_a_gate_that_the_release_does_not_know_is_off(api: API) -> None:
    given = context(api)
    assert given.enabled("DynamicResourceAllocation")
    assert not given.enabled("DRADeviceTaints")
    assert not given.enabled("NoSuchGate")


@run_with(with_api)
async def test_what_happens_in_a_queue_is_counted_under_the_controllers_name(api: API) -> None:
    registry = CollectorRegistry()
    given = msgspec.structs.replace(context(api), metrics=QueueMetrics(registry, api.clock), queue_name="job")
    queue = given.queue()
    queue.add("key")
    assert registry.get_sample_value("workqueue_adds_total", {"name": "job"}) == 1
    context(api).queue().add("key")
    assert registry.get_sample_value("workqueue_adds_total", {"name": "job"}) == 1


@run_with(with_api)
async def test_events_come_from_the_component_that_tells_them(api: API) -> None:
    recorder = context(api).recorder("job-controller")
    async with beside(recorder.run()):
        pod = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u"))
        recorder.record(pod, "Normal", "Because", "so it is")
        events = api.client.resource(EVENTS, "default")
        while not (found := (await events.list()).items):
            await api.clock.sleep(0.1)
        assert [event.source.component or event.reporting_controller for event in found] == ["job-controller"]
