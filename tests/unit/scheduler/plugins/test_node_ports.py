"""A port of the host is taken once."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Pod
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Code
from cathedra.scheduler.plugins.node_ports import NodePorts
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.outcome import on, outcome


def test_pods_without_host_ports_are_not_asked_about() -> None:
    snapshot = Cache().snapshot()
    answer = NodePorts().pre_filter(CycleState(snapshot), PodInfo(pod("p")), snapshot)
    assert answer is not None
    assert answer.code is Code.SKIP


def test_a_host_port_is_taken_once_per_address() -> None:
    def with_port(name: str, address: str = "") -> Pod:
        ports = [{"containerPort": 80, "hostPort": 80, "hostIP": address}]
        return pod(name, containers=[{"name": "c", "ports": ports}])

    there = on("n", with_port("there", "127.0.0.1"))
    refused = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    assert outcome(with_port("p"), [node("n")], [there]) == refused
    assert outcome(with_port("p", "127.0.0.2"), [node("n")], [there]) == "n"
