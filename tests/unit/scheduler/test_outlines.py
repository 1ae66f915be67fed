"""What is remembered of pods that ask for the same is what each plugin says anew."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.client.store import Store
from cathedra.scheduler.framework.plugin import CycleState, FilterPlugin, Plugin, PreFilterPlugin, ScorePlugin
from cathedra.scheduler.framework.status import Code, Status
from cathedra.scheduler.outlines import LIMIT, Outline, Outlines
from cathedra.scheduler.plugins.interpod_affinity import InterPodAffinity
from cathedra.scheduler.plugins.node_fitness import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration
from cathedra.scheduler.plugins.node_ports import NodePorts
from cathedra.scheduler.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from cathedra.scheduler.plugins.topology_spread import PodTopologySpread
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod

BACKED = {"y.com/gpu"}
PLUGINS: Sequence[Plugin] = (
    NodeName(),
    NodeUnschedulable(),
    TaintToleration(),
    NodeAffinity(),
    NodePorts(),
    NodeResourcesFit(lambda name: name in BACKED),
    NodeResourcesBalancedAllocation(),
    PodTopologySpread(),
    InterPodAffinity(Store()),
)
WISH = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
WISHES: Sequence[dict[str, Any]] = (
    {"nodeSelector": {"disk": "ssd"}},
    {"nodeName": "n1"},
    {"affinity": {"nodeAffinity": {}}},
    {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [WISH]}}},
    {"affinity": {"podAffinity": {}}},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
    {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]}]},
)


RESOURCES = ("cpu", "memory", "x.com/gpu", "y.com/gpu")


def outlines() -> Outlines:
    filters = [one for one in PLUGINS if isinstance(one, FilterPlugin)]
    scores = [one for one in PLUGINS if isinstance(one, ScorePlugin)]
    pre_filters = [one for one in PLUGINS if isinstance(one, PreFilterPlugin)]
    return Outlines(pre_filters, filters, scores, {one.name: one.weight for one in scores})


def random_pod(dice: random.Random) -> PodInfo:
    wishes = dice.choice(WISHES) if dice.random() < 0.4 else {}
    requests = {name: str(dice.randint(0, 2)) for name in RESOURCES if dice.random() < 0.5}
    return PodInfo(pod("p", requests=requests, **wishes))


def words(outline: Outline) -> list[object]:
    total = outline.total
    return [
        [one.name for _, one in outline.pre_filters],
        outline.skipped,
        {plugin.name: one.key for plugin, one in outline.predicates.items()},
        outline.predicate and outline.predicate.key,
        [one.name for one in outline.scores],
        [one.name for one in outline.outspoken],
        [one.name for one in outline.parts],
        total and total.key,
    ]


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_pods_that_ask_for_the_same_are_answered_as_each_would_be(dice: random.Random) -> None:
    known = outlines()
    for _ in range(12):
        info = random_pod(dice)
        assert words(known.of(info)) == words(outlines().of(info))


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_plugin_that_is_known_to_skip_a_pod_does_so_in_any_cluster(dice: random.Random) -> None:
    cache = Cache()
    for place in range(dice.randrange(3)):
        cache.set_node(node(f"n{place}", labels={"disk": dice.choice(("ssd", "hdd"))}))
    info, snapshot = random_pod(dice), cache.snapshot()
    for plugin in PLUGINS:
        if isinstance(plugin, PreFilterPlugin) and plugin.skips(info):
            assert plugin.pre_filter(CycleState(snapshot), info, snapshot) == Status(Code.SKIP)


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_plugin_that_is_known_to_be_silent_about_a_pod_has_no_opinion_in_any_cluster(dice: random.Random) -> None:
    cache = Cache()
    for place in range(dice.randrange(1, 4)):
        cache.set_node(node(f"n{place}", labels={"disk": dice.choice(("ssd", "hdd"))}))
    info, snapshot = random_pod(dice), cache.snapshot()
    for plugin in PLUGINS:
        if isinstance(plugin, ScorePlugin) and plugin.is_silent(info):
            assert plugin.score(CycleState(snapshot), info, snapshot.nodes) is None


def test_pods_that_want_something_of_nodes_share_nothing() -> None:
    assert [PodInfo(pod("p", **wishes)).outline for wishes in WISHES if "nodeName" not in wishes] == [None] * 6
    assert PodInfo(pod("p", requests={"cpu": "1"})).outline == PodInfo(pod("q", requests={"cpu": "1000m"})).outline


def test_what_a_class_provides_tells_pods_of_one_outline_apart() -> None:
    known, info = outlines(), PodInfo(pod("p", requests={"y.com/gpu": "1"}))
    before = known.of(info)
    try:
        BACKED.clear()
        assert words(known.of(info)) == words(outlines().of(info)) != words(before)
    finally:
        BACKED.add("y.com/gpu")
    assert known.of(info) is before


@given(st.randoms(use_true_random=False))
def test_where_no_node_has_a_resource_the_shorter_predicate_says_the_same(dice: random.Random) -> None:
    predicate = outlines().of(random_pod(dice)).predicate
    info = NodeInfo(node("n", cpu=str(dice.randint(0, 2)), **{n: "1" for n in RESOURCES[2:] if dice.random() < 0.3}))
    assert predicate is not None
    if predicate.there is not None and predicate.lacking.isdisjoint(info.allocatable):
        assert predicate.there.holds(info) == predicate.holds(info)


def test_few_sorts_of_pods_are_remembered() -> None:
    known = outlines()
    first = PodInfo(pod("p", requests={"cpu": "1"}))
    before = known.of(first)
    assert known.of(first) is before
    for more in range(LIMIT):
        known.of(PodInfo(pod("p", requests={"cpu": str(more + 2)})))
    assert known.of(first) is not before
