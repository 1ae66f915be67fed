"""Until 1.36 all waiting pods of a PodGroup are tried together, pod by pod (docs/spec/scheduling.md §14)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import OwnerReference
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.configuration.reading import ProfileConfiguration, SchedulerConfiguration
from cathedra.scheduler.framework.status import error
from cathedra.scheduler.plugins.node_resources import NodeResourcesFit
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, node, pod, slice_
from tests.unit.scheduler.world import World, play

GATES = {"GenericWorkload": True, "GangScheduling": True, "DRAWorkloadResourceClaims": True}
WAITS = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
GANG_OF_TWO = {"gang": {"minCount": 2}}


def member(name: str, cpu: str = "1", **spec: Any) -> Pod:
    return pod(name, requests={"cpu": cpu}, schedulingGroup={"podGroupName": "g"}, **spec)


async def make_group(world: World, policy: dict[str, Any], **spec: Any) -> None:
    body = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": policy, **spec}}
    await world.create(from_dict(PodGroup, body))


async def group_condition(world: World) -> tuple[str, str, str]:
    (condition,) = (await world.api(PodGroup).get("g")).status.conditions
    return condition.status, condition.reason, condition.message


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_a_gang_that_does_not_fit_gets_no_node_at_all(world: World) -> None:
    await make_group(world, GANG_OF_TWO)
    await world.create(node("n", cpu="1"), member("a"), member("b"))
    await world.elapse(3)
    assert [await world.node_of(name) for name in "ab"] == ["", ""]
    reasons = {(await world.condition(name))[1] for name in "ab"}
    assert reasons == {
        WAITS,
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are "
        "available: 1 No preemption victims found for incoming pod.",
    }
    assert await group_condition(world) == ("False", "Unschedulable", "pod group is unschedulable")
    held = world.scheduler.statistics()
    assert (held["assumed"], held["inflight"]) == (0, 0)


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_a_gang_is_bound_as_soon_as_there_is_room_for_enough_of_it(world: World) -> None:
    await make_group(world, GANG_OF_TWO)
    await world.create(node("n1", cpu="1"), member("a"), member("b"), member("c"))
    await world.elapse(3)
    await world.create(node("n2", cpu="1"))
    await world.elapse(20)
    nodes = sorted([await world.node_of(name) for name in "abc"])
    assert nodes == ["", "n1", "n2"]
    assert await group_condition(world) == ("True", "Scheduled", "")


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_pods_of_a_gang_that_run_already_count(world: World) -> None:
    await make_group(world, GANG_OF_TWO)
    await world.create(node("n", cpu="2"), member("a"), member("b"))
    await world.bound("a", "b")
    await world.create(node("n2", cpu="1"), member("c"), member("d"))
    await world.quiet()
    assert sorted([await world.node_of(name) for name in "cd"]) == ["", "n2"]
    assert await group_condition(world) == ("True", "Scheduled", "")


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_a_group_with_the_basic_policy_is_bound_as_far_as_it_fits(world: World) -> None:
    await make_group(world, {"basic": {}})
    await world.create(node("n", cpu="1"), member("a"), member("b"))
    await world.quiet()
    assert sorted([await world.node_of(name) for name in "ab"]) == ["", "n"]
    assert await group_condition(world) == ("True", "Scheduled", "")


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_the_first_pod_of_a_gang_allocates_a_claim_for_all(world: World) -> None:
    await make_group(world, GANG_OF_TWO)
    await world.create(device_class(), node("n1"), node("n2"), slice_("n1"), claim("c"))
    entries = [{"name": "gpu", "resourceClaimName": "c"}]
    await world.create(member("a", resourceClaims=entries), member("b", resourceClaims=entries))
    await world.quiet()
    assert [await world.node_of(name) for name in "ab"] == ["n1", "n1"]
    consumers = (await world.claim("c")).status.reserved_for
    assert sorted(consumer.name for consumer in consumers) == ["a", "b"]
    assert [reason for name in "ab" for reason, _ in await world.events(name)] == ["Scheduled", "Scheduled"]
    assert world.scheduler.statistics()["claims_in_flight"] == 0


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_a_gang_whose_claim_is_not_bound_lets_go_of_its_devices(world: World) -> None:
    await make_group(world, GANG_OF_TWO)
    await world.create(device_class(), node("n1", cpu="1"), slice_("n1"), claim("c"))
    entries = [{"name": "gpu", "resourceClaimName": "c"}]
    await world.create(member("a", resourceClaims=entries), member("b", resourceClaims=entries))
    await world.elapse(3)
    assert await world.devices("c") == []
    assert world.scheduler.statistics()["claims_in_flight"] == 0


async def make_priority(world: World) -> None:
    await world.create(from_dict(PriorityClass, {"metadata": {"name": "high"}, "value": 7}))


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_a_gang_waits_for_the_pods_that_are_evicted_for_it(world: World) -> None:
    await make_priority(world)
    await make_group(world, GANG_OF_TWO)
    low = pod("low", requests={"cpu": "2"}, terminationGracePeriodSeconds=1000)
    await world.create(node("n", cpu="3"), low)
    await world.bound("low")
    await world.create(member("a", priorityClassName="high"), member("b", priorityClassName="high"))
    await world.elapse(0.5)
    assert (await world.pod("low")).metadata.deletion_timestamp is not None
    waits = "pod group is unschedulable, pod group is waiting for preemption to complete"
    assert await group_condition(world) == ("False", "Unschedulable", waits)
    assert waits in {(await world.condition(name))[1] for name in "ab"}
    assert [(await world.pod(name)).status.nominated_node_name for name in "ab"] == ["n", "n"]
    await world.api(Pod).delete("low", grace_period_seconds=0)
    await world.bound("a", "b")


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_a_gang_that_would_not_fit_even_so_is_nominated_nowhere(world: World) -> None:
    await make_priority(world)
    await make_group(world, GANG_OF_TWO)
    await world.create(node("n", cpu="2"), pod("low", requests={"cpu": "2"}, terminationGracePeriodSeconds=1000))
    await world.bound("low")
    both = [member(name, cpu="2", priorityClassName="high") for name in "ab"]
    await world.create(*both)
    await world.elapse(0.5)
    assert await group_condition(world) == ("False", "Unschedulable", "pod group is unschedulable")
    assert [(await world.pod(name)).status.nominated_node_name for name in "ab"] == ["", ""]


def test_pods_of_one_group_must_have_one_scheduler() -> None:
    async def body(world: World) -> None:
        await make_group(world, {"basic": {}})
        await world.create(member("a"), member("b", schedulerName="other"))
        await world.elapse(3)
        text = (
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            'got: "default-scheduler" and "other"'
        )
        assert await world.condition("a") == await world.condition("b") == ("SchedulerError", text)

    two = SchedulerConfiguration(
        profiles=(ProfileConfiguration(name="default-scheduler"), ProfileConfiguration(name="other"))
    )
    play(body, gates=GATES, configuration=two, release="1.36")


@run_with(lambda test: play(test, gates=GATES, release="1.36"))
async def test_a_broken_search_sends_the_whole_group_back(world: World, *, monkeypatch: pytest.MonkeyPatch) -> None:
    original = NodeResourcesFit.filter

    def broken(self: NodeResourcesFit, state: Any, info: Any, where: Any) -> Any:
        return error("out of order") if info.name == "b" else original(self, state, info, where)

    monkeypatch.setattr(NodeResourcesFit, "filter", broken)
    monkeypatch.setattr(NodeResourcesFit, "predicate", lambda *_: None)
    await make_group(world, {"basic": {}})
    await world.create(member("a"), member("b"))
    await world.elapse(0.5)
    await world.create(node("n"))
    await world.elapse(3)
    broken_filter = 'running "NodeResourcesFit" filter plugin: out of order'
    text = f"failed to schedule other pod from a pod group: {broken_filter}"
    assert await group_condition(world) == ("False", "SchedulerError", text)
    assert await world.condition("b") == ("SchedulerError", broken_filter)
    assert await world.condition("a") == ("SchedulerError", text)
    assert world.scheduler.statistics()["assumed"] == 0


CLAIM_GATES = {"GenericWorkload": True, "GangScheduling": True, "DRAWorkloadResourceClaims": True}
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "t"}


def claiming_member(name: str) -> Pod:
    return pod(name, resourceClaims=[ENTRY], schedulingGroup={"podGroupName": "g"})


async def make_claiming_group(world: World) -> None:
    body = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"resourceClaims": [ENTRY]}}
    await world.create(from_dict(PodGroup, body))


async def give_claim(world: World, owner_kind: str = "PodGroup") -> None:
    """Act as the claim controller: create a claim of the group, and record it in its status."""
    group = await world.api(PodGroup).get("g")
    owner = OwnerReference(
        api_version="scheduling.k8s.io/v1beta1",
        kind=owner_kind,
        name="g" if owner_kind == "PodGroup" else "other",
        uid=group.metadata.uid if owner_kind == "PodGroup" else "other",
        controller=True,
    )
    made: ResourceClaim = claim("g-gpu-x")
    await world.create(replace(made, metadata=replace(made.metadata, owner_references=(owner,))))
    statuses: Any = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "g-gpu-x"}]}}
    status = from_dict(PodGroup, statuses).status
    await world.api(PodGroup).update_status(replace(group, status=status))


async def furnish(world: World) -> None:
    await world.create(device_class(), node("n1"), node("n2"), slice_("n1"), slice_("n2"))


@run_with(lambda test: play(test, gates=CLAIM_GATES, release="1.36"))
async def test_all_pods_of_a_group_use_its_claim_under_one_reservation(world: World) -> None:
    await furnish(world)
    await make_claiming_group(world)
    for name in ("p1", "p2", "p3"):
        await world.create(claiming_member(name))
    await world.quiet()
    assert world.scheduler.statistics()["gated"] == 3
    await give_claim(world)
    await world.quiet()
    assert len({await world.node_of(name) for name in ("p1", "p2", "p3")} - {""}) == 1
    group = await world.api(PodGroup).get("g")
    stored = await world.claim("g-gpu-x")
    assert [(r.api_group, r.resource, r.name, r.uid) for r in stored.status.reserved_for] == [
        ("scheduling.k8s.io", "podgroups", "g", group.metadata.uid)
    ]


@run_with(lambda test: play(test, gates=CLAIM_GATES, release="1.36"))
async def test_a_claim_that_is_not_the_groups_keeps_its_pods_out(world: World) -> None:
    await furnish(world)
    await make_claiming_group(world)
    await give_claim(world, owner_kind="Other")
    await world.quiet()
    await world.create(claiming_member("p"))
    await world.quiet()
    assert await world.node_of("p") == ""
    assert world.scheduler.statistics()["gated"] == 1


@run_with(lambda test: play(test, release="1.36"))
async def test_without_the_feature_a_group_means_nothing(world: World) -> None:
    await furnish(world)
    await make_claiming_group(world)
    await world.create(claiming_member("p"))
    await give_claim(world)
    await world.quiet()
    assert await world.node_of("p") == ""


# Conditions of pod groups are named as each release names them.


@pytest.mark.parametrize(
    ("release", "gates", "wanted"),
    [
        ("1.36", {"GenericWorkload": True, "GangScheduling": True}, "PodGroupScheduled"),
        ("1.37", {"GenericWorkload": True}, "PodGroupInitiallyScheduled"),
        ("1.38", {"GenericWorkload": True}, "PodGroupInitiallyScheduled"),
    ],
)
def test_a_group_says_that_it_was_scheduled(release: str, gates: dict[str, bool], wanted: str) -> None:
    async def body(world: World) -> None:
        group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": {"basic": {}}}}
        await world.create(from_dict(PodGroup, group), node("n"))
        await world.create(pod("a", schedulingGroup={"podGroupName": "g"}))
        await world.bound("a")
        await world.quiet()
        (condition,) = (await world.api(PodGroup).get("g")).status.conditions
        assert (condition.type, condition.status, condition.reason) == (wanted, "True", "Scheduled")

    play(body, gates=gates, release=release)
