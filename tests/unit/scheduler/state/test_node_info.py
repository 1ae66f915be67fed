"""A node with the sums of its pods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.meta_v1 import LabelSelector
from cathedra.api.selectors import from_label_selector
from cathedra.api.struct import Time
from cathedra.client.objects import with_metadata
from cathedra.scheduler.state.node_info import MOST_REMEMBERED, NodeInfo, ports_conflict
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod

TAINTS = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"}]


def busy(name: str, cpu: str, port: int = 0) -> PodInfo:
    ports = [{"containerPort": 80, "hostPort": port}] if port else []
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}, "ports": ports}
    return PodInfo(pod(name, containers=[container]))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 9)), max_size=20))
def test_sums_are_those_of_the_pods_that_are_there(steps: list[tuple[str, int]]) -> None:
    info = NodeInfo(node("n"))
    there: dict[str, int] = {}
    for name, cpu in steps:
        if name in there:
            assert info.remove(f"uid-{name}") is not None
            del there[name]
        else:
            info.add(busy(name, str(cpu), 8000 + cpu))
            there[name] = cpu
        assert info.requested.get("cpu", 0) == 1000 * sum(there.values())
        assert set(info.ports) == {("0.0.0.0", "TCP", 8000 + cpu) for cpu in there.values()}


def test_every_change_is_a_new_generation() -> None:
    info = NodeInfo(node("n"))
    seen = [info.generation]
    info.add(busy("a", "1"))
    seen.append(info.generation)
    info.remove("uid-a")
    seen.append(info.generation)
    info.set_node(node("n", cpu="8"))
    seen.append(info.generation)
    assert seen == sorted(set(seen))
    assert info.remove("uid-a") is None
    assert info.generation == seen[-1], "nothing has changed"


def test_a_copy_does_not_change_its_original() -> None:
    info = NodeInfo(node("n"))
    info.add(busy("a", "1", 80))
    trial = info.copy()
    trial.remove("uid-a")
    assert trial.requested["cpu"] == 0
    assert info.requested["cpu"] == 1000
    assert info.ports


def test_taints_are_told_apart_by_their_effect() -> None:
    info = NodeInfo(node("n", taints=TAINTS, unschedulable=True))
    assert [taint.key for taint in info.hard_taints] == ["a"]
    assert [taint.key for taint in info.soft_taints] == ["b"]
    assert info.unschedulable


@pytest.mark.parametrize(
    ("wanted", "used", "conflict"),
    [
        (("0.0.0.0", "TCP", 80), ("127.0.0.1", "TCP", 80), True),
        (("127.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("127.0.0.1", "TCP", 80), ("127.0.0.2", "TCP", 80), False),
        (("0.0.0.0", "UDP", 80), ("0.0.0.0", "TCP", 80), False),
        (("0.0.0.0", "TCP", 81), ("0.0.0.0", "TCP", 80), False),
    ],
)
def test_the_wildcard_address_collides_with_every_other(
    wanted: tuple[str, str, int], used: tuple[str, str, int], conflict: bool
) -> None:
    assert ports_conflict([wanted], [used]) is conflict


def names(info: NodeInfo) -> list[str]:
    return [one.name for one in info.pods_in_order()]


def test_the_last_pod_fills_the_gap_of_one_that_goes_or_is_renewed() -> None:
    info = NodeInfo(node("n"))
    for name in ("a", "b", "c", "d"):
        info.add(PodInfo(pod(name)))
    info.renew(PodInfo(pod("a")))
    assert names(info) == ["d", "b", "c", "a"]
    info.renew(PodInfo(pod("a")))
    assert names(info) == ["d", "b", "c", "a"]
    info.remove("uid-b")
    assert names(info) == ["d", "a", "c"]


def test_a_copy_has_an_order_of_its_own() -> None:
    info = NodeInfo(node("n"))
    info.add(PodInfo(pod("a")))
    info.copy().remove("uid-a")
    assert names(info) == ["a"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["web", "db", "leaving", "gone"])), max_size=20))
def test_selected_pods_are_counted_as_they_are_now(steps: list[tuple[str, str]]) -> None:
    info = NodeInfo(node("n"))
    web = from_label_selector(LabelSelector(match_labels={"app": "web"}))
    there: dict[str, str] = {}
    for name, kind in steps:
        made = pod(name, labels={"app": "db" if kind == "db" else "web"})
        if kind == "leaving":
            made = with_metadata(made, deletion_timestamp=Time(0))
        if kind == "gone":
            info.remove(f"uid-{name}")
            there.pop(name, None)
        else:
            (info.renew if name in there else info.add)(PodInfo(made))
            there[name] = kind
        assert info.selected("default", web) == sum(kind == "web" for kind in there.values())
        assert info.selected("other", web) == 0


def test_a_node_remembers_so_many_selectors() -> None:
    info = NodeInfo(node("n"))
    info.add(PodInfo(pod("p", labels={"app": "a7"})))
    for number in range(3 * MOST_REMEMBERED):
        selector = from_label_selector(LabelSelector(match_labels={"app": f"a{number}"}))
        assert info.selected("default", selector) == (number == 7)
        assert len(info.alike) <= MOST_REMEMBERED
