"""Pods without a node, and old ones that have ended."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from cathedra.api.core.core_v1 import NodeSpec, Taint
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.api.struct import Time, replace
from cathedra.client.client import Client
from cathedra.client.objects import with_metadata
from cathedra.client.resources import NODES, PODS
from cathedra.client.transport import APICall
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.nodes.podgc import PodGarbageCollector
from cathedra.semantics.conditions import find_condition
from tests.running import run_with
from tests.unit.controllers.calls import CallRecorder
from tests.unit.controllers.nodes.objects import node, pod
from tests.unit.controllers.world import World, play

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@run_with(lambda test: play(PodGarbageCollector, test))
async def test_pods_of_a_deleted_node_are_failed_and_deleted_after_quarantine(world: World) -> None:
    await node(world, "n1")
    await pod(world, "p", "n1")
    await world.of(NODES).delete("n1")
    await world.clock.sleep(35)
    assert await world.names(PODS) == ["p"]
    await world.clock.sleep(30)
    assert await world.names(PODS) == []


@run_with(lambda test: play(PodGarbageCollector, test))
async def test_a_pod_of_a_deleted_node_says_why_it_ended(world: World) -> None:
    await node(world, "n1")
    orphan = await pod(world, "p", "n1")
    await world.of(PODS).update(with_metadata(orphan, finalizers=("a.b/c",)))
    await world.of(NODES).delete("n1")
    await world.clock.sleep(65)
    status = (await world.of(PODS).get("p")).status
    told = find_condition(status.conditions, "DisruptionTarget")
    assert told is not None
    assert (status.phase, told.status, told.reason) == ("Failed", "True", "DeletionByPodGC")
    assert told.message == "PodGC: node no longer exists"


@pytest.mark.parametrize(
    ("ready", "taint", "deleted", "stays"),
    [
        ("False", OUT_OF_SERVICE, True, False),
        ("Unknown", OUT_OF_SERVICE, True, False),
        ("True", OUT_OF_SERVICE, True, True),
        ("False", "node.kubernetes.io/unreachable", True, True),
        ("False", OUT_OF_SERVICE, False, True),
    ],
)
@run_with(lambda test: play(PodGarbageCollector, test))
async def test_pods_that_are_being_deleted_go_from_a_node_that_is_out_of_service(
    world: World, *, ready: str, taint: str, deleted: bool, stays: bool
) -> None:
    await node(world, "n1", ready)
    tainted = NodeSpec(taints=(Taint(key=taint, value="nodeshutdown", effect="NoExecute"),))
    await world.change(NODES, "n1", lambda n: replace(n, spec=tainted))
    await pod(world, "p", "n1")
    if deleted:
        await world.of(PODS).delete("p")
    await world.clock.sleep(30)
    assert bool(await world.names(PODS)) == stays


@run_with(lambda test: play(PodGarbageCollector, test))
async def test_a_pod_that_is_being_deleted_and_has_no_node_is_failed_and_deleted(world: World) -> None:
    unscheduled = await pod(world, "p")
    await world.of(PODS).update(with_metadata(unscheduled, finalizers=("a.b/c",)))
    await world.of(PODS).delete("p")
    await world.clock.sleep(30)
    assert (await world.of(PODS).get("p")).status.phase == "Failed"


@pytest.mark.parametrize(("finalizers", "stays"), [((), False), (("a.b/c",), True)])
@run_with(lambda test: play(PodGarbageCollector, test))
async def test_a_deletion_that_an_api_server_left_half_done_is_finished(
    world: World, *, finalizers: tuple[str, ...], stays: bool
) -> None:
    await node(world, "n1")
    made = await pod(world, "p", "n1")
    ended = with_metadata(
        made, deletion_timestamp=Time(world.clock.now()), deletion_grace_period_seconds=0, finalizers=finalizers
    )
    await world.store(PODS, ended)
    await world.clock.sleep(21)
    assert bool(await world.names(PODS)) == stays


@run_with(lambda test: play(lambda context: PodGarbageCollector(context, terminated_threshold=2), test))
async def test_ended_pods_above_the_threshold_go_oldest_first(world: World) -> None:
    for name in ("a", "b", "c"):
        await pod(world, name)
        await world.finish(name)
        await asyncio.sleep(2)
    await world.clock.sleep(30)
    assert await world.names(PODS) == ["b", "c"]


def test_what_fails_is_counted_and_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    collectors: list[PodGarbageCollector] = []

    def make(context: ControllerContext) -> PodGarbageCollector:
        refusing = RefusesFirstPatch(context.client.transport)
        client = Client(refusing, clock=context.clock)
        collectors.append(PodGarbageCollector(msgspec.structs.replace(context, client=client)))
        return collectors[0]

    async def story(world: World) -> None:
        await node(world, "n1")
        await pod(world, "p", "n1")
        await world.of(NODES).delete("n1")
        await world.clock.sleep(110)
        assert await world.names(PODS) == []

    play(make, story)
    reason = ("default", "orphaned")
    assert collectors[0].errors == {reason: 1}
    assert collectors[0].attempts == {reason: 2}
    assert 'pod default/p was not deleted (orphaned): pods "p" is forbidden' in caplog.text


class RefusesFirstPatch(CallRecorder):
    """A transport whose server refuses the first patch."""

    refused = False

    async def call(self, call: APICall) -> Any:
        if call.verb == "patch" and not self.refused:
            self.refused = True
            raise forbidden(GroupResource(call.ref.group, call.ref.resource), call.name, "the test refuses it")
        return await super().call(call)


@run_with(lambda test: play(PodGarbageCollector, test))
async def test_one_odd_pod_keeps_none_of_the_others_from_being_collected(
    world: World, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_out = PodGarbageCollector._is_out_of_service

    def odd(self: PodGarbageCollector, pod: Any) -> bool:
        if pod.metadata.name == "a":
            raise AttributeError("an odd pod")
        return is_out(self, pod)

    monkeypatch.setattr(PodGarbageCollector, "_is_out_of_service", odd)
    made = await node(world, "n1", ready="False")
    taints = (Taint(key=OUT_OF_SERVICE, effect="NoExecute"),)
    await world.of(NODES).update(replace(made, spec=NodeSpec(taints=taints)))
    for name in ("a", "b"):
        await pod(world, name, "n1")
        await world.of(PODS).delete(name)
    await world.clock.sleep(30)
    assert await world.names(PODS) == ["a"]
