"""What plugins contribute to a pod without seeing a node holds in any cluster."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.client.store import Store
from cathedra.scheduler.framework.plugin import (
    CycleState,
    FilterPlugin,
    NodePredicate,
    Plugin,
    PreFilterPlugin,
    ScorePlugin,
)
from cathedra.scheduler.framework.status import Code, Status
from cathedra.scheduler.plugins.interpod_affinity import InterPodAffinity
from cathedra.scheduler.plugins.node_fitness import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration
from cathedra.scheduler.plugins.node_ports import NodePorts
from cathedra.scheduler.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from cathedra.scheduler.plugins.topology_spread import PodTopologySpread
from cathedra.scheduler.podplugins import ProfilePlugins
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot
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


def predicate_of(info: PodInfo) -> NodePredicate:
    filters = [one for one in PLUGINS if isinstance(one, FilterPlugin)]
    scores = [one for one in PLUGINS if isinstance(one, ScorePlugin)]
    plugins = ProfilePlugins(filters, scores, {one.name: one.weight for one in scores})
    _, found = plugins.predicates(info)
    assert found is not None
    return found


def random_pod(dice: random.Random) -> PodInfo:
    wishes = dice.choice(WISHES) if dice.random() < 0.4 else {}
    requests = {name: str(dice.randint(0, 2)) for name in RESOURCES if dice.random() < 0.5}
    return PodInfo(pod("p", requests=requests, **wishes))


def random_cluster(dice: random.Random, nodes: int) -> Snapshot:
    """Return a cluster of nodes with a label of two values."""
    cache = Cache()
    for place in range(nodes):
        cache.set_node(node(f"n{place}", labels={"disk": dice.choice(("ssd", "hdd"))}))
    return cache.snapshot()


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_plugin_that_is_known_to_skip_a_pod_does_so_in_any_cluster(dice: random.Random) -> None:
    info, snapshot = random_pod(dice), random_cluster(dice, dice.randrange(3))
    for plugin in PLUGINS:
        if isinstance(plugin, PreFilterPlugin) and plugin.skips(info):
            assert plugin.pre_filter(CycleState(snapshot), info, snapshot) == Status(Code.SKIP)


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_plugin_that_is_known_to_be_silent_about_a_pod_has_no_opinion_in_any_cluster(dice: random.Random) -> None:
    info, snapshot = random_pod(dice), random_cluster(dice, dice.randrange(1, 4))
    for plugin in PLUGINS:
        if isinstance(plugin, ScorePlugin) and plugin.scores_zero(info):
            assert plugin.score(CycleState(snapshot), info, snapshot.nodes) is None


def test_a_class_that_begins_to_provide_a_resource_changes_the_predicate() -> None:
    info = PodInfo(pod("p", requests={"y.com/gpu": "1"}))
    before = predicate_of(info)
    try:
        BACKED.clear()
        assert predicate_of(info) != before
    finally:
        BACKED.add("y.com/gpu")
    assert predicate_of(info) == before


@given(st.randoms(use_true_random=False))
def test_where_no_node_has_a_resource_the_shorter_predicate_says_the_same(dice: random.Random) -> None:
    predicate = predicate_of(random_pod(dice))
    info = NodeInfo(node("n", cpu=str(dice.randint(0, 2)), **{n: "1" for n in RESOURCES[2:] if dice.random() < 0.3}))
    if predicate.there is not None and predicate.lacking.isdisjoint(info.allocatable):
        assert predicate.there.holds(info) == predicate.holds(info)
