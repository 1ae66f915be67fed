"""Events that happen while pods are being tried."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.scheduler.framework.events import Action, ClusterEvent, Resource
from cathedra.scheduler.queue.inflight import InFlight


def event(number: int) -> ClusterEvent:
    return ClusterEvent(Resource.NODE, Action.ADD, None, number)


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
    assert "a" not in log
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
