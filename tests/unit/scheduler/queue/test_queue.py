"""The order of attempts: areas, back-off, hints, and events during an attempt (docs/spec/scheduling.md §1 and §3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.struct import from_dict, replace
from cathedra.client.objects import with_metadata
from cathedra.clock import LoopClock, run_virtual
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.scheduler.framework.status import Status, unresolvable
from cathedra.scheduler.queue.queue import InFlight, SchedulingQueue
from cathedra.scheduler.state.pod_info import PodInfo
from tests.running import beside, run_with
from tests.unit.scheduler.objects import node, pod

NODE_ADDED = (EventResource.NODE, Action.ADD, None, node("n1"))
NODE_RELABELLED = (EventResource.NODE, Action.UPDATE_NODE_LABEL, node("n1"), node("n1"))


def fits_hint(pod: Pod, change: ClusterEvent) -> bool:
    """A pod with a label `wants` waits for the node of that name."""
    added: Node = change.new
    return pod.metadata.labels.get("wants", added.metadata.name) == added.metadata.name


REGISTRATIONS: dict[str, Sequence[EventRegistration]] = {
    "Fit": (EventRegistration(EventResource.NODE, Action.ADD, fits_hint),),
    "Gates": (EventRegistration(EventResource.TARGET_POD, Action.UPDATE_POD_GATES_ELIMINATED),),
}


def gate(pod: PodInfo) -> Status | None:
    return unresolvable("gated").of("Gates") if pod.pod.spec.scheduling_gates else None


class Trial:
    """A queue whose order of pops is written down with its time."""

    def __init__(self) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.queue = SchedulingQueue(self.clock, gate, REGISTRATIONS)
        self.popped: list[tuple[str, float]] = []

    async def next(self) -> str:
        self.entry = await self.queue.pop()
        self.popped.append((self.entry.info.name, self.clock.monotonic()))
        return self.entry.info.name

    def idle(self) -> bool:
        counted = self.queue.statistics()
        return counted["active"] == counted["backoff"] == 0


def trial(body: Callable[[Trial], Awaitable[None]]) -> None:
    async def main() -> None:
        made = Trial()
        async with beside(made.queue.run()):
            await body(made)

    run_virtual(main())


@run_with(trial)
async def test_higher_priority_goes_first_and_equal_priorities_by_age(t: Trial) -> None:
    for name, priority in (("old", 0), ("young", 0), ("important", 7)):
        t.queue.add(pod(name, priority=priority))
    assert [await t.next() for _ in range(3)] == ["important", "old", "young"]


@run_with(trial)
async def test_a_refused_pod_sleeps_until_an_event_its_plugin_cares_about(t: Trial) -> None:
    t.queue.add(pod("a"))
    await t.next()
    t.queue.put_back(t.entry, ["Fit"])
    t.queue.move(*NODE_RELABELLED)
    assert t.idle()
    t.queue.move(*NODE_ADDED)
    assert await t.next() == "a"


@run_with(trial)
async def test_what_concerns_pods_up_to_a_priority_wakes_no_others(t: Trial) -> None:
    for name, priority in (("below", 1), ("equal", 5), ("above", 9)):
        t.queue.add(pod(name, priority=priority))
    for _ in range(3):
        await t.next()
        t.queue.put_back(t.entry, ["Fit"])
    t.queue.move(*NODE_ADDED, up_to_priority=5)
    assert {await t.next(), await t.next()} == {"below", "equal"}
    assert t.idle()


@run_with(trial)
async def test_the_hint_decides_pod_by_pod(t: Trial) -> None:
    for name, wants in (("a", "n1"), ("b", "n2")):
        t.queue.add(pod(name, labels={"wants": wants}))
        await t.next()
        t.queue.put_back(t.entry, ["Fit"])
    t.queue.move(*NODE_ADDED)
    assert await t.next() == "a"
    assert t.queue.statistics()["unschedulable"] == 1


@run_with(trial)
async def test_an_event_during_the_attempt_is_not_lost(t: Trial) -> None:
    t.queue.add(pod("a"))
    await t.next()
    t.queue.move(*NODE_ADDED)
    t.queue.put_back(t.entry, ["Fit"])
    assert await t.next() == "a"


@run_with(trial)
async def test_an_event_before_the_attempt_does_not_count(t: Trial) -> None:
    t.queue.add(pod("a"))
    t.queue.move(*NODE_ADDED)
    await t.next()
    t.queue.put_back(t.entry, ["Fit"])
    assert t.idle()


@run_with(trial)
async def test_the_event_log_is_dropped_with_the_last_pod_in_flight(t: Trial) -> None:
    for name in ("a", "b"):
        t.queue.add(pod(name))
    await t.next()
    first = t.entry
    t.queue.move(*NODE_ADDED)
    await t.next()
    t.queue.done(first.uid)
    t.queue.put_back(t.entry, ["Fit"])
    assert t.idle()
    assert t.queue.statistics()["inflight"] == 0


@run_with(trial)
async def test_broken_attempts_back_off_from_one_second_to_ten(t: Trial) -> None:
    t.queue.add(pod("a"))
    for _ in range(7):
        await t.next()
        t.queue.put_back(t.entry, ())
    times = [at for _, at in t.popped]
    assert [b - a for a, b in pairwise(times)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@run_with(trial)
async def test_a_woken_pod_in_backoff_waits_while_others_are_active(t: Trial) -> None:
    t.queue.add(pod("a"))
    await t.next()
    t.queue.put_back(t.entry, ["Fit"])
    t.queue.move(*NODE_ADDED)
    t.queue.add(pod("b"))
    assert [await t.next(), await t.next()] == ["b", "a"]
    assert t.popped[-1][1] == 0.0


@run_with(trial)
async def test_a_forgotten_pod_is_tried_again_after_five_minutes(t: Trial) -> None:
    t.queue.add(pod("a"))
    await t.next()
    t.queue.put_back(t.entry, ["Fit"])
    await t.next()
    assert 300.0 < t.popped[-1][1] <= 330.0


@run_with(trial)
async def test_a_gated_pod_enters_when_its_gates_are_removed(t: Trial) -> None:
    gated = pod("a", schedulingGates=[{"name": "g"}])
    t.queue.add(gated)
    assert t.queue.statistics()["gated"] == 1
    t.queue.update(gated, replace(gated, spec=replace(gated.spec, scheduling_gates=())))
    assert await t.next() == "a"


@run_with(trial)
async def test_the_hint_of_a_gating_plugin_decides_whether_a_change_of_the_pod_is_tried(t: Trial) -> None:
    gated = pod("a", schedulingGates=[{"name": "g"}])
    for helps in (True, False):

        def hint(waiting: Pod, change: ClusterEvent, helps: bool = helps) -> bool:
            return helps

        ungated = EventRegistration(EventResource.TARGET_POD, Action.UPDATE_POD_GATES_ELIMINATED, hint)
        queue = SchedulingQueue(t.clock, gate, {"Gates": (ungated,)})
        queue.add(gated)
        queue.update(gated, replace(gated, spec=replace(gated.spec, scheduling_gates=())))
        assert queue.statistics()["active"] == helps


@run_with(trial)
async def test_a_hint_that_is_pre_enqueue_is_called_for_pods_alone_that_were_tried(t: Trial) -> None:
    asked: list[str] = []

    def hint(waiting: Pod, change: ClusterEvent) -> bool:
        asked.append(waiting.metadata.name)
        return False

    actions = Action.UPDATE_POD_LABEL | Action.UPDATE_POD_GATES_ELIMINATED
    registration = EventRegistration(EventResource.TARGET_POD, actions, hint, as_pre_enqueue=True)
    queue = SchedulingQueue(t.clock, gate, {"Gates": (registration,)})
    tried = pod("tried")
    queue.add(tried)
    queue.put_back(await queue.pop(), ["Gates"])
    queue.update(tried, with_metadata(tried, labels={"a": "b"}))
    gated = pod("gated", schedulingGates=[{"name": "g"}])
    queue.add(gated)
    before = dict(queue.incoming)
    labelled = with_metadata(gated, labels={"a": "b"})
    queue.update(gated, labelled)
    assert queue.statistics()["gated"] == 1
    assert queue.incoming == before
    queue.update(labelled, replace(labelled, spec=replace(labelled.spec, scheduling_gates=())))
    assert (await queue.pop()).info.name == "gated"
    assert asked == ["tried"]


@run_with(trial)
async def test_pods_kept_out_of_the_queue_wait_for_changes_of_their_own_objects(t: Trial) -> None:
    asked: list[str] = []

    def hint(waiting: Pod, change: ClusterEvent) -> bool:
        asked.append(waiting.metadata.name)
        return False

    registration = EventRegistration(EventResource.NODE, Action.ADD, hint, lambda change: (["uid-a"], True))
    queue = SchedulingQueue(t.clock, gate, {"Gates": (registration,)})
    for name in ("a", "b"):
        queue.add(pod(name, schedulingGates=[{"name": "g"}]))
    queue.add(pod("tried"))
    queue.put_back(await queue.pop(), ["Gates"])
    queue.move(*NODE_ADDED)
    assert asked == ["a", "tried"]


@run_with(trial)
async def test_removing_gates_during_the_attempt_of_another_pod_wakes_only_the_gated_one(t: Trial) -> None:
    t.queue.add(pod("other"))
    await t.next()
    gated = pod("a", schedulingGates=[{"name": "g"}])
    t.queue.add(gated)
    t.queue.update(gated, replace(gated, spec=replace(gated.spec, scheduling_gates=())))
    t.queue.put_back(t.entry, ["Gates"])
    assert await t.next() == "a"
    assert t.queue.statistics()["unschedulable"] == 1


@run_with(trial)
async def test_a_deleted_pod_is_never_popped(t: Trial) -> None:
    for name in ("a", "b"):
        t.queue.add(pod(name))
    t.queue.delete("uid-a")
    assert await t.next() == "b"
    assert t.queue.statistics()["active"] == 0


@run_with(trial)
async def test_the_version_that_is_popped_is_the_newest(t: Trial) -> None:
    old = pod("a")
    t.queue.add(old)
    new = from_dict(Pod, {"metadata": {"name": "a", "uid": "uid-a", "labels": {"x": "y"}}})
    t.queue.update(old, new)
    await t.next()
    assert t.entry.info.pod.metadata.labels == {"x": "y"}


def event(number: int) -> ClusterEvent:
    return ClusterEvent(EventResource.NODE, Action.ADD, None, number)


def test_a_pod_sees_the_events_since_it_left() -> None:
    log = InFlight()
    log.start("a")
    log.record(event(1))
    log.start("b")
    log.record(event(2))
    assert [change.new for change in log.since("a")] == [1, 2]
    assert [change.new for change in log.since("b")] == [2]


def test_nothing_is_kept_while_none_is_tried() -> None:
    log = InFlight()
    log.record(event(1))
    log.start("a")
    assert list(log.since("a")) == []


def test_a_pod_that_is_done_is_forgotten_and_may_be_done_twice() -> None:
    log = InFlight()
    log.start("a")
    log.done("a")
    log.done("a")
    assert "a" not in log.left_at
    assert len(log) == 0


@given(st.lists(st.one_of(st.tuples(st.sampled_from("sd"), st.sampled_from("abc")), st.just(("e", "")))))
def test_the_shared_log_says_what_a_log_per_pod_would(steps: list[tuple[str, str]]) -> None:
    shared = InFlight()
    plain: dict[str, list[int]] = {}
    for number, (step, uid) in enumerate(steps):
        if step == "e":
            shared.record(event(number))
            for log in plain.values():
                log.append(number)
        elif step == "s" and uid not in plain:
            shared.start(uid)
            plain[uid] = []
        elif step == "d":
            shared.done(uid)
            plain.pop(uid, None)
        assert {uid: [change.new for change in shared.since(uid)] for uid in plain} == plain
