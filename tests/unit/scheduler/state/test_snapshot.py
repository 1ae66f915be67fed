"""The nodes as one cycle sees them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot, zone_by_zone
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
