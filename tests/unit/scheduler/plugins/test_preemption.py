"""Making room for a pod of higher priority (docs/spec/scheduling.md §15)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod, PodStatus
from cathedra.api.core.policy_v1 import PodDisruptionBudget
from cathedra.api.core.scheduling_v1 import PriorityClass
from cathedra.api.struct import Time, from_dict, replace
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PODS
from cathedra.clock import SystemClock, run_virtual
from cathedra.releases import FeatureGates
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.plugin import CycleState, PluginContext
from cathedra.scheduler.framework.status import Status, unresolvable, unschedulable
from cathedra.scheduler.plugins.preemption import DefaultPreemption
from cathedra.scheduler.state.cache import Cache, Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.conditions import find_condition
from tests.running import run_with
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.world import World, play


async def crowd(world: World, **priorities: int) -> None:
    """A node with two cpus that pods wait for, one after the other."""
    await world.create(node("n", cpu="2"))
    for name, priority in priorities.items():
        await world.create(from_dict(PriorityClass, {"metadata": {"name": name}, "value": priority}))
        await world.create(pod(name, requests={"cpu": "2"}, priorityClassName=name))
        await world.quiet()


async def nominated(world: World, name: str) -> str:
    return (await world.pod(name)).status.nominated_node_name


@run_with(play)
async def test_room_that_was_being_made_for_a_pod_that_is_deleted_is_there_for_the_next(world: World) -> None:
    await crowd(world, low=1, high=100, mid=10)
    assert (await nominated(world, "high"), await nominated(world, "mid")) == ("n", "")
    await world.api(Pod).delete("high", grace_period_seconds=0)
    await world.quiet()
    assert await nominated(world, "mid") == "n"


@run_with(play)
async def test_a_nomination_ends_when_there_is_no_room_to_be_made_any_more(world: World) -> None:
    await crowd(world, low=1, high=100, top=1000)
    assert await nominated(world, "high") == "n"
    await world.api(Pod).delete("low", grace_period_seconds=0)
    await world.bound("top")
    await world.quiet()
    assert await nominated(world, "high") == ""


@run_with(play)
async def test_who_needs_more_room_takes_back_the_nominations_of_less_important_pods(world: World) -> None:
    await world.create(node("n", cpu="4"))
    for name, priority, cpu in (("a", 1, "2"), ("b", 1, "2"), ("mid", 10, "2"), ("high", 100, "4")):
        await world.create(from_dict(PriorityClass, {"metadata": {"name": name}, "value": priority}))
        await world.create(pod(name, requests={"cpu": cpu}, priorityClassName=name))
        await world.quiet()
    assert (await nominated(world, "high"), await nominated(world, "mid")) == ("n", "")


@run_with(play)
async def test_an_evicted_pod_says_that_it_made_room(world: World) -> None:
    await crowd(world, low=1, high=100)
    condition = find_condition((await world.pod("low")).status.conditions, "DisruptionTarget")
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"


def words(refusal: Status, *placed: Pod, nominated: str = "", written: bool = True, **spec: Any) -> str:
    """Return the message after that refusal of node ``n``, whatever is evicted there."""
    cache = Cache()
    cache.set_node(node("n"))
    for one in placed:
        cache.add_pod(PodInfo(one).on("n").pod)
    diagnosis = Diagnosis(1)
    diagnosis.refuse("n", refusal)
    client = Client(UNUSED, clock=SystemClock())
    informers, gates = SharedInformers(client, SystemClock()), FeatureGates.for_release()
    context = PluginContext(client, informers, UNUSED, SystemClock(), Random(1), gates)
    nominations = Nominations()
    plugin = DefaultPreemption(context, nominations, lambda *_: unschedulable("still too small"))
    state = CycleState(cache.snapshot())
    status = PodStatus(nominated_node_name=nominated if written else "")
    preemptor = replace(pod("p", priority=5, **spec), status=status)
    nominations.set(PodInfo(preemptor), nominated)
    answer = run_virtual(plugin.post_filter(state, PodInfo(preemptor), diagnosis))
    return answer.message


UNUSED: Any = None
"""Nothing is written where no victim is found."""


def test_every_node_says_why_preemption_there_does_not_help() -> None:
    start = "preemption: 0/1 nodes are available: 1 "
    assert words(unresolvable("no")) == f"{start}Preemption is not helpful for scheduling."
    assert words(unschedulable("no")) == f"{start}No preemption victims found for incoming pod."
    equal, lower = pod("q", priority=5), pod("q", priority=4)
    assert words(unschedulable("no"), equal) == f"{start}No preemption victims found for incoming pod."
    assert words(unschedulable("no"), lower) == f"{start}still too small."


def test_a_pod_may_choose_never_to_preempt() -> None:
    told = words(unschedulable("no"), pod("q", priority=1), preemptionPolicy="Never")
    assert told == "preemption: not eligible due to preemptionPolicy=Never."


PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
"""The condition of a pod that had to make room."""


@pytest.mark.parametrize(
    ("refusal", "deleted", "conditions", "waits"),
    [
        (unschedulable("no"), True, [PREEMPTED], True),
        (unschedulable("no"), True, [], False),
        (unschedulable("no"), True, [{**PREEMPTED, "reason": "EvictionByEvictionAPI"}], False),
        (unschedulable("no"), True, [{**PREEMPTED, "status": "False"}], False),
        (unschedulable("no"), False, [PREEMPTED], False),
        (unresolvable("no"), True, [PREEMPTED], False),
    ],
)
def test_only_a_pod_that_was_preempted_and_still_ends_is_waited_for(
    refusal: Status, deleted: bool, conditions: list[dict[str, str]], waits: bool
) -> None:
    leaving = pod("q", priority=1)
    if deleted:
        leaving = with_metadata(leaving, deletion_timestamp=Time(0))
    leaving = replace(leaving, status=from_dict(PodStatus, {"conditions": conditions}))
    told = words(refusal, leaving, nominated="n")
    assert ("a terminating pod on the nominated node" in told) == waits


def test_a_victim_is_waited_for_before_the_status_of_the_pod_has_the_nomination() -> None:
    """A pod may be tried again at once, and its nomination is written beside it."""
    leaving = with_metadata(pod("q", priority=1), deletion_timestamp=Time(0))
    leaving = replace(leaving, status=from_dict(PodStatus, {"conditions": [PREEMPTED]}))
    told = words(unschedulable("no"), leaving, nominated="n", written=False)
    assert "a terminating pod on the nominated node" in told


@pytest.mark.parametrize(("release", "victim"), [("1.37", "protected"), ("1.38", "free")])
def test_from_138_on_a_budget_with_an_empty_selector_protects_its_namespace(release: str, victim: str) -> None:
    """kubernetes/kubernetes#141785: the lower priority decides only among victims whose budgets allow it."""
    budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 1, "selector": {}}}

    async def body(world: World) -> None:
        await world.create(from_dict(PodDisruptionBudget, budget))
        await world.create(node("n1", cpu="2"), node("n2", cpu="2"))
        for value in (1, 2, 9):
            await world.create(from_dict(PriorityClass, {"metadata": {"name": f"p{value}"}, "value": value}))
        full: dict[str, Any] = {"requests": {"cpu": "2"}, "labels": {"a": "b"}}
        protected = pod("protected", nodeName="n1", priorityClassName="p1", **full)
        free = pod("free", nodeName="n2", priorityClassName="p2", **full)
        await world.create(protected)
        await world.client.resource(PODS, "kube-public").create(with_metadata(free, namespace="kube-public"))
        await world.create(pod("p", priorityClassName="p9", **full))
        await world.until(lambda: nominated(world, "p"))
        assert await nominated(world, "p") == ("n1" if victim == "protected" else "n2")

    play(body, release=release)
