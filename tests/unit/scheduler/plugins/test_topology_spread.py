"""Pods that look alike are spread over domains."""

from __future__ import annotations

from typing import Any

from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Code
from cathedra.scheduler.plugins.topology_spread import PodTopologySpread
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.outcome import on, outcome


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
