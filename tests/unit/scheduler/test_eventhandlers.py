"""What the scheduler makes of pods and nodes that come, change and go."""

from __future__ import annotations

import asyncio

import pytest

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import Time, encode, replace, to_dict
from cathedra.api.undecodable import Undecodable, identify
from cathedra.client.objects import with_metadata
from cathedra.clock import LoopClock, run_virtual
from cathedra.scheduler.eventhandlers import EventHandlers, node_actions
from cathedra.scheduler.framework.events import Action
from cathedra.scheduler.queue.queue import SchedulingQueue
from cathedra.scheduler.state.cache import Cache, Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod


class Scene:
    """Handlers on an empty cache and queue."""

    def __init__(self) -> None:
        self.cache, self.nominations = Cache(), Nominations()
        self.queue = SchedulingQueue(LoopClock(asyncio.get_running_loop()), lambda _: None, {})
        self.handlers = EventHandlers(self.cache, self.queue, self.nominations, "default-scheduler")

    def waiting(self) -> int:
        return self.queue.statistics()["active"]

    def on(self, name: str) -> set[str]:
        info = self.cache.node(name)
        return {one.name for one in info.pods.values()} if info is not None else set()


def scene() -> Scene:
    async def main() -> Scene:
        return Scene()

    return run_virtual(main())


def bound(old: Pod, to: str) -> Pod:
    return replace(old, spec=replace(old.spec, node_name=to))


def ended(old: Pod) -> Pod:
    return replace(old, status=replace(old.status, phase="Succeeded"))


def test_a_pod_waits_until_it_is_bound_and_then_takes_room() -> None:
    s = scene()
    s.handlers.node_added(node("n1"))
    s.handlers.pod_added(pod("p"))
    assert s.waiting() == 1
    s.handlers.pod_updated(pod("p"), bound(pod("p"), "n1"))
    assert s.waiting() == 0
    assert s.on("n1") == {"p"}
    s.handlers.pod_deleted(bound(pod("p"), "n1"))
    assert s.on("n1") == set()


def test_a_pod_that_has_ended_takes_no_room() -> None:
    s = scene()
    s.handlers.node_added(node("n1"))
    running = bound(pod("p"), "n1")
    s.handlers.pod_added(running)
    s.handlers.pod_updated(running, ended(running))
    assert s.on("n1") == set()
    s.handlers.pod_added(ended(bound(pod("q"), "n1")))
    s.handlers.pod_deleted(ended(running))
    assert s.on("n1") == set()


@pytest.mark.parametrize(("name", "mine"), [("", 1), ("default-scheduler", 1), ("another", 0)])
def test_only_pods_of_this_scheduler_wait_here(name: str, mine: int) -> None:
    s = scene()
    s.handlers.pod_added(pod("p", schedulerName=name))
    assert s.waiting() == mine


def test_a_nomination_in_the_status_is_respected_until_the_pod_is_placed() -> None:
    s = scene()
    nominated = pod("p", priority=5, status={"nominatedNodeName": "n1"})
    s.handlers.pod_added(nominated)
    other = PodInfo(pod("other"))
    assert [one.name for one in s.nominations.ahead_of(other, "n1")] == ["p"]
    s.handlers.pod_updated(nominated, bound(nominated, "n1"))
    assert s.nominations.ahead_of(other, "n1") == ()


def test_a_pod_that_goes_before_it_was_placed_leaves_nothing() -> None:
    s = scene()
    nominated = pod("p", status={"nominatedNodeName": "n1"})
    s.handlers.pod_added(nominated)
    s.handlers.pod_deleted(nominated)
    assert s.waiting() == 0
    assert len(s.nominations) == 0


def test_a_nomination_that_another_takes_back_is_over() -> None:
    s = scene()
    nominated = pod("p", priority=5, status={"nominatedNodeName": "n1"})
    s.handlers.pod_added(nominated)
    s.handlers.pod_updated(nominated, pod("p", priority=5))
    assert len(s.nominations) == 0


@pytest.mark.parametrize("deleted", ["at once", "with a finalizer"])
def test_a_pod_that_is_deleted_on_its_way_to_a_node_takes_no_room_any_more(deleted: str) -> None:
    s = scene()
    s.handlers.node_added(node("n1"))
    s.cache.assume(PodInfo(pod("p")).on("n1"))
    if deleted == "at once":
        s.handlers.pod_deleted(pod("p"))
    else:
        s.handlers.pod_updated(pod("p"), with_metadata(pod("p"), deletion_timestamp=Time(0)))
    assert s.on("n1") == set()


def test_a_node_that_goes_takes_no_pods_any_more() -> None:
    s = scene()
    s.handlers.node_added(node("n1"))
    s.handlers.node_deleted(node("n1"))
    assert s.cache.snapshot().nodes == []


@pytest.mark.parametrize(
    ("new", "actions"),
    [
        (node("n"), Action(0)),
        (node("n", labels={"a": "b"}), Action.UPDATE_NODE_LABEL),
        (node("n", cpu="8"), Action.UPDATE_NODE_ALLOCATABLE),
        (node("n", unschedulable=True), Action.UPDATE_NODE_TAINT),
        (node("n", taints=[{"key": "k", "effect": "NoSchedule"}]), Action.UPDATE_NODE_TAINT),
        (node("n", labels={"a": "b"}, cpu="8"), Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE),
    ],
)
def test_a_node_that_changed_is_told_by_what_changed(new: Node, actions: Action) -> None:
    assert node_actions(node("n"), new) == actions


def test_a_heartbeat_is_no_change() -> None:
    beat = Node(metadata=ObjectMeta(name="n", resource_version="2"))
    assert node_actions(Node(metadata=ObjectMeta(name="n", resource_version="1")), beat) == Action(0)


TWO_CPUS = PodInfo(pod("p", requests={"cpu": "2"})).requests["cpu"]


def odd(old: Pod, path: str = "spec.volumes", **spec: object) -> Undecodable:
    """A pod that cannot be decoded any more."""
    values = to_dict(old)
    body = encode({**values, "spec": {**values["spec"], **spec}})
    return identify(Pod, body, ValueError(f"Expected `array`, got `int` - at `$.{path}`"))


def test_a_pod_that_cannot_be_decoded_any_more_keeps_the_room_that_it_had() -> None:
    s = scene()
    s.handlers.node_added(node("n1"))
    running = bound(pod("p", requests={"cpu": "2"}), "n1")
    s.handlers.pod_added(running)
    info = s.cache.node("n1")
    assert info is not None
    what = odd(running, containers=3)
    s.handlers.pod_undecodable(what)
    assert info.requested["cpu"] == TWO_CPUS
    s.handlers.pod_resolved(what, None)
    assert s.on("n1") == set()


def test_a_pod_that_never_could_be_decoded_takes_the_room_that_can_be_read() -> None:
    s = scene()
    s.handlers.node_added(node("n1"))
    whole, faulty = pod("p", requests={"cpu": "2"}), pod("q", requests={"cpu": "1"})
    s.handlers.pod_undecodable(odd(bound(whole, "n1"), volumes=5))
    s.handlers.pod_undecodable(odd(bound(faulty, "n1"), containers=[5] * 100))
    assert s.on("n1") == {"p", "q"}
    info = s.cache.node("n1")
    assert info is not None
    assert info.requested["cpu"] == TWO_CPUS
    again = bound(pod("p", requests={"cpu": "3"}), "n1")
    s.handlers.pod_resolved(odd(bound(whole, "n1"), volumes=5), again)
    s.handlers.pod_added(again)
    assert info.requested["cpu"] == TWO_CPUS * 3 // 2


def test_a_pod_that_cannot_be_decoded_waits_for_nothing() -> None:
    s = scene()
    s.handlers.pod_added(pod("p"))
    s.handlers.pod_undecodable(odd(pod("p"), volumes=5))
    assert s.waiting() == 0
    s.handlers.pod_resolved(odd(pod("p"), volumes=5), pod("p"))
    s.handlers.pod_added(pod("p"))
    assert s.waiting() == 1


@pytest.mark.parametrize("over", [True, False])
def test_it_takes_no_room_once_it_has_ended(over: bool) -> None:
    """As far as can be read, or in a state that can be decoded."""
    s = scene()
    s.handlers.node_added(node("n1"))
    running = bound(pod("p"), "n1")
    s.handlers.pod_undecodable(odd(running, volumes=5))
    assert s.on("n1") == {"p"}
    if over:
        s.handlers.pod_undecodable(odd(ended(running), volumes=5))
    else:
        s.handlers.pod_resolved(odd(running, volumes=5), ended(running))
    assert s.on("n1") == set()
