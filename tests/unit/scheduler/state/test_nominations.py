"""Pods for which room is being made."""

from __future__ import annotations

import pytest

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
