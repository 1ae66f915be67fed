"""What a rolling update of a daemon set replaces next."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from cathedra.api.core.apps_v1 import DaemonSet
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict
from cathedra.controllers.workloads.daemonset.rolling import Daemons, limits, next_step, surplus

NOW = 1000.0


def daemon_set(surge: int | str = 0, unavailable: int | str = 1) -> DaemonSet:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return from_dict(DaemonSet, {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}})


def pod(name: str, digest: str = "old", *, ready: bool = True) -> Pod:
    status: dict[str, Any] = {"phase": "Running"}
    if ready:
        since = "1970-01-01T00:00:00Z"
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    metadata = {"name": name, "labels": {"controller-revision-hash": digest}}
    return from_dict(Pod, {"metadata": metadata, "status": status})


def step(
    obj: DaemonSet, pods: dict[str, list[Pod]], wanted: Collection[str] | None = None
) -> tuple[list[str], list[str]]:
    """The names of the pods that go, and the nodes that get one."""
    nodes = wanted if wanted is not None else pods.keys()
    found = next_step(Daemons(obj, pods, set(nodes), "new", NOW))
    return [pod.metadata.name for pod in found.doomed], list(found.nodes)


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"),
    [(0, 0, (0, 1)), ("10%", 0, (1, 0)), (0, "50%", (0, 2)), (2, 1, (2, 1))],
)
def test_percentages_are_rounded_up(surge: int | str, unavailable: int | str, expected: tuple[int, int]) -> None:
    assert limits(daemon_set(surge, unavailable), 3) == expected


def test_unavailable_old_pods_go_at_once_and_use_up_what_may_be_unavailable() -> None:
    pods = {"a": [pod("a")], "b": [pod("b", ready=False)], "c": [pod("c")]}
    assert step(daemon_set(unavailable=1), pods) == (["b"], [])
    assert step(daemon_set(unavailable=2), pods) == (["b", "a"], [])


def test_a_node_without_a_pod_counts_as_unavailable() -> None:
    assert step(daemon_set(), {"a": [pod("a")], "b": []}) == ([], [])


def test_an_old_pod_on_a_node_that_should_have_none_is_replaced_too() -> None:
    pods = {"a": [pod("a", "new")], "tainted": [pod("t")]}
    assert step(daemon_set(), pods, wanted={"a"}) == (["t"], [])


def test_with_surge_new_pods_come_first_where_the_old_one_is_down() -> None:
    pods = {"a": [pod("a")], "b": [pod("b", ready=False)], "c": [pod("c")]}
    assert step(daemon_set(surge=1, unavailable=0), pods) == ([], ["b", "a"])


def test_with_surge_an_old_pod_goes_when_the_new_one_is_available() -> None:
    pods = {"a": [pod("old"), pod("new", "new")], "b": [pod("b"), pod("late", "new", ready=False)], "c": [pod("c")]}
    assert step(daemon_set(surge=1, unavailable=0), pods) == (["old"], [])


def test_with_surge_a_misplaced_pod_stays_until_enough_others_are_available() -> None:
    pods = {"tainted": [pod("t")], "a": [pod("a", "new", ready=False)]}
    assert step(daemon_set(surge=1, unavailable=0), pods, wanted={"a"}) == ([], [])
    pods["a"] = [pod("a", "new")]
    assert step(daemon_set(surge=1, unavailable=0), pods, wanted={"a"}) == (["t"], [])
    pods["tainted"] = [pod("t", ready=False)]
    assert step(daemon_set(surge=1, unavailable=0), pods, wanted={"a"}) == (["t"], [])


def test_a_node_with_two_pods_of_one_version_waits_for_one_to_go() -> None:
    assert step(daemon_set(), {"a": [pod("a"), pod("b")], "c": [pod("c")]}) == ([], [])
    assert step(daemon_set(surge=1), {"a": [pod("a"), pod("b")], "c": [pod("c")]}) == ([], [])


@pytest.mark.parametrize(
    ("surge", "pods", "doomed"),
    [
        (0, [pod("a"), pod("b", "new")], ["b"]),
        (1, [pod("a"), pod("b", "new", ready=False)], []),
        (1, [pod("a"), pod("b", "new")], ["a"]),
        (1, [pod("a", ready=False), pod("b", "new", ready=False)], ["a"]),
        (1, [pod("a"), pod("b"), pod("c", "new", ready=False)], ["b"]),
    ],
)
def test_surplus_pods_of_a_node(surge: int, pods: list[Pod], doomed: list[str]) -> None:
    daemons = Daemons(daemon_set(surge), {"n": pods}, {"n"}, "new", NOW)
    assert [one.metadata.name for one in surplus(daemons, pods)] == doomed
