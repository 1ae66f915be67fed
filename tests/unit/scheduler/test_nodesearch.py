"""The number of nodes that are searched, and their order (docs/spec/scheduling.md §1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import repeat
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.plugin import (
    NO_BATCH_RESULT,
    BatchFilterResult,
    CycleState,
    Evaluations,
    NodePredicate,
)
from cathedra.scheduler.nodesearch import NodeSearch, SelectedNode, nodes_to_find
from cathedra.scheduler.plugins.node_fitness import NodeUnschedulable
from cathedra.scheduler.plugins.node_resources import NodeResourcesFit
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.state.cache import Cache, Nominations
from cathedra.scheduler.state.node_info import NodeInfo
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


@given(st.lists(st.integers(0, 3), min_size=1), st.integers(0, 99))
def test_of_the_best_nodes_each_is_as_likely(totals: list[int], seed: int) -> None:
    ties = [place for place, total in enumerate(totals) if total == max(totals)]
    expected = ties[0] if len(ties) == 1 else Random(seed).choice(ties)
    for bound in (None, max(totals), max(totals) + 1):
        assert NodeSearch(Profile([]), Nominations(), Random(seed))._best(totals, bound) == expected


@pytest.mark.parametrize("others", [1, 4, 40])
@pytest.mark.parametrize("above", [None, 0, 1])
def test_of_the_best_nodes_of_a_large_cluster_each_is_as_likely(others: int, above: int | None) -> None:
    search = NodeSearch(Profile([]), Nominations(), Random(1))
    totals = [3, *[1] * others] * 60
    seen = Counter(search._best(totals, None if above is None else 3 + above) for _ in range(6000))
    assert {totals[place] for place in seen} == {3}
    assert len(seen) == 60
    assert all(60 < times < 140 for times in seen.values())


class OneByOne(NodeResourcesFit):
    """Knows nothing of many nodes at once."""

    def filter_batch(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> BatchFilterResult:
        return NO_BATCH_RESULT


class Refusing(NodeResourcesFit):
    """A plugin that refuses some nodes in advance."""

    def predicate(self, pod: PodInfo) -> NodePredicate | None:
        return None

    def filter_batch(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> BatchFilterResult:
        said = {one: self.filter(state, pod, one) for one in nodes}
        refused = {
            one: status.of(self.name) for one, status in said.items() if status is not None and one.name[-1:] < "7"
        }
        return BatchFilterResult(frozenset([one for one, status in said.items() if status is None]), refused)


class Counts:
    """Counts what is evaluated, and measures nothing."""

    def __init__(self) -> None:
        self.counters: list[tuple[tuple[str, ...], str, Evaluations]] = []

    def counted(self) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        for plugins, point, counter in self.counters:
            found.update({(plugin, point): counter.times for plugin in plugins})
        return found

    def samples(self, work: str) -> Iterator[bool]:
        return repeat(False)

    def evaluations(self, plugins: tuple[str, ...], point: str, profile: str) -> Evaluations:
        counter = Evaluations()
        self.counters.append((plugins, point, counter))
        return counter

    def ran(self, plugin: str, point: str, status: str, seconds: float) -> None:
        raise AssertionError("nothing is measured")

    def waited_for_devices(self, profile: str, driver: str, status: str, seconds: float) -> None:
        raise AssertionError("nothing is waited for")

    def monotonic(self) -> float:
        return 0.0


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(0, 299)), st.sets(st.integers(0, 299), max_size=3), st.integers(1, 4))
def test_what_is_known_of_many_nodes_at_once_changes_no_search(full: set[int], cordoned: set[int], pods: int) -> None:
    cache = Cache()
    for index in range(300):
        room = "0" if index in full else "2"
        cache.set_node(node(f"n{index}", labels={}, pods=room, unschedulable=index in cordoned))
    counts = [Counts() for _ in range(3)]
    searches = [
        NodeSearch(Profile([NodeUnschedulable(), kind(lambda _: False)], observer=one), Nominations(), Random(1))
        for kind, one in zip((NodeResourcesFit, OneByOne, Refusing), counts, strict=True)
    ]
    for number in range(pods):
        wanted = PodInfo(pod(f"p{number}"))
        found, *others = (search.find(CycleState(cache.snapshot()), wanted) for search in searches)
        assert others == [found, found]
        assert counts[0].counted() == counts[1].counted() == counts[2].counted()
        if isinstance(found, SelectedNode):
            cache.assume(wanted.on(found.node))


class Hopeless(Refusing):
    """Knows after its first refusal of all nodes that it refuses all."""

    knows = False

    def refuses_all(self, state: CycleState, pod: PodInfo) -> bool:
        return self.knows

    def filter_batch(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> BatchFilterResult:
        if self.knows:
            status = self.filter(state, pod, nodes[0])
            assert status is not None
            return BatchFilterResult(frozenset(), state.snapshot.each(status.of(self.name)))
        return super().filter_batch(state, pod, nodes)


@pytest.mark.parametrize("cordoned", [None, 7])
def test_a_filter_that_is_known_to_refuse_all_nodes_changes_no_search(cordoned: int | None) -> None:
    cache = Cache()
    for index in range(300):
        cache.set_node(node(f"n{index}", labels={}, pods="0", unschedulable=index == cordoned))
    hopeless = Hopeless(lambda _: False)
    counts = [Counts(), Counts()]
    searches = [
        NodeSearch(Profile([NodeUnschedulable(), plugin], observer=one), Nominations(), Random(1))
        for plugin, one in zip((hopeless, OneByOne(lambda _: False)), counts, strict=True)
    ]
    for _ in range(4):
        known, other = (search.find(CycleState(cache.snapshot()), PodInfo(pod("p"))) for search in searches)
        assert isinstance(known, Diagnosis)
        assert isinstance(other, Diagnosis)
        assert list(known.refusals.items()) == list(other.refusals.items())
        assert known.message() == other.message()
        assert known.unschedulable_plugins == other.unschedulable_plugins
        assert counts[0].counted() == counts[1].counted()
        hopeless.knows = True


def test_a_search_that_begins_near_the_end_goes_on_at_the_beginning() -> None:
    cache = Cache()
    for index in range(300):
        cache.set_node(node(f"n{index}", labels={}, pods="1" if index in (5, 290, 299) else "0"))
    search = NodeSearch(Profile([NodeResourcesFit(lambda _: False)]), Nominations(), Random(1), percentage=1)
    assert isinstance(search.find(CycleState(cache.snapshot()), PodInfo(pod("p"))), SelectedNode)
    seen = set()
    for number in range(3):
        found = search.find(CycleState(cache.snapshot()), PodInfo(pod(f"p{number}")))
        assert isinstance(found, SelectedNode)
        assert (found.feasible, found.evaluated) == (3 - number, 300)
        seen.add(found.node)
        cache.assume(PodInfo(pod(f"p{number}")).on(found.node))
    assert seen == {"n5", "n290", "n299"}


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
