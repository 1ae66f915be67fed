"""Pods for which room is being made."""

from __future__ import annotations

from cathedra.scheduler.state.nominations import Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import pod


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
