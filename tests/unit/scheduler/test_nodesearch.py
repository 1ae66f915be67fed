"""How many nodes are looked at, and in which order (docs/spec/scheduling.md §1)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.nodesearch import NodeSearch, SelectedNode, nodes_to_find
from cathedra.scheduler.plugins.node_resources import NodeResourcesFit
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.nominations import Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.outcome import outcome


@pytest.mark.parametrize(
    ("nodes", "wanted"), [(0, 0), (99, 99), (100, 100), (250, 120), (1000, 420), (5000, 500), (6000, 300)]
)
def test_large_clusters_are_searched_in_part(nodes: int, wanted: int) -> None:
    assert nodes_to_find(nodes) == wanted


def test_the_next_search_begins_where_the_last_one_ended() -> None:
    cache = Cache()
    for index in range(300):
        cache.set_node(node(f"n{index}", labels={}))
    search = NodeSearch(Profile([NodeResourcesFit(lambda _: False)]), Nominations(), Random(1))
    seen: Counter[str] = Counter()
    for _ in range(30):
        found = search.find(CycleState(cache.snapshot()), PodInfo(pod("p")))
        assert isinstance(found, SelectedNode)
        assert found.evaluated == 144
        seen[found.node] += 1
    assert {int(name[1:]) // 100 for name in seen} == {0, 1, 2}


def test_nodes_are_ordered_zone_by_zone() -> None:
    cache = Cache()
    for name, zone in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")):
        cache.set_node(node(name, labels={"topology.kubernetes.io/zone": zone}))
    assert [info.name for info in cache.snapshot().nodes] == ["a1", "b1", "a2", "a3"]


def test_room_that_is_being_made_for_a_more_important_pod_is_not_taken() -> None:
    cache = Cache()
    cache.set_node(node("n", cpu="4"))
    nominations = Nominations()
    nominations.set(PodInfo(pod("important", priority=10, requests={"cpu": "3"})), "n")
    search = NodeSearch(Profile([NodeResourcesFit(lambda _: False)]), nominations, Random(1))
    state = CycleState(cache.snapshot())
    assert not isinstance(search.find(state, PodInfo(pod("p", requests={"cpu": "2"}))), SelectedNode)
    equal = PodInfo(pod("higher", priority=11, requests={"cpu": "2"}))
    assert isinstance(search.find(state, equal), SelectedNode)


def test_ties_are_broken_by_the_given_random() -> None:
    nodes = [node(f"n{i}") for i in range(20)]
    assert outcome(pod("p"), nodes) == outcome(pod("p"), nodes)
