"""Pods without claims, from the queue to the binding, on a real API server in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import replace
from cathedra.client.transport import APICall
from cathedra.clock import LoopClock
from cathedra.exposition import text_of
from cathedra.scheduler.metrics import SchedulerMetrics
from cathedra.scheduler.plugins.interpod_affinity import InterPodAffinity
from cathedra.scheduler.scheduler import ATTEMPTS_IN_TURN, LONGEST_TURN_SECONDS
from tests.running import run_with
from tests.unit.passedon import PassedOn
from tests.unit.scheduler.objects import claim, device_class, node, pod, slice_
from tests.unit.scheduler.world import World, play
from tests.unit.spoiled import SPOILED, SpoiledTransport


@run_with(play)
async def test_a_pod_is_bound_and_told_so(world: World) -> None:
    await world.create(node("n1"), pod("p"))
    await world.quiet()
    assert await world.node_of("p") == "n1"
    assert await world.events("p") == [("Scheduled", "Successfully assigned default/p to n1")]
    conditions = (await world.pod("p")).status.conditions
    assert [(c.type, c.status) for c in conditions] == [("PodScheduled", "True")]


@run_with(play)
async def test_a_pod_without_a_place_says_why_and_is_bound_when_there_is_one(world: World) -> None:
    await world.create(node("n1", cpu="1"), pod("p", requests={"cpu": "2"}))
    await world.quiet()
    why = (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert await world.condition("p") == ("Unschedulable", why)
    assert await world.events("p") == [("FailedScheduling", why)]
    await world.create(node("n2", cpu="2"))
    await world.quiet()
    assert await world.node_of("p") == "n2"


@run_with(lambda test: play(test, release="1.36"))
async def test_up_to_136_the_plugin_for_claims_adds_a_word_even_without_claims(world: World) -> None:
    await world.create(node("n1", cpu="1"), pod("p", requests={"cpu": "2"}))
    await world.quiet()
    _, message = await world.condition("p")
    assert ". no new claims to deallocate, preemption: 0/1 nodes" in message


@run_with(play)
async def test_without_nodes_there_is_nothing_to_count(world: World) -> None:
    await world.create(pod("p"))
    await world.elapse(0.5)
    assert await world.condition("p") == ("Unschedulable", "no nodes available to schedule pods")


@run_with(play)
async def test_a_pod_that_goes_makes_room_for_the_next(world: World) -> None:
    await world.create(node("n1", pods="1"), pod("first"))
    await world.quiet()
    await world.create(pod("second"))
    await world.quiet()
    assert await world.node_of("second") == ""
    await world.api(Pod).delete("first", grace_period_seconds=0)
    await world.quiet()
    assert await world.node_of("second") == "n1"


@run_with(play)
async def test_gated_pods_wait_and_pods_of_other_schedulers_are_left_alone(world: World) -> None:
    gated = pod("gated", schedulingGates=[{"name": "g"}])
    await world.create(node("n1"), gated, pod("foreign", schedulerName="mine"))
    await world.quiet()
    assert await world.node_of("gated") == await world.node_of("foreign") == ""
    stored = await world.pod("gated")
    await world.api(Pod).update(replace(stored, spec=replace(stored.spec, scheduling_gates=())))
    await world.quiet()
    assert await world.node_of("gated") == "n1"


@run_with(play)
async def test_a_hundred_pods_fill_ten_nodes_evenly(world: World) -> None:
    await world.create(*(node(f"n{i}", cpu="10") for i in range(10)))
    await world.create(*(pod(f"p{i}", requests={"cpu": "1"}) for i in range(100)))
    await world.quiet()
    places = [await world.node_of(f"p{i}") for i in range(100)]
    assert {place: places.count(place) for place in places} == {f"n{i}": 10 for i in range(10)}


def priority_class(name: str, value: int) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value)


@run_with(play)
async def test_the_more_important_pod_evicts_the_less_important(world: World) -> None:
    await world.create(node("n1", cpu="2"), node("n2", cpu="2"))
    await world.create(*(priority_class(name, value) for name, value in (("low", 1), ("mid", 5), ("high", 10))))
    await world.create(pod("low", requests={"cpu": "2"}, priorityClassName="low"))
    await world.create(pod("mid", requests={"cpu": "2"}, priorityClassName="mid"))
    await world.quiet()
    emptied = await world.node_of("low")
    await world.create(pod("high", requests={"cpu": "2"}, priorityClassName="high"))
    await world.quiet()
    high = await world.pod("high")
    assert high.status.nominated_node_name == emptied
    assert (await world.pod("low")).metadata.deletion_timestamp is not None
    assert (await world.pod("mid")).metadata.deletion_timestamp is None
    assert ("Preempted", f"Preempted by pod {high.metadata.uid} on node {emptied}") in await world.events("low")
    await world.api(Pod).delete("low", grace_period_seconds=0)
    await world.bound("high")
    high = await world.pod("high")
    assert (high.spec.node_name, high.status.nominated_node_name) == (emptied, "")


@run_with(play)
async def test_room_that_is_being_made_for_one_pod_is_not_made_for_another_too(world: World) -> None:
    await world.create(node("n1", cpu="2"), priority_class("low", 1), priority_class("high", 10))
    await world.create(pod("low", requests={"cpu": "2"}, priorityClassName="low"))
    await world.bound("low")
    for name in ("first", "second"):
        await world.create(pod(name, requests={"cpu": "2"}, priorityClassName="high"))
        await world.quiet()
    assert [reason for reason, _ in await world.events("low")].count("Preempted") == 1
    assert (await world.pod("first")).status.nominated_node_name == "n1"
    assert (await world.pod("second")).status.nominated_node_name == ""
    assert (await world.condition("second"))[1].endswith("preemption: 0/1 nodes are available: 1 Insufficient cpu.")


@run_with(play)
async def test_a_cordoned_node_is_used_again_when_it_is_uncordoned(world: World) -> None:
    await world.create(node("n1", unschedulable=True), pod("p"))
    await world.quiet()
    assert await world.node_of("p") == ""
    stored = await world.api(Node).get("n1")
    await world.api(Node).update(replace(stored, spec=replace(stored.spec, unschedulable=False)))
    await world.quiet()
    assert await world.node_of("p") == "n1"


@pytest.mark.parametrize(("seconds", "most"), [(0.0, ATTEMPTS_IN_TURN), (LONGEST_TURN_SECONDS * 2, 1)])
def test_pods_that_wait_are_tried_together_as_long_as_that_does_not_keep_others_waiting(
    seconds: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [0]
    whole, passed = InterPodAffinity.pre_filter, LoopClock.monotonic

    def counted(self: InterPodAffinity, state: Any, info: Any, snapshot: Any) -> Any:
        turns[-1] += 1
        return whole(self, state, info, snapshot)

    monkeypatch.setattr(InterPodAffinity, "pre_filter", counted)
    monkeypatch.setattr(LoopClock, "monotonic", lambda clock: passed(clock) + sum(turns) * seconds)

    async def count() -> None:
        while len(turns) < 200:
            turns.append(0)
            await asyncio.sleep(0)

    async def body(world: World) -> None:
        names = [f"p{number}" for number in range(ATTEMPTS_IN_TURN * 3)]
        counting = asyncio.create_task(count())
        await asyncio.gather(world.create(node("n1")), *[world.create(pod(name)) for name in names])
        await counting
        await world.bound(*names)
        assert max(turns) == most

    play(body)


class Broken(PassedOn):
    """A transport whose first request of a kind fails by a defect."""

    def __init__(self, inner: Any, what: str) -> None:
        self._inner = inner
        self._what = what
        self._broke = False

    async def call(self, call: APICall) -> Any:
        if call.verb == "create" and call.subresource == self._what and not self._broke:
            self._broke = True
            raise ZeroDivisionError("a defect")
        return await self._inner.call(call)


@run_with(lambda test: play(test, transport=lambda inner: Broken(inner, "binding")))
async def test_a_defect_that_one_pod_hits_stops_nobody(world: World) -> None:
    await world.create(node("n1"), pod("first"), pod("second"))
    await world.elapse(0.5)
    assert sorted([await world.node_of("first"), await world.node_of("second")]) == ["", "n1"]
    told = [await world.condition(name) for name in ("first", "second")]
    assert ("SchedulerError", "ZeroDivisionError: a defect") in told
    await world.quiet()
    assert await world.node_of("first") == await world.node_of("second") == "n1"


def test_a_defect_in_the_cycle_of_one_pod_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    whole = InterPodAffinity.pre_filter

    def breaks_once(self: InterPodAffinity, state: Any, info: Any, snapshot: Any) -> Any:
        judged.append(info.name)
        if len(judged) == 1:
            raise ZeroDivisionError("a defect")
        return whole(self, state, info, snapshot)

    monkeypatch.setattr(InterPodAffinity, "pre_filter", breaks_once)

    async def body(world: World) -> None:
        await world.create(node("n1"), pod("first"), pod("second"))
        await world.quiet()
        assert await world.node_of("first") == await world.node_of("second") == "n1"

    play(body)
    assert len(judged) == 3


def test_one_object_that_cannot_be_decoded_ends_nothing() -> None:
    """Of each kind that the scheduler follows, in its first lists and in watches; others are scheduled beside them."""

    def odd(obj: Any, name: str) -> Any:
        metadata = replace(obj.metadata, name=name, annotations={SPOILED: "spec.odd"}, uid="")
        return replace(obj, metadata=metadata)

    objects = [node("n"), pod("p"), claim("c"), slice_("n"), device_class()]

    async def body(world: World) -> None:
        await world.create(*(odd(one, "before") for one in objects))
        await world.create(node("n1"), pod("p1"))
        await world.bound("p1")
        await world.create(*(odd(one, "after") for one in objects))
        await world.create(node("n2"), pod("p2"))
        await world.bound("p2")
        assert await world.node_of("after") == ""
        mended = await world.pod("after")
        await world.api(Pod).update(replace(mended, metadata=replace(mended.metadata, annotations={})))
        await world.bound("after")

    metrics = SchedulerMetrics()
    play(body, transport=SpoiledTransport, metrics=metrics)
    counted = text_of(metrics.registry.collect()).decode()
    assert 'cathedra_undecodable_objects_total{kind="Pod",resource="pods"} 2' in counted
    assert 'cathedra_undecodable_objects_total{kind="ResourceSlice",resource="resourceslices"} 2' in counted


@run_with(lambda test: play(test, transport=SpoiledTransport))
async def test_a_pod_whose_claim_cannot_be_decoded_waits_until_it_can_be(world: World) -> None:
    odd = claim("c")
    odd = replace(odd, metadata=replace(odd.metadata, annotations={SPOILED: "spec.devices.requests"}))
    users = [{"name": "gpu", "resourceClaimName": "c"}]
    await world.create(node("n1"), slice_("n1"), device_class(), odd, pod("p", resourceClaims=users))
    await world.quiet()
    assert await world.node_of("p") == ""
    mended = await world.claim("c")
    await world.api(ResourceClaim).update(replace(mended, metadata=replace(mended.metadata, annotations={})))
    await world.bound("p")
