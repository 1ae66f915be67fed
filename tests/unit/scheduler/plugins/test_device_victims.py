"""The victims of preemption for devices, on random small clusters: they are enough, and none is too many (KEP-5690)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as with_fields
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import replace
from cathedra.insight.reading.state import ClusterState
from cathedra.releases import FeatureGates
from cathedra.scheduler.judging import Filters
from tests.unit.insight.moving.clusters import node, pod, random_cluster, state_of

GATES = FeatureGates.for_release("1.37", {"DRAPreemption": True})


def without(state: ClusterState, pods: Iterable[Pod]) -> ClusterState:
    """The cluster when pods have gone, and their claims are deallocated that no other pod uses."""
    gone = {pod.metadata.uid for pod in pods}
    left = [
        replace(claim, status=replace(claim.status, allocation=None, reserved_for=()))
        for claim in state.all(ResourceClaim)
        if claim.status.reserved_for and gone.issuperset(one.uid for one in claim.status.reserved_for)
    ]
    return state.without([pod for pod in state.pods if pod.metadata.uid in gone]).including(left)


def shared(state: ClusterState, random: Random) -> ClusterState:
    """The cluster with some claims that are used by a second pod, of any priority."""
    added: list[Pod | ResourceClaim] = []
    for user in [one for one in state.pods if one.spec.node_name and random.random() < 0.3]:
        claim = state.get(ResourceClaim, user.metadata.name, "default")
        assert claim is not None, "each pod has a claim of its name"
        name = f"beside-{user.metadata.name}"
        other = replace(
            user,
            metadata=replace(user.metadata, name=name, uid=name),
            spec=replace(user.spec, priority=random.choice([0, 3, 10])),
        )
        (consumer,) = claim.status.reserved_for
        consumers = (consumer, replace(consumer, name=name, uid=name))
        added += [other, replace(claim, status=replace(claim.status, reserved_for=consumers))]
    return state.including(added)


@given(st.integers(0, 10_000))
def test_victims_are_enough_and_none_is_too_many(seed: int) -> None:
    random = Random(seed)
    state, names = random_cluster(random)
    state = with_fields(shared(state, random), gates=GATES)
    wanted = state.get(Pod, names[0], "default")
    assert wanted is not None
    filters = Filters.over(state)
    found = filters.preemption(wanted)
    fits_now = bool(filters.judge(wanted).fitting)
    assert not (fits_now and found.victims)
    if fits_now:
        return
    lower = [one for one in state.pods if one.spec.node_name and (one.spec.priority or 0) < 5]
    if not found.victims:
        # Not even all of them on any one node would be enough.
        for node in {one.spec.node_name for one in lower}:
            there = [one for one in lower if one.spec.node_name == node]
            assert node not in Filters.over(without(state, there)).judge(wanted).fitting
        return
    assert all(one in lower and one.spec.node_name == found.node for one in found.victims)
    assert found.node in Filters.over(without(state, found.victims)).judge(wanted).fitting
    for one in found.victims:
        fewer = without(state, [other for other in found.victims if other is not one])
        assert found.node not in Filters.over(fewer).judge(wanted).fitting


@given(st.integers(0, 10_000))
def test_without_the_gate_no_pod_is_evicted_for_devices(seed: int) -> None:
    state, names = random_cluster(Random(seed))
    wanted = state.get(Pod, names[0], "default")
    assert wanted is not None
    assert Filters.over(state).preemption(wanted).victims == ()


def test_devices_are_held_for_a_nominated_pod_by_its_status_alone() -> None:
    """A scheduler that was restarted has nothing in memory."""
    nominated = pod("high", 1, priority=5)
    nominated[0]["status"]["nominatedNodeName"] = "a"
    state = with_fields(state_of(node("a", 1), nominated, pod("low", 1), pod("top", 1, priority=9)), gates=GATES)
    filters = Filters.over(state)
    found = {name: filters.preemption(one).why for name in ("low", "top") if (one := state.get(Pod, name, "default"))}
    assert found == {
        "low": "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        "top": "",
    }
