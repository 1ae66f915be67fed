"""Pods that look alike are spread over domains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.apps_v1 import ReplicaSet, StatefulSet
from cathedra.api.core.core_v1 import Pod, ReplicationController, Service, TopologySpreadConstraint
from cathedra.api.core.meta_v1 import LabelSelector
from cathedra.api.selectors import from_label_selector
from cathedra.api.struct import from_dict
from cathedra.client.objects import with_metadata
from cathedra.client.resources import REPLICASETS, REPLICATIONCONTROLLERS, SERVICES, STATEFULSETS
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Code
from cathedra.scheduler.plugins.topology_spread import HOSTNAME, ZONE, PodTopologySpread, RelatedPods
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.owners import controller_reference
from tests.running import run_with
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.outcome import on, outcome
from tests.unit.scheduler.world import World, play


def test_pods_without_hard_constraints_are_not_filtered() -> None:
    snapshot = Cache().snapshot()
    soft = PodInfo(pod("p", topologySpreadConstraints=spread("ScheduleAnyway")))
    answer = PodTopologySpread().pre_filter(CycleState(snapshot), soft, snapshot)
    assert answer is not None
    assert answer.code is Code.SKIP


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


def default_scores(labels: dict[str, dict[str, str]], placed: dict[str, int]) -> dict[str, int]:
    """Return the scores of nodes with these labels and numbers of related pods, for a pod without constraints."""
    cache = Cache()
    for name, of in labels.items():
        cache.set_node(node(name, labels=of))
    for name, count in placed.items():
        for number in range(count):
            cache.add_pod(on(name, pod(f"{name}-{number}", labels={"app": "web"})))
    selector = from_label_selector(LabelSelector(match_labels={"app": "web"}))
    snapshot = cache.snapshot()
    plugin = PodTopologySpread(lambda _: selector)
    scores = plugin.score(CycleState(snapshot), PodInfo(pod("p", labels={"app": "web"})), snapshot.nodes)
    assert scores is not None
    return dict(zip((info.name for info in snapshot.nodes), scores, strict=True))


def test_relatives_are_spread_over_hosts_without_any_constraint() -> None:
    found = default_scores({"a": {}, "b": {}, "c": {}}, {"a": 3, "b": 1})
    assert found["c"] == 100 > found["b"] > found["a"]


def test_relatives_are_spread_over_zones_and_nodes_without_a_zone_are_not_left_out() -> None:
    zones = {"a": {ZONE: "z1"}, "b": {ZONE: "z1"}, "c": {ZONE: "z2"}, "d": {}}
    found = default_scores(zones, {"a": 2})
    assert found["d"] > found["c"] > found["b"] > found["a"]


def plain_scores(
    nodes: Sequence[NodeInfo], counts: dict[str, int], constraints: Sequence[tuple[str, int]], *, own: bool
) -> list[int]:
    """kube-scheduler's scores, node by node; a constraint is its topology key and its maximal skew."""
    labels = [info.node.metadata.labels for info in nodes]
    usable = [not own or all(key in one for key, _ in constraints) for one in labels]
    if not any(usable):
        return [0] * len(nodes)
    sums = [0.0] * len(nodes)
    for key, skew in constraints:
        domains: dict[str, int] = {}
        for info, one in zip(nodes, labels, strict=True):
            if key in one and (not own or all(other in one for other, _ in constraints)):
                domains[one[key]] = domains.get(one[key], 0) + counts[info.name]
        seen = {one.get(key) for one, ok in zip(labels, usable, strict=True) if ok}
        weight = math.log((sum(usable) if key == HOSTNAME else len(seen)) + 2)
        for place, (info, one) in enumerate(zip(nodes, labels, strict=True)):
            if key in one:
                number = counts[info.name] if key == HOSTNAME else domains.get(one[key], 0)
                sums[place] += number * weight + float(skew - 1)
    raw = [math.floor(total + 0.5) if ok else None for total, ok in zip(sums, usable, strict=True)]
    known = [one for one in raw if one is not None]
    low, high = min(known), max(known)
    if high == 0:
        return [0 if one is None else 100 for one in raw]
    return [0 if one is None else 100 * (high + low - one) // high for one in raw]


KEYS = (HOSTNAME, ZONE, "rack")
LABELS = st.fixed_dictionaries({}, optional={key: st.sampled_from(("1", "2", "3")) for key in KEYS[1:]})
SPREAD = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 3)), max_size=2, unique_by=lambda one: one[0])


@given(st.lists(st.tuples(LABELS, st.booleans()), min_size=1, max_size=6), SPREAD, st.lists(st.integers(0, 5)))
def test_scores_that_follow_the_placed_pods_are_those_of_each_node_alone(
    nodes: list[tuple[dict[str, str], bool]], wanted: list[tuple[str, int]], steps: list[int]
) -> None:
    """The counts are kept from pod to pod, and equal nodes are scored once."""
    cache = Cache()
    for number, (labels, named) in enumerate(nodes):
        name = f"n{number}"
        cache.set_node(node(name, labels={**labels, HOSTNAME: name} if named else labels))
    selector = {"matchLabels": {"app": "web"}}
    spec = [
        {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        for key, skew in wanted
    ]
    incoming = PodInfo(pod("p", labels={"app": "web"}, topologySpreadConstraints=spec))
    plugin = PodTopologySpread(lambda _: from_label_selector(LabelSelector(match_labels={"app": "web"})))
    constraints = wanted or [(HOSTNAME, 3), (ZONE, 5)]
    counts = dict.fromkeys((f"n{number}" for number in range(len(nodes))), 0)
    for number, step in enumerate([None, *steps]):
        if step is not None:
            name = f"n{step % len(nodes)}"
            cache.add_pod(on(name, pod(f"there-{number}", labels={"app": "web"})))
            counts[name] += 1
        snapshot = cache.snapshot()
        found = plugin.score(CycleState(snapshot), incoming, snapshot.nodes)
        assert found == plain_scores(snapshot.nodes, counts, constraints, own=bool(wanted))


def test_pods_without_relatives_are_not_scored() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    snapshot = cache.snapshot()
    for plugin in (PodTopologySpread(), PodTopologySpread(lambda _: None)):
        assert plugin.score(CycleState(snapshot), PodInfo(pod("p")), snapshot.nodes) is None


def test_an_empty_selector_counts_no_pod() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    hard = {**constraint, "whenUnsatisfiable": "DoNotSchedule"}
    there = [on("a", pod("there"))]
    incoming = pod("p", topologySpreadConstraints=[hard])
    assert outcome(incoming, [node("a"), node("b", unschedulable=True)], there) == "a"


def test_a_profile_may_have_default_constraints_of_its_own() -> None:
    cache = Cache()
    for name in ("a", "b"):
        cache.set_node(node(name, labels={"rack": name}))
    cache.add_pod(on("a", pod("there", labels={"app": "web"})))
    selector = from_label_selector(LabelSelector(match_labels={"app": "web"}))
    hard = TopologySpreadConstraint(topology_key="rack", when_unsatisfiable="DoNotSchedule", max_skew=1)
    plugin = PodTopologySpread(lambda _: selector, [hard])
    snapshot = cache.snapshot()
    state, incoming = CycleState(snapshot), PodInfo(pod("p", labels={"app": "web"}))
    assert plugin.pre_filter(state, incoming, snapshot) is None
    refused = [info.name for info in snapshot.nodes if plugin.filter(state, incoming, info) is not None]
    assert refused == ["a"]
    assert plugin.score(state, incoming, snapshot.nodes) is None


META = {"name": "w", "namespace": "default", "uid": "u"}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
OWNERS: dict[str, Any] = {
    "replicaset": (REPLICASETS, ReplicaSet, {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}),
    "statefulset": (
        STATEFULSETS,
        StatefulSet,
        {"selector": {"matchLabels": {"app": "x"}}, "serviceName": "s", "template": TEMPLATE},
    ),
    "replicationcontroller": (
        REPLICATIONCONTROLLERS,
        ReplicationController,
        {"selector": {"app": "x"}, "template": TEMPLATE},
    ),
}


def service(name: str, **selector: str) -> Service:
    spec = {"selector": selector, "ports": [{"port": 80}]}
    return from_dict(Service, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def shown(related: RelatedPods, of: Pod) -> str:
    return str(related.selector(of))


@pytest.mark.parametrize("kind", list(OWNERS))
@run_with(with_api)
async def test_what_controls_a_pod_selects_its_relatives(api: API, *, kind: str) -> None:
    related = RelatedPods(api.informers)
    api.follow()
    ref, type_, spec = OWNERS[kind]
    made = await api.client.resource(ref, "default").create(from_dict(type_, {"metadata": META, "spec": spec}))
    await api.until(lambda: len(api.informers.of(ref).store) == 1)
    mine = with_metadata(pod("p", labels={"app": "x"}), owner_references=(controller_reference(made),))
    assert shown(related, mine) == "app=x"
    await api.client.resource(SERVICES, "default").create(service("s", app="x", tier="web"))
    await api.client.resource(SERVICES, "default").create(service("other", app="y"))
    await api.until(lambda: len(api.informers.of(SERVICES).store) >= 2)
    both = with_metadata(mine, labels={"app": "x", "tier": "web"})
    assert {str(one) for one in getattr(related.selector(both), "requirements", ())} == {"app=x", "tier=web"}
    assert shown(related, mine) == "app=x"


@run_with(with_api)
async def test_a_pod_without_relatives_is_spread_from_none(api: API) -> None:
    related = RelatedPods(api.informers)
    assert related.selector(pod("p", labels={"app": "x"})) is None


@pytest.mark.parametrize(("release", "placed"), [("1.37", "a"), ("1.38", "")])
def test_from_138_on_an_empty_selector_counts_every_pod_of_the_namespace(release: str, placed: str) -> None:
    """kubernetes/kubernetes#141340."""
    hard = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}

    async def body(world: World) -> None:
        await world.create(node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"}, unschedulable=True))
        await world.create(pod("w1", nodeName="a"), pod("w2", nodeName="a"))
        await world.create(pod("p", topologySpreadConstraints=[hard]))
        await world.quiet()
        assert await world.node_of("p") == placed

    play(body, release=release)
