"""Filters by the node alone: its name, its taints and labels, and whether it is schedulable."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.core_v1 import NodeAffinity as NodeAffinityRules
from cathedra.api.struct import from_dict
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventResource
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.plugins.node_fitness import (
    NodeAffinity,
    NodeName,
    NodeUnschedulable,
    TaintToleration,
    matches_node_affinity,
)
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.outcome import outcome

NO_EXECUTE = {"key": "k", "value": "v", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("incoming", "where", "why"),
    [
        (pod("p"), node("n", unschedulable=True), "1 node(s) were unschedulable"),
        (pod("p", nodeName="m"), node("n"), "1 node(s) didn't match the requested node name"),
        (pod("p"), node("n", taints=[NO_EXECUTE]), "1 node(s) had untolerated taint(s)"),
        (pod("p", nodeSelector={"a": "b"}), node("n"), "1 node(s) didn't match Pod's node affinity/selector"),
    ],
)
def test_refusals_have_the_words_of_kube_scheduler(incoming: Pod, where: Node, why: str) -> None:
    assert outcome(incoming, [where]) == f"0/1 nodes are available: {why}."


def test_a_cordoned_node_takes_pods_that_tolerate_it() -> None:
    tolerating = pod("p", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert outcome(tolerating, [node("n", unschedulable=True)]) == "n"


def test_a_new_node_wakes_only_pods_that_it_may_take() -> None:
    plain, tolerating = pod("p"), pod("t", tolerations=[{"operator": "Exists"}])
    for plugin, unfit in (
        (NodeUnschedulable(), node("n", unschedulable=True)),
        (TaintToleration(), node("n", taints=[NO_EXECUTE])),
    ):
        hint = next(one.hint for one in plugin.events() if one.resource is EventResource.NODE)
        assert hint is not None
        change = ClusterEvent(EventResource.NODE, Action.ADD, None, unfit)
        assert (hint(plain, change), hint(tolerating, change)) == (False, True)


def test_every_plugin_waits_for_nodes() -> None:
    for plugin in (NodeName(), NodeUnschedulable(), TaintToleration(), NodeAffinity()):
        assert any(one.resource is EventResource.NODE and Action.ADD in one.actions for one in plugin.events())


def test_the_node_selector_and_the_required_affinity_must_both_match() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    wanting = pod("p", nodeSelector={"zone": "a"}, affinity=required)
    assert matches_node_affinity(wanting, node("n", labels={"zone": "a", "disk": "ssd"}))
    assert not matches_node_affinity(wanting, node("n", labels={"zone": "a"}))
    assert not matches_node_affinity(wanting, node("n", labels={"disk": "ssd"}))


@pytest.mark.parametrize(
    "tolerations",
    [
        [{"operator": "Exists"}],
        [{"key": "k", "operator": "Exists"}],
        [{"key": "k", "value": "v", "effect": "NoExecute"}],
        [{"key": "k", "operator": "Equal", "value": "v"}],
    ],
)
def test_a_tolerated_taint_is_no_obstacle(tolerations: list[dict[str, str]]) -> None:
    assert outcome(pod("p", tolerations=tolerations), [node("n", taints=[NO_EXECUTE])]) == "n"


def test_a_node_that_the_pod_would_rather_avoid_comes_last() -> None:
    soft = {"key": "k", "effect": "PreferNoSchedule"}
    assert outcome(pod("p"), [node("avoid", taints=[soft]), node("take")]) == "take"


def test_affinity_to_a_node_by_name_excludes_the_others_before_the_filters() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    incoming = pod("p", affinity={"nodeAffinity": required}, requests={"cpu": "9"})
    assert outcome(incoming, [node("a"), node("b"), node("c")]) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_a_preferred_label_decides_between_equals() -> None:
    preference = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": preference}]}
    incoming = pod("p", affinity={"nodeAffinity": preferred})
    assert outcome(incoming, [node("a"), node("b", labels={"disk": "ssd"})]) == "b"


def test_what_a_profile_adds_holds_for_all_its_pods() -> None:
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    fast = {"matchExpressions": [{"key": "net", "operator": "Exists"}]}
    added = from_dict(
        NodeAffinityRules,
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ssd]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": fast}],
        },
    )
    plugin = NodeAffinity(added)
    cache = Cache()
    for each in (node("a", labels={"disk": "ssd"}), node("b", labels={"disk": "ssd", "net": "x"}), node("c")):
        cache.set_node(each)
    snapshot = cache.snapshot()
    state, incoming = CycleState(snapshot), PodInfo(pod("p"))
    assert plugin.pre_filter(state, incoming, snapshot) is None
    told = {info.name: plugin.filter(state, incoming, info) for info in snapshot.nodes}
    assert [name for name, refusal in sorted(told.items()) if refusal is None] == ["a", "b"]
    assert told["c"] is not None
    assert told["c"].message == "node(s) didn't match scheduler-enforced node affinity"
    scores = plugin.score(state, incoming, snapshot.nodes)
    assert scores is not None
    assert dict(zip((info.name for info in snapshot.nodes), scores, strict=True)) == {"a": 0, "b": 100, "c": 0}
