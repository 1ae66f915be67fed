"""What each basic plugin refuses, in kube-scheduler's words, and what it prefers
(docs/spec/scheduling.md §17)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Namespace, Node, Pod
from cathedra.client.store import Store
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.plugin import CycleState, Plugin
from cathedra.scheduler.nodesearch import NodeSearch, SelectedNode
from cathedra.scheduler.plugins.image_locality import ImageLocality
from cathedra.scheduler.plugins.interpod_affinity import InterPodAffinity
from cathedra.scheduler.plugins.node_fitness import NodeAffinity, NodeName, NodeUnschedulable, TaintToleration
from cathedra.scheduler.plugins.node_ports import NodePorts
from cathedra.scheduler.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from cathedra.scheduler.plugins.topology_spread import PodTopologySpread
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.nominations import Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod


def backed_by_devices(resource: str) -> bool:
    return resource == "acme.test/fpga"


def plugins() -> list[Plugin]:
    return [
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(backed_by_devices),
        PodTopologySpread(),
        InterPodAffinity(Store[Namespace]()),
        NodeResourcesBalancedAllocation(),
        ImageLocality(),
    ]


def outcome(incoming: Pod, nodes: Sequence[Node], placed: Sequence[Pod] = ()) -> str:
    """The chosen node, or the sentence why there is none."""
    cache = Cache()
    for each in nodes:
        cache.set_node(each)
    for each in placed:
        cache.add_pod(each)
    found = NodeSearch(Profile(plugins()), Nominations(), Random(1)).find(
        CycleState(cache.snapshot()), PodInfo(incoming)
    )
    if isinstance(found, SelectedNode):
        return found.node
    assert isinstance(found, Diagnosis)
    return found.message()


def on(node_name: str, placed: Pod) -> Pod:
    return PodInfo(placed).on(node_name).pod


def affinity(kind: str, term: dict[str, Any], *, weight: int = 0) -> dict[str, Any]:
    if weight:
        terms = [{"weight": weight, "podAffinityTerm": term}]
        return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


WEB = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
NO_EXECUTE = {"key": "k", "value": "v", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("incoming", "where", "why"),
    [
        (pod("p"), node("n", unschedulable=True), "1 node(s) were unschedulable"),
        (pod("p", nodeName="m"), node("n"), "1 node(s) didn't match the requested node name"),
        (pod("p"), node("n", taints=[NO_EXECUTE]), "1 node(s) had untolerated taint(s)"),
        (pod("p", nodeSelector={"a": "b"}), node("n"), "1 node(s) didn't match Pod's node affinity/selector"),
        (pod("p", requests={"cpu": "5"}), node("n"), "1 Insufficient cpu"),
        (pod("p", requests={"cpu": "5", "memory": "33Gi"}), node("n"), "1 Insufficient cpu, 1 Insufficient memory"),
        (pod("p", requests={"a.test/b": "1"}), node("n"), "1 Insufficient a.test/b"),
        (pod("p"), node("n", pods="0"), "1 Too many pods"),
        (
            pod("p", affinity=affinity("podAffinity", WEB)),
            node("n", labels={"zone": "a"}),
            "1 node(s) didn't match pod affinity rules",
        ),
    ],
)
def test_refusals_have_the_words_of_kube_scheduler(incoming: Pod, where: Node, why: str) -> None:
    assert outcome(incoming, [where]) == f"0/1 nodes are available: {why}."


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


def test_resources_of_pods_already_there_count() -> None:
    there = on("n", pod("there", requests={"cpu": "3"}))
    assert "1 Insufficient cpu" in outcome(pod("p", requests={"cpu": "2"}), [node("n")], [there])


def test_a_resource_with_a_device_class_is_left_to_dynamic_resources() -> None:
    assert outcome(pod("p", requests={"acme.test/fpga": "1"}), [node("n")]) == "n"


def test_the_emptier_node_is_chosen() -> None:
    there = on("full", pod("there", requests={"cpu": "2", "memory": "16Gi"}))
    assert outcome(pod("p", requests={"cpu": "1"}), [node("full"), node("empty")], [there]) == "empty"


def test_a_host_port_is_taken_once_per_address() -> None:
    def with_port(name: str, address: str = "") -> Pod:
        ports = [{"containerPort": 80, "hostPort": 80, "hostIP": address}]
        return pod(name, containers=[{"name": "c", "ports": ports}])

    there = on("n", with_port("there", "127.0.0.1"))
    refused = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    assert outcome(with_port("p"), [node("n")], [there]) == refused
    assert outcome(with_port("p", "127.0.0.2"), [node("n")], [there]) == "n"


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


def test_anti_affinity_holds_in_both_directions() -> None:
    zoned = [node("n", labels={"zone": "a"})]
    anti = affinity("podAntiAffinity", WEB)
    web = on("n", pod("web", labels={"app": "web"}))
    assert "node(s) didn't match pod anti-affinity rules" in outcome(pod("p", affinity=anti), zoned, [web])
    hermit = on("n", pod("hermit", affinity=anti))
    refused = outcome(pod("p", labels={"app": "web"}), zoned, [hermit])
    assert "node(s) didn't satisfy existing pods anti-affinity rules" in refused


def test_the_first_pod_of_a_group_that_wants_to_be_together_may_start_anywhere() -> None:
    incoming = pod("p", labels={"app": "web"}, affinity=affinity("podAffinity", WEB))
    assert outcome(incoming, [node("n", labels={"zone": "a"})]) == "n"


def test_preferred_affinity_draws_to_the_domain() -> None:
    nodes = [node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"})]
    web = on("b", pod("web", labels={"app": "web"}))
    assert outcome(pod("p", affinity=affinity("podAffinity", WEB, weight=100)), nodes, [web]) == "b"


def spread(when: str) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "web"}}
    return [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when, "labelSelector": selector}]


def test_a_hard_spread_refuses_the_fuller_domain_and_unlabelled_nodes() -> None:
    nodes = [node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"}), node("c")]
    there = [on("a", pod("w1", labels={"app": "web"})), on("b", pod("blocker", requests={"cpu": "4"}))]
    incoming = pod("p", labels={"app": "web"}, requests={"cpu": "1"}, topologySpreadConstraints=spread("DoNotSchedule"))
    assert outcome(incoming, nodes, there) == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) didn't match pod topology spread constraints (missing required label)."
    )


def test_a_soft_spread_prefers_the_emptier_domain() -> None:
    nodes = [node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"})]
    there = [on("a", pod(f"w{i}", labels={"app": "web"})) for i in range(3)]
    incoming = pod("p", labels={"app": "web"}, topologySpreadConstraints=spread("ScheduleAnyway"))
    assert outcome(incoming, nodes, there) == "b"


def test_ties_are_broken_by_the_given_random() -> None:
    nodes = [node(f"n{i}") for i in range(20)]
    assert outcome(pod("p"), nodes) == outcome(pod("p"), nodes)
