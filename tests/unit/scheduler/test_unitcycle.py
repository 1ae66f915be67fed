"""From 1.37 on a PodGroup, or a hierarchy of groups, is scheduled as one (docs/spec/scheduling.md §14)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.configuration.reading import ProfileConfiguration, SchedulerConfiguration
from cathedra.scheduler.framework.status import error
from cathedra.scheduler.plugins.node_resources import NodeResourcesFit
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.scheduler.unitcycle import domains, utilisation
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, node, pod, slice_
from tests.unit.scheduler.world import World, play

GATES = {
    "GenericWorkload": True,
    "DRAWorkloadResourceClaims": True,
    "CompositePodGroup": True,
    "TopologyAwareWorkloadScheduling": True,
}


def gang(count: int, **spec: Any) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": count}}, **spec}


def groups(count: int, **spec: Any) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minGroupCount": count}}, **spec}


RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
BLOCK = {"schedulingConstraints": {"topology": [{"key": "block"}]}}
BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}


async def make_group(world: World, name: str, spec: dict[str, Any], parent: str = "") -> None:
    more = {"parentCompositePodGroupName": parent} if parent else {}
    await world.create(from_dict(PodGroup, {"metadata": {"name": name, "namespace": "default"}, "spec": spec | more}))


async def make_composite(world: World, name: str, spec: dict[str, Any], parent: str = "") -> None:
    more: dict[str, Any] = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
    if parent:
        more["parentCompositePodGroupName"] = parent
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec | more}
    await world.create(from_dict(CompositePodGroup, body))


def member(name: str, group: str = "g", cpu: str = "1", **spec: Any) -> Pod:
    return pod(name, requests={"cpu": cpu}, schedulingGroup={"podGroupName": group}, **spec)


async def condition(world: World, name: str = "g", kind: type[Any] = PodGroup) -> tuple[str, str, str]:
    (found,) = (await world.api(kind).get(name)).status.conditions
    assert found.type == f"{kind.__name__}InitiallyScheduled"
    return found.status, found.reason, found.message


async def places(world: World, names: str) -> list[str]:
    return [await world.node_of(name) for name in names]


@run_with(lambda test: play(test, gates=GATES))
async def test_nothing_of_a_gang_runs_while_there_is_room_for_two_of_three(world: World) -> None:
    await make_group(world, "g", gang(3))
    await world.create(node("n", cpu="2"), *map(member, "abc"))
    await world.elapse(3)
    assert await places(world, "abc") == ["", "", ""]
    text = (
        "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, "
        "preemption: No preemption victims found for incoming pod group."
    )
    assert await condition(world) == ("False", "Unschedulable", text)
    assert {(await world.condition(name))[1] for name in "abc"} == {
        text,
        "0/1 nodes are available: 1 Insufficient cpu.",
    }
    held = world.scheduler.statistics()
    assert (held["assumed"], held["inflight"]) == (0, 0)
    await world.create(node("n2", cpu="1"))
    await world.bound(*"abc")
    assert await condition(world) == ("True", "Scheduled", "")


@run_with(lambda test: play(test, gates=GATES))
async def test_the_whole_group_waits_for_an_event_that_helps_one_of_its_pods(world: World) -> None:
    await make_group(world, "g", gang(2))
    await world.create(node("n", cpu="1"), member("a"), member("b"))
    await world.elapse(30)
    # No back-off wakes a pod: both wait for what helps the one that was refused.
    assert world.scheduler.statistics()["unschedulable"] == 2
    await world.create(node("n2", cpu="1"))
    await world.bound("a", "b")


@run_with(lambda test: play(test, gates=GATES))
async def test_a_smaller_minimum_wakes_a_gang(world: World) -> None:
    await make_group(world, "g", gang(3))
    await world.create(node("n"), member("a"), member("b"))
    await world.quiet()
    assert world.scheduler.statistics()["gated"] == 2
    stored = await world.api(PodGroup).get("g")
    policy = from_dict(PodGroup, {"spec": gang(2)}).spec.scheduling_policy
    await world.api(PodGroup).update(replace(stored, spec=replace(stored.spec, scheduling_policy=policy)))
    await world.bound("a", "b")


@run_with(lambda test: play(test, gates=GATES))
async def test_pods_beyond_the_minimum_are_bound_as_far_as_they_fit(world: World) -> None:
    await make_group(world, "g", gang(2))
    await world.create(node("n", cpu="2"), *map(member, "abc"))
    await world.bound("a", "b")
    assert await condition(world) == ("True", "Scheduled", "")
    await world.elapse(3)
    assert await world.node_of("c") == ""
    # A failed attempt of further pods does not take the condition back.
    assert await condition(world) == ("True", "Scheduled", "")


@run_with(lambda test: play(test, gates=GATES))
async def test_a_shared_claim_is_allocated_once_for_the_gang(world: World) -> None:
    await make_group(world, "g", gang(2))
    await world.create(device_class(), node("n1"), node("n2"), slice_("n1"), claim("c"))
    entries = [{"name": "gpu", "resourceClaimName": "c"}]
    await world.create(member("a", resourceClaims=entries), member("b", resourceClaims=entries))
    await world.bound("a", "b")
    assert await places(world, "ab") == ["n1", "n1"]
    assert world.scheduler.statistics()["claims_in_flight"] == 0


def test_pods_of_one_group_must_have_one_scheduler() -> None:
    async def body(world: World) -> None:
        await make_group(world, "g", BASIC)
        await world.create(member("a"), member("b", schedulerName="other"))
        await world.elapse(3)
        text = "all pods in a single pod group should have the same .spec.schedulerName set, got: "
        for name in "ab":
            reason, message = await world.condition(name)
            assert (reason, message[: len(text)]) == ("SchedulerError", text)
        assert (await condition(world))[1] == "SchedulerError"

    two = SchedulerConfiguration(
        profiles=(ProfileConfiguration(name="default-scheduler"), ProfileConfiguration(name="other"))
    )
    play(body, gates=GATES, configuration=two)


@pytest.mark.parametrize(
    ("gates", "text"),
    [
        ({}, "all pods in a single pod group should have the same preemption policy, got "),
        (
            {"PodGroupPreemptionPolicy": True},
            "all pods in a single pod group should have the same preemption policy as the pod group's preemption "
            "policy, got Never and PreemptLowerPriority",
        ),
    ],
)
def test_pods_of_one_group_must_have_one_preemption_policy(gates: dict[str, bool], text: str) -> None:
    async def body(world: World) -> None:
        polite = {"metadata": {"name": "polite"}, "value": 0, "preemptionPolicy": "Never"}
        await world.create(from_dict(PriorityClass, polite))
        await make_group(world, "g", BASIC)
        await world.create(member("a"), member("b", priorityClassName="polite"), node("n"))
        await world.elapse(3)
        assert (await world.condition("b"))[1].startswith(text)

    play(body, gates=GATES | gates)


@run_with(lambda test: play(test, gates=GATES))
async def test_a_broken_search_sends_the_whole_group_back(world: World, *, monkeypatch: pytest.MonkeyPatch) -> None:
    original = NodeResourcesFit.filter

    def broken(self: NodeResourcesFit, state: Any, info: Any, where: Any) -> Any:
        return error("out of order") if info.name == "b" else original(self, state, info, where)

    monkeypatch.setattr(NodeResourcesFit, "filter", broken)
    monkeypatch.setattr(NodeResourcesFit, "predicate", lambda *_: None)
    await make_group(world, "g", gang(2))
    await world.create(member("a"), member("b"), node("n"))
    await world.elapse(3)
    broken_filter = 'running "NodeResourcesFit" filter plugin: out of order'
    text = f"failed to schedule other pod from a pod group: {broken_filter}"
    assert await condition(world) == ("False", "SchedulerError", text)
    assert await world.condition("b") == ("SchedulerError", broken_filter)
    assert await world.condition("a") == ("SchedulerError", text)
    assert world.scheduler.statistics()["assumed"] == 0


# --- groups of groups


@run_with(lambda test: play(test, gates=GATES, release="1.38"))
async def test_pods_wait_until_the_root_exists_and_enough_groups_have_their_pods(world: World) -> None:
    await make_group(world, "g", gang(2), "root")
    await make_group(world, "h", gang(1), "root")
    await world.create(node("n"), member("a"), member("b"))
    await world.quiet()
    assert world.scheduler.statistics()["gated"] == 2
    await make_composite(world, "root", groups(2))
    await world.quiet()
    assert world.scheduler.statistics()["gated"] == 2
    await world.create(member("c", "h"))
    await world.bound(*"abc")
    assert await condition(world, "root", CompositePodGroup) == ("True", "Scheduled", "")
    assert await condition(world, "g") == await condition(world, "h") == ("True", "Scheduled", "")


@run_with(lambda test: play(test, gates=GATES, release="1.38"))
async def test_groups_are_bound_together_or_not_at_all(world: World) -> None:
    await make_composite(world, "root", groups(2))
    await make_group(world, "g", gang(2), "root")
    await make_group(world, "h", gang(1), "root")
    await world.create(node("n", cpu="2"), member("a"), member("b"), member("c", "h"))
    await world.elapse(3)
    assert await places(world, "abc") == ["", "", ""]
    status, reason, message = await condition(world, "root", CompositePodGroup)
    assert (status, reason) == ("False", "Unschedulable")
    assert message.startswith("minCount (2) cannot be satisfied: 1 scheduled, 0 remaining")
    assert await condition(world, "g") == ("False", "Unschedulable", message)
    assert world.scheduler.statistics()["assumed"] == 0
    await world.create(node("n2", cpu="1"))
    await world.bound(*"abc")


@run_with(lambda test: play(test, gates=GATES))
async def test_a_group_that_fails_leaves_its_room_to_the_next(world: World) -> None:
    await make_composite(world, "root", groups(1))
    await make_group(world, "large", gang(3), "root")
    await world.elapse(2)
    await make_group(world, "small", gang(2), "root")
    larges = [member(name, "large") for name in "abc"]
    await world.create(*larges, member("d", "small"), member("e", "small"), node("n", cpu="2"))
    await world.bound("d", "e")
    assert await places(world, "abc") == ["", "", ""]
    assert (await condition(world, "large"))[1] == "Unschedulable"
    assert await condition(world, "small") == ("True", "Scheduled", "")


@run_with(lambda test: play(test, gates=GATES, release="1.38"))
async def test_groups_may_be_nested(world: World) -> None:
    await make_composite(world, "root", groups(2))
    for side in ("left", "right"):
        await make_composite(world, side, groups(1), "root")
        await make_group(world, f"{side}-pods", gang(1), side)
    await world.create(node("n", cpu="1"), member("a", "left-pods"), member("b", "right-pods"))
    await world.elapse(3)
    assert await places(world, "ab") == ["", ""]
    await world.create(node("n2", cpu="1"))
    await world.bound("a", "b")
    for name in ("root", "left", "right"):
        assert (await condition(world, name, CompositePodGroup))[1] == "Scheduled"


@run_with(lambda test: play(test, gates=GATES))
async def test_a_group_of_groups_has_no_condition_before_1_38(world: World) -> None:
    await make_composite(world, "root", groups(1))
    await make_group(world, "g", gang(1), "root")
    await world.create(node("n"), member("a"))
    await world.bound("a")
    await world.quiet()
    assert (await condition(world, "g"))[1] == "Scheduled"
    assert (await world.api(CompositePodGroup).get("root")).status.conditions == ()


@run_with(lambda test: play(test, gates=GATES, release="1.38"))
async def test_a_cycle_is_reported_and_its_pods_wait(world: World) -> None:
    await make_composite(world, "one", groups(1), "two")
    await make_composite(world, "two", groups(1), "one")
    await make_group(world, "g", gang(1), "one")
    await world.create(node("n"), member("a"))
    await world.elapse(3)
    assert await world.node_of("a") == ""
    status, reason, message = await condition(world, "two", CompositePodGroup)
    assert (status, reason) == ("False", "Invalid")
    assert message.endswith("form a cycle")
    assert (await condition(world, "g"))[1] == "Invalid"


@run_with(lambda test: play(test, gates=GATES))
async def test_a_group_that_is_deleted_before_its_turn_leaves_its_pods_waiting(world: World) -> None:
    await make_group(world, "g", gang(2))
    await world.create(member("a"), member("b"), node("n", cpu="1"))
    await world.elapse(3)
    await world.api(PodGroup).delete("g")
    deleted = await world.api(PodGroup).get("g")
    await world.api(PodGroup).update(replace(deleted, metadata=replace(deleted.metadata, finalizers=())))
    await world.create(node("n2", cpu="1"))
    await world.elapse(20)
    assert await places(world, "ab") == ["", ""]
    await make_group(world, "g", gang(2))
    await world.bound("a", "b")


@run_with(lambda test: play(test, gates={"GenericWorkload": True}))
async def test_without_the_gate_a_parent_means_nothing(world: World) -> None:
    await make_group(world, "g", gang(1), "root")
    await world.create(node("n"), member("a"))
    await world.bound("a")


# --- topology


def racks(**cpus: str) -> list[Any]:
    """Nodes whose first letter is their rack, and of whose racks a and b are in one block."""
    blocks = {"a": "x", "b": "x"}
    return [
        node(name, cpu=cpu, labels={"rack": name[0], "block": blocks.get(name[0], "y")}) for name, cpu in cpus.items()
    ]


@run_with(lambda test: play(test, gates=GATES))
async def test_a_group_is_placed_in_one_rack(world: World) -> None:
    await make_group(world, "g", gang(3, **RACK))
    await world.create(*racks(a1="1", a2="1", b1="2", c1="2", c2="1"), *map(member, "pqr"))
    await world.bound(*"pqr")
    assert {place[0] for place in await places(world, "pqr")} == {"c"}


@run_with(lambda test: play(test, gates=GATES))
async def test_a_group_that_fits_in_no_rack_waits(world: World) -> None:
    await make_group(world, "g", gang(3, **RACK))
    await world.create(*racks(a1="2", b1="2"), *map(member, "pqr"))
    await world.elapse(3)
    assert await places(world, "pqr") == ["", "", ""]
    _, reason, message = await condition(world)
    assert reason == "Unschedulable"
    assert message.startswith(
        "0/2 placements are available, first placement status: minCount (3) cannot be satisfied: 2 scheduled"
    )
    assert world.scheduler.statistics()["assumed"] == 0
    await world.create(*racks(b2="1"))
    await world.bound(*"pqr")


@run_with(lambda test: play(test, gates=GATES))
async def test_of_racks_with_room_for_equally_many_pods_the_fuller_is_better(world: World) -> None:
    await world.create(*racks(a1="2", b1="4", c1="4"), pod("old", requests={"cpu": "1"}, nodeName="c1"))
    await make_group(world, "g", gang(3, **RACK))
    await world.create(*map(member, "pqr"))
    await world.bound(*"pqr")
    assert set(await places(world, "pqr")) == {"c1"}


@run_with(lambda test: play(test, gates=GATES))
async def test_later_pods_follow_the_first_into_their_rack(world: World) -> None:
    await make_group(world, "g", gang(1, **RACK))
    await world.create(*racks(a1="2", b1="1"), member("p", cpu="1"))
    await world.bound("p")
    first = await world.node_of("p")
    await world.create(*racks(c1="8"), member("q"))
    await world.elapse(5)
    assert await world.node_of("q") in ("", first)


@run_with(lambda test: play(test, gates=GATES))
async def test_groups_are_placed_in_racks_of_one_block(world: World) -> None:
    """The example of KEP-6012: the first block has one rack that is large enough, the second has two."""
    nodes = [
        node("a", cpu="3", labels={"rack": "a", "block": "x"}),
        node("b", cpu="5", labels={"rack": "b", "block": "x"}),
        node("c", cpu="5", labels={"rack": "c", "block": "y"}),
        node("d", cpu="5", labels={"rack": "d", "block": "y"}),
    ]
    await make_composite(world, "root", groups(2, **BLOCK))
    await make_group(world, "g", gang(5, **RACK), "root")
    await make_group(world, "h", gang(5, **RACK), "root")
    ones, twos = [f"g{n}" for n in range(5)], [f"h{n}" for n in range(5)]
    await world.create(*nodes, *(member(name, "g") for name in ones), *(member(name, "h") for name in twos))
    await world.bound(*ones, *twos)
    racks = [{await world.node_of(name) for name in names} for names in (ones, twos)]
    assert sorted(map(sorted, racks)) == [["c"], ["d"]]


@run_with(lambda test: play(test, gates={"GenericWorkload": True}))
async def test_without_the_gate_a_constraint_means_nothing(world: World) -> None:
    await make_group(world, "g", gang(2, **RACK))
    await world.create(*racks(a1="1", b1="1"), member("p"), member("q"))
    await world.bound("p", "q")


def snapshot_of_racks() -> Snapshot:
    cache = Cache()
    for name, rack in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("none", "")):
        cache.set_node(node(name, cpu="4", labels={"rack": rack} if rack else {}))
    cache.add_pod(pod("p", requests={"cpu": "2"}, nodeName="b1"))
    return cache.snapshot()


@pytest.mark.parametrize(
    ("within", "placed", "wanted"),
    [
        (None, (), [{"a1", "a2"}, {"b1"}]),
        (frozenset({"a2", "b1"}), (), [{"a2"}, {"b1"}]),
        (None, ("a2",), [{"a1", "a2"}]),
        (None, ("a2", "b1"), []),
        (None, ("none",), []),
    ],
)
def test_each_value_of_the_label_is_a_domain(
    within: frozenset[str] | None, placed: Collection[str], wanted: list[set[str]]
) -> None:
    assert domains(snapshot_of_racks(), "rack", within, placed) == wanted


def test_the_fuller_placement_has_the_greater_utilisation() -> None:
    state = snapshot_of_racks()
    assert utilisation(state, frozenset({"b1"})) > utilisation(state, frozenset({"a1", "a2"})) == 0.0
