"""The nodes as one cycle sees them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cathedra.allocation.supply.snapshots import MOST_CHANGES
from cathedra.api.core.meta_v1 import LabelSelector
from cathedra.api.selectors import from_label_selector
from cathedra.api.struct import Time, replace
from cathedra.client.objects import with_metadata
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import MOST_NAMES, MOST_RESULTS, Snapshot, zone_by_zone
from tests.unit.scheduler.objects import node, pod

ANTI = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def zoned(name: str, zone: str) -> NodeInfo:
    return NodeInfo(node(name, labels={"topology.kubernetes.io/zone": zone} if zone else {}))


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=12))
def test_every_node_comes_once_and_every_stretch_has_each_zone_at_most_once(zones: list[str]) -> None:
    nodes = [zoned(f"n{place}", zone) for place, zone in enumerate(zones)]
    ordered = zone_by_zone(nodes)
    assert sorted(info.name for info in ordered) == sorted(info.name for info in nodes)
    zone_of = dict(zip((info.name for info in nodes), zones, strict=True))
    turns: list[set[str]] = [set()]
    for info in ordered:
        zone = zone_of[info.name]
        if zone in turns[-1]:
            turns.append(set())
        turns[-1].add(zone)
    assert len(turns) == max((zones.count(zone) for zone in set(zones)), default=1)


def test_the_region_tells_zones_of_one_name_apart() -> None:
    def at(name: str, region: str) -> NodeInfo:
        labels = {"topology.kubernetes.io/region": region, "topology.kubernetes.io/zone": "a"}
        return NodeInfo(node(name, labels=labels))

    ordered = zone_by_zone([at("x1", "x"), at("x2", "x"), at("y1", "y")])
    assert [info.name for info in ordered] == ["x1", "y1", "x2"]


def test_one_node_can_look_otherwise_for_a_trial() -> None:
    first, second = NodeInfo(node("a")), NodeInfo(node("b"))
    snapshot = Snapshot.of([first, second], {})
    trial = second.copy()
    trial.add(PodInfo(pod("p", affinity=ANTI)))
    changed = snapshot.with_node(trial)
    assert [info.name for info in changed.nodes_with_affinity()] == ["b"]
    assert changed.by_name["b"] is trial
    assert snapshot.by_name["b"] is second
    assert list(snapshot.nodes_with_affinity()) == []
    assert changed.places == snapshot.places == {"a": 0, "b": 1}


NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("pod", "gone", "relabelled", "ending", "cordon", "uncordon", "resource", "vanish", "look")),
        st.sampled_from(NAMES),
    ),
    max_size=30,
)


def idle(info: NodeInfo) -> bool:
    return not info.pods and not info.unschedulable


def schedulable(info: NodeInfo) -> bool:
    return not info.unschedulable


def count(info: NodeInfo) -> int:
    return len(info.pods)


LABELLED = from_label_selector(LabelSelector(match_labels={"a": "b"}))


def labelled(info: NodeInfo) -> tuple[str, int] | None:
    """Two domains; a cordoned node does not count."""
    return None if info.unschedulable else ("ab" if info.name < "c" else "c", info.selected("default", LABELLED))


def summed(nodes: Iterable[NodeInfo]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for domain, number in filter(None, map(labelled, nodes)):
        sums[domain] = sums.get(domain, 0) + number
    return sums


@given(STEPS)
def test_whatever_happens_to_nodes_is_followed_up(steps: list[tuple[str, str]]) -> None:
    cache = Cache()
    for name in NAMES:
        cache.set_node(node(name, labels={}))
    for number, (step, name) in enumerate(steps):
        match step:
            case "pod":
                cache.assume(PodInfo(pod(f"p{number}")).on(name))
            case "gone":
                for uid in list(cache.snapshot().by_name[name].pods)[:1] if name in cache.snapshot().by_name else ():
                    cache.remove_pod(uid)
            case "relabelled" | "ending":
                info = cache.snapshot().by_name.get(name)
                for known in list(info.pods.values())[:1] if info is not None else ():
                    change: dict[str, Any] = (
                        {"labels": {"a": "b"}} if step == "relabelled" else {"deletion_timestamp": Time(1.0)}
                    )
                    cache.add_pod(with_metadata(known.pod, **change))
            case "vanish":
                cache.remove_node(name)
            case "look":
                pass
            case "resource":
                cache.set_node(node(name, labels={}, **{f"x.com/{number}": "1"}))
            case _:
                cache.set_node(node(name, labels={}, unschedulable=step == "cordon"))
        if step != "pod":
            check(cache.snapshot())
    check(cache.snapshot())


def check(snapshot: Snapshot) -> None:
    for nodes in (snapshot.nodes[1:2], snapshot.nodes):
        found = snapshot.nodes_that(idle, (), nodes)
        assert found.intersection(nodes) == {info for info in nodes if idle(info)}
        assert snapshot.all_are(schedulable, (), nodes) == all(map(schedulable, nodes))
    assert snapshot.sums_of(labelled, ()) == summed(snapshot.nodes)
    assert snapshot.resources() >= {name for info in snapshot.nodes for name in info.allocatable}
    assert snapshot.api_nodes() == tuple(info.node for info in snapshot.nodes)
    everything = list(snapshot.nodes)
    for nodes in (everything[2:] + everything[:1], everything[::2], everything[::-1], everything, []):
        assert snapshot.values_of(count, (), nodes) == [count(info) for info in nodes]
        totals, bound = snapshot.totals_of(count, (), nodes)
        assert totals == [count(info) for info in nodes]
        assert bound >= max(totals, default=0)
    assert bound == max(map(count, everything), default=0), "no node is left out"


def test_a_pod_that_is_being_deleted_is_a_change_of_its_node_and_its_status_is_none() -> None:
    info = NodeInfo(node("a"))
    known = pod("p", labels={"a": "b"})
    info.add(PodInfo(known))
    assert info.selected("default", LABELLED) == 1
    generation = info.generation
    info.renew(PodInfo(replace(known, status=replace(known.status, phase="Running"))))
    assert (info.generation, info.selected("default", LABELLED)) == (generation, 1)
    info.renew(PodInfo(with_metadata(known, deletion_timestamp=Time(1.0))))
    assert info.generation > generation
    assert info.selected("default", LABELLED) == 0


def test_nodes_that_did_not_change_are_not_looked_at_again() -> None:
    cache = Cache()
    for name in NAMES:
        cache.set_node(node(name, labels={}))
    looked: list[str] = []

    def value(info: NodeInfo) -> int:
        looked.append(info.name)
        return 0

    for _ in range(2):
        assert cache.snapshot().values_of(value, (), cache.snapshot().nodes) == [0, 0, 0]
    assert looked == ["a", "b", "c"]
    cache.assume(PodInfo(pod("p")).on("b"))
    assert cache.snapshot().values_of(value, (), cache.snapshot().nodes) == [0, 0, 0]
    assert looked == ["a", "b", "c", "b"]


def test_nodes_that_no_pod_has_asked_about_are_not_looked_at() -> None:
    cache = Cache()
    for name in NAMES:
        cache.set_node(node(name, labels={}))
    looked: list[str] = []

    def holds(info: NodeInfo) -> bool:
        looked.append(info.name)
        return True

    nodes = cache.snapshot().nodes
    assert cache.snapshot().nodes_that(holds, (), nodes[:1]) == {nodes[0]}
    assert cache.snapshot().nodes_that(holds, (), nodes[:2]) == {nodes[0], nodes[1]}
    assert looked == ["a", "b"], "each once"


def test_the_api_objects_are_the_same_tuple_until_a_node_changes() -> None:
    cache = Cache()
    for name in NAMES:
        cache.set_node(node(name, labels={}))
    before = cache.snapshot().api_nodes()
    cache.assume(PodInfo(pod("p")).on("b"))
    assert cache.snapshot().api_nodes() is before, "a pod is no change of its node's object"
    changed = node("b", labels={}, unschedulable=True)
    cache.set_node(changed)
    assert cache.snapshot().api_nodes() == (before[0], changed, before[2])


def test_resources_that_no_node_has_any_more_are_forgotten_when_they_have_become_many() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    for number in range(MOST_NAMES + 1):
        cache.set_node(node("a", **{f"x.com/{number}": "1"}))
        assert f"x.com/{number}" in cache.snapshot().resources()
    assert len(cache.snapshot().resources()) < MOST_NAMES


def test_all_nodes_are_looked_at_when_more_has_changed_than_is_remembered() -> None:
    cache = Cache()
    cache.set_node(node("a", labels={}))
    assert cache.snapshot().values_of(count, (), cache.snapshot().nodes) == [0]
    cache.assume(PodInfo(pod("p")).on("a"))
    for number in range(MOST_CHANGES):
        cache.set_node(node("a", labels={}, unschedulable=bool(number % 2)))
    check(cache.snapshot())


def test_a_snapshot_without_changes_looks_each_time() -> None:
    info = NodeInfo(node("a"))
    snapshot = Snapshot.of([info], {})
    assert snapshot.nodes_that(idle, (), [info]) == {info}
    info.add(PodInfo(pod("p")))
    assert snapshot.nodes_that(idle, (), [info]) == set()


def plus(number: int, info: NodeInfo) -> int:
    return number + count(info)


def test_no_more_is_kept_than_so_much() -> None:
    snapshot = Snapshot.of([NodeInfo(node("a"))], {})
    for number in range(3 * MOST_RESULTS):
        snapshot.values_of(plus, (number,), snapshot.nodes)
        assert len(snapshot.incremental) <= MOST_RESULTS
