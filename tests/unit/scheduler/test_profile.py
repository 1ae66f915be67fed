"""Plugins in order, at each extension point."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.clock import run_virtual
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.plugin import (
    CycleState,
    FilterPlugin,
    Narrowed,
    NodePredicate,
    NodeScore,
    Nomination,
    PostFilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from cathedra.scheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from cathedra.scheduler.plugins.image_locality import ImageLocality
from cathedra.scheduler.plugins.node_fitness import NodeUnschedulable, TaintToleration
from cathedra.scheduler.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from cathedra.scheduler.profile import Profile, Scope
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot
from tests.unit.scheduler.objects import node, pod

POD = PodInfo(pod("p"))
NODE = NodeInfo(node("n"))


def state() -> CycleState:
    return CycleState(Cache().snapshot())


class Says(PreFilterPlugin, FilterPlugin, ScorePlugin, ReservePlugin, PreBindPlugin, PostFilterPlugin):
    """Returns its given results, and records its calls."""

    def __init__(
        self,
        name: str,
        log: list[str],
        answer: Status | None = None,
        *,
        narrowed: frozenset[str] | None = None,
        scores: Sequence[int] | None = None,
        nomination: str = "",
        weight: int = 1,
    ) -> None:
        self.name, self.log, self.answer, self.weight = name, log, answer, weight
        self.narrowed, self.scores, self.nomination = narrowed, scores, nomination

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | Narrowed | None:
        self.log.append(self.name)
        return Narrowed(self.narrowed) if self.narrowed is not None else self.answer

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.log.append(self.name)
        return self.answer

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        return self.scores

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        self.log.append(self.name)
        return self.answer

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        self.log.append(self.name)
        if self.answer is not None:
            raise KeyError(self.name)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        self.log.append(self.name)
        return self.answer

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Status | Nomination:
        self.log.append(self.name)
        return Nomination(self.nomination) if self.nomination else self.answer or unschedulable()


def test_the_first_refusal_is_signed_and_ends_the_question() -> None:
    log: list[str] = []
    profile = Profile([Says("A", log), Says("B", log, unschedulable("no")), Says("C", log)])
    refusal = profile.filter(profile.filters(state()), state(), POD, NODE)
    assert refusal is not None
    assert (refusal.plugin, refusal.message) == ("B", "no")
    assert log == ["A", "B"]


def test_errors_are_worded_with_the_extension_point() -> None:
    profile = Profile([Says("A", [], error("boom"))])
    filtered = profile.filter(profile.filters(state()), state(), POD, NODE)
    reserved = profile.reserve(state(), POD, "n")
    written = run_virtual(profile.pre_bind(state(), POD, "n"))
    assert [answer.message for answer in (filtered, reserved, written) if answer is not None] == [
        'running "A" filter plugin: boom',
        'running Reserve plugin "A": boom',
        'running PreBind plugin "A": boom',
    ]


def test_a_plugin_that_skips_is_not_asked_about_nodes() -> None:
    log: list[str] = []
    profile = Profile([Says("A", log, Status(Code.SKIP)), Says("B", log)])
    cycle = state()
    assert profile.pre_filter(cycle, POD, cycle.snapshot) == Scope()
    assert [plugin.name for plugin, *_ in profile.filters(cycle)] == ["B"]


def test_nodes_are_narrowed_to_those_that_all_plugins_mean() -> None:
    profile = Profile([Says("A", [], narrowed=frozenset("xy")), Says("B", [], narrowed=frozenset("yz"))])
    cycle = state()
    assert profile.pre_filter(cycle, POD, cycle.snapshot) == Scope(frozenset("y"), ("A", "B"))


def test_nothing_left_is_a_refusal_that_names_the_plugins() -> None:
    profile = Profile([Says("A", [], narrowed=frozenset("x")), Says("B", [], narrowed=frozenset("y"))])
    cycle = state()
    refusal = profile.pre_filter(cycle, POD, cycle.snapshot)
    assert isinstance(refusal, Status)
    assert "A" in refusal.message
    assert "B" in refusal.message


def test_scores_are_weighted_and_a_plugin_without_opinion_counts_nothing() -> None:
    plugins = [Says("A", [], scores=[100, 50], weight=2), Says("B", []), Says("C", [], scores=[0, 30])]
    assert Profile(plugins).score(state(), POD, [NODE, NODE]) == ([200, 130], None)


def test_everything_is_let_go_in_reverse_even_if_a_plugin_breaks() -> None:
    log: list[str] = []
    profile = Profile([Says("A", log), Says("B", log, error("broken")), Says("C", log)])
    run_virtual(profile.unreserve(state(), POD, "n"))
    assert log == ["C", "B", "A"]


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"nomination": "n2"}, ("", Nomination("n2"))),
        ({"answer": unresolvable("neither")}, ("first, neither", None)),
        ({"answer": error("broken")}, ("broken", None)),
    ],
)
def test_the_first_nomination_ends_post_filtering_and_words_are_collected(
    second: dict[str, object], expected: tuple[str, Nomination | None]
) -> None:
    profile = Profile([Says("A", [], unschedulable("first")), Says("B", [], **second)])  # type: ignore[arg-type]
    assert run_virtual(profile.post_filter(state(), POD, Diagnosis(1))) == expected


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_is_kept_about_nodes_is_what_each_plugin_says_anew(dice: random.Random) -> None:
    """Predicates and scores of all plugins together, while nodes and pods come, go and change."""
    fit = NodeResourcesFit(lambda _: False)
    plugins = [NodeUnschedulable(), TaintToleration(), fit, NodeResourcesBalancedAllocation(), ImageLocality()]
    profile, cache = Profile(plugins), Cache()
    for step in range(12):
        soft = dice.random() < 0.1
        taints = [{"key": "k", "effect": "PreferNoSchedule" if soft else "NoSchedule"}] if dice.random() < 0.2 else []
        name = f"n{dice.randrange(4)}"
        cache.set_node(node(name, unschedulable=dice.random() < 0.1, taints=taints, pods=str(dice.randint(1, 3))))
        cache.add_pod(pod(f"old{step}", nodeName=name, requests={"cpu": str(dice.randint(0, 2))}))
        if dice.random() < 0.3:
            cache.remove_pod(pod(f"old{dice.randrange(step + 1)}").metadata.uid)
        info = PodInfo(pod("new", requests={"cpu": "1"} if dice.random() < 0.8 else {}))
        found = CycleState(cache.snapshot())
        nodes = found.snapshot.nodes
        calls = profile.batch_filters(found, info, nodes)
        alone = CycleState(Snapshot.of(nodes, {}))
        for one in nodes:
            each = [plugin.filter(alone, info, one) for plugin in plugins if isinstance(plugin, FilterPlugin)]
            refusal = next((status for status in each if status is not None), None)
            said = profile.filter(calls, found, info, one)
            assert (said and said.reasons) == (refusal and refusal.reasons)
        expected = [0] * len(nodes)
        for plugin in plugins:
            scores = plugin.score(alone, info, nodes) if isinstance(plugin, ScorePlugin) else None
            for place, score in enumerate(scores or ()):
                assert isinstance(plugin, ScorePlugin)
                expected[place] += plugin.weight * score
        totals, bound = profile.score(found, info, nodes)
        assert totals == expected
        assert bound is None or bound >= max(totals)


def has_label(label: str, value: str, node: NodeInfo) -> bool:
    return node.node.metadata.labels.get(label) == value


def processors(node: NodeInfo) -> int:
    return node.allocatable["cpu"] // 1000


class OwnNodes(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """Accepts nodes of the pod's own tenant alone, and scores them for the pods of blue."""

    def __init__(self, name: str = "OwnNodes", label: str = "tenant") -> None:
        self.name, self.label = name, label

    def skips(self, pod: PodInfo) -> bool:
        return self.label not in pod.pod.metadata.labels

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | Narrowed | None:
        return Status(Code.SKIP) if self.skips(pod) else None

    def predicate(self, pod: PodInfo) -> NodePredicate | None:
        owner = pod.pod.metadata.labels.get(self.label)
        return None if owner is None else NodePredicate(has_label, (self.label, owner))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        predicate = self.predicate(pod)
        return None if predicate is None or predicate.holds(node) else unresolvable("another tenant's")

    def scores_zero(self, pod: PodInfo) -> bool:
        return pod.pod.metadata.labels.get(self.label) != "blue"

    def node_score(self, pod: PodInfo) -> NodeScore | None:
        return None if self.scores_zero(pod) else NodeScore(processors)

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        score = self.node_score(pod)
        return None if score is None else [score.of(one) for one in nodes]


def tenants(*plugins: OwnNodes) -> tuple[Profile, Snapshot]:
    cache = Cache()
    for place, labels in enumerate(({"tenant": "red"}, {"tenant": "blue"}, {"team": "red"}, {"team": "blue"})):
        cache.set_node(node(f"n{place}", cpu=str(place + 1), labels=labels))
    return Profile(plugins), cache.snapshot()


def judged(profile: Profile, snapshot: Snapshot, labels: dict[str, str]) -> tuple[str, list[int]]:
    """The nodes that pass, and the scores of all."""
    info, cycle = PodInfo(pod("p", labels=labels)), CycleState(snapshot)
    profile.pre_filter(cycle, info, snapshot)
    calls = profile.batch_filters(cycle, info, snapshot.nodes)
    passing = [one.name for one in snapshot.nodes if profile.filter(calls, cycle, info, one) is None]
    return " ".join(passing), profile.score(cycle, info, snapshot.nodes)[0]


def test_each_pod_is_judged_by_its_own_labels() -> None:
    profile, snapshot = tenants(OwnNodes())
    for _ in range(2):
        assert judged(profile, snapshot, {"tenant": "red"}) == ("n0", [0] * 4)
        assert judged(profile, snapshot, {"tenant": "blue"}) == ("n1", [1, 2, 3, 4])
        assert judged(profile, snapshot, {}) == ("n0 n1 n2 n3", [0] * 4)


def test_keys_of_predicates_and_scores_are_apart_for_each_plugin() -> None:
    profile, snapshot = tenants(OwnNodes(), OwnNodes("OwnTeam", "team"))
    for _ in range(2):
        assert judged(profile, snapshot, {"tenant": "blue"})[0] == "n1"
        assert judged(profile, snapshot, {"team": "blue"})[0] == "n3"
