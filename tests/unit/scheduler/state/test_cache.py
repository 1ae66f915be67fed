"""Sums per node stay right whatever comes in which order."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.api.struct import replace
from cathedra.scheduler.state.cache import Cache, Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod

PLACES = [f"n{i}" for i in range(3)]
NAMES = [f"p{i}" for i in range(5)]


def placed(name: str, where: str) -> PodInfo:
    return PodInfo(pod(name, requests={"cpu": f"{int(name[1:]) + 1}"})).on(where)


# Ten thousand small choices are slow to make on a busy machine; that does not concern the cache.
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["node", "no node", "add", "remove", "assume", "forget"]),
            st.sampled_from(NAMES),
            st.sampled_from(PLACES),
        ),
        max_size=40,
    )
)
def test_requested_is_the_sum_over_the_pods_that_are_there(steps: list[tuple[str, str, str]]) -> None:
    cache = Cache()
    expected: dict[str, tuple[str, bool]] = {}
    for action, name, where in steps:
        uid = f"uid-{name}"
        if action == "node":
            cache.set_node(node(where))
        elif action == "no node":
            cache.remove_node(where)
        elif action == "add":
            cache.add_pod(placed(name, where).pod)
            expected[uid] = (where, False)
        elif action == "remove":
            cache.remove_pod(uid)
            expected.pop(uid, None)
        elif action == "assume" and uid not in expected:
            cache.assume(placed(name, where))
            expected[uid] = (where, True)
        elif action == "forget":
            cache.forget(uid)
            if expected.get(uid, ("", False))[1]:
                del expected[uid]
    assert len(cache) == len(expected)
    for info in cache.snapshot().nodes:
        there = [uid for uid, (where, _) in expected.items() if where == info.name]
        assert sorted(info.pods) == sorted(there)
        assert info.requested.get("cpu", 0) == sum(1000 * (int(uid[-1]) + 1) for uid in there)


def test_an_event_confirms_an_assumed_pod_and_corrects_its_place() -> None:
    cache = Cache()
    for name in PLACES:
        cache.set_node(node(name))
    cache.assume(placed("p1", "n0"))
    cache.add_pod(placed("p1", "n2").pod)
    assert not cache.is_assumed("uid-p1")
    assert cache.place_of("uid-p1") == "n2"
    cache.forget("uid-p1")
    assert cache.place_of("uid-p1") == "n2"


def test_a_heartbeat_keeps_the_order_of_nodes() -> None:
    cache = Cache()
    cache.set_node(node("n"))
    before = cache.snapshot()
    beaten = node("n")
    cache.set_node(replace(beaten, status=replace(beaten.status, phase="Running")))
    assert cache.snapshot() is before


def info(name: str, priority: int) -> PodInfo:
    return PodInfo(pod(name, priority=priority))


def test_pods_of_equal_or_higher_priority_are_respected() -> None:
    nominations = Nominations()
    for name, priority in (("low", 1), ("equal", 5), ("high", 9)):
        nominations.set(info(name, priority), "n")
    me = info("me", 5)
    nominations.set(me, "n")
    assert {other.name for other in nominations.ahead_of(me, "n")} == {"equal", "high"}
    assert {other.name for other in nominations.behind(me, "n")} == {"low"}
    assert nominations.ahead_of(me, "elsewhere") == ()


def test_a_pod_is_nominated_for_one_node_and_an_empty_name_takes_it_back() -> None:
    nominations = Nominations()
    high = info("high", 9)
    nominations.set(high, "a")
    nominations.set(high, "b")
    me = info("me", 1)
    assert nominations.ahead_of(me, "a") == ()
    assert [other.name for other in nominations.ahead_of(me, "b")] == ["high"]
    nominations.set(high, "")
    assert nominations.ahead_of(me, "b") == ()
    assert len(nominations) == 0


def test_a_pod_that_is_gone_may_be_removed_twice() -> None:
    nominations = Nominations()
    nominations.set(info("a", 1), "n")
    nominations.remove("uid-a")
    nominations.remove("uid-a")
    assert len(nominations) == 0


@pytest.mark.parametrize(
    ("before", "after", "node"),
    [("", "", "n"), ("n", "n", "n"), ("", "m", "m"), ("n", "m", "m"), ("n", "", None)],
)
def test_a_new_version_of_a_pod_decides_unless_its_status_never_had_a_nomination(
    before: str, after: str, node: str | None
) -> None:
    nominations = Nominations()
    old, new = (pod("p", priority=1, status={"nominatedNodeName": name}) for name in (before, after))
    nominations.set(PodInfo(old), "n")
    nominations.update(old, PodInfo(new))
    me = info("me", 0)
    found = [place for place in ("n", "m") if nominations.ahead_of(me, place)]
    assert found == ([node] if node else [])
