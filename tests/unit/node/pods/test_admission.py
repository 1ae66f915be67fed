"""Pods that a node does not take, and their statuses (docs/spec/node.md §17.1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.api.core.core_v1 import (
    Affinity,
    Container,
    ContainerExtendedResourceRequest,
    ContainerPort,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Pod,
    PodExtendedResourceClaimStatus,
    PodOS,
    ResourceRequirements,
    Taint,
    Toleration,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.client.resources import NODES
from cathedra.node.pods.admission import rejection
from tests.running import run_with
from tests.unit.node.fakes import GATES, NODE, Setting, make_pod
from tests.unit.node.test_agent import play

ROOM = {"cpu": Quantity("2"), "memory": Quantity("4Gi"), "pods": Quantity("2"), "example.com/gpu": Quantity("1")}
THE_NODE = Node(metadata=ObjectMeta(name=NODE, labels={"disk": "ssd"}), status=NodeStatus(allocatable=ROOM))


def asking(name: str = "p", **resources: str) -> Pod:
    requests = {key.replace("_", "/"): Quantity(value) for key, value in resources.items()}
    return make_pod(name, Container(name="c", resources=ResourceRequirements(requests=requests)))


def with_spec(pod: Pod, **changes: Any) -> Pod:
    return replace(pod, spec=replace(pod.spec, **changes))


def test_a_pod_that_fits_is_taken() -> None:
    assert rejection(asking(cpu="1500m", memory="1Gi"), THE_NODE, [asking("q", cpu="500m")], GATES) is None


def test_a_resource_that_is_short_is_named_with_its_amounts() -> None:
    found = rejection(asking(cpu="1500m"), THE_NODE, [asking("q", cpu="600m")], GATES)
    assert found == (
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 1500, used: 600, capacity: 2000",
    )


def test_pods_are_counted_too() -> None:
    found = rejection(make_pod(), THE_NODE, [make_pod("q"), make_pod("r")], GATES)
    assert found is not None
    assert found.message == "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"


def test_resources_that_the_node_does_not_have_are_not_its_business() -> None:
    assert rejection(asking(**{"example.org_fpga": "1"}), THE_NODE, [], GATES) is None


def test_extended_resources_that_a_claim_serves_are_not_counted() -> None:
    pod = asking(**{"example.com_gpu": "2"})
    found = rejection(pod, THE_NODE, [], GATES)
    assert found is not None
    assert found.reason == "OutOfexample.com/gpu"
    mapping = ContainerExtendedResourceRequest(container_name="c", resource_name="example.com/gpu", request_name="r")
    status = PodExtendedResourceClaimStatus(request_mappings=(mapping,), resource_claim_name="c")
    served = replace(pod, status=replace(pod.status, extended_resource_claim_status=status))
    assert rejection(served, THE_NODE, [], GATES) is None


@pytest.mark.parametrize("disk", ["ssd", "tape"])
def test_node_selector_and_affinity_must_match(disk: str) -> None:
    term = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="disk", operator="In", values=(disk,)),))
    affinity = NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=(term,))
    )
    for changes in ({"node_selector": {"disk": disk}}, {"affinity": Affinity(node_affinity=affinity)}):
        found = rejection(with_spec(make_pod(), **changes), THE_NODE, [], GATES)
        if disk == "ssd":
            assert found is None
        else:
            assert found == (
                "NodeAffinity",
                "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            )


def test_only_taints_that_evict_refuse_and_tolerations_help() -> None:
    tainted = replace(
        THE_NODE, spec=NodeSpec(taints=(Taint(key="a", effect="NoSchedule"), Taint(key="b", effect="NoExecute")))
    )
    found = rejection(make_pod(), tainted, [], GATES)
    assert found is not None
    assert found.reason == "TaintToleration"
    tolerant = with_spec(make_pod(), tolerations=(Toleration(key="b", operator="Exists"),))
    assert rejection(tolerant, tainted, [], GATES) is None


@pytest.mark.parametrize(
    ("first", "second", "clash"), [("", "", True), ("", "10.0.0.1", True), ("10.0.0.1", "10.0.0.2", False)]
)
def test_a_host_port_has_one_owner(first: str, second: str, clash: bool) -> None:
    def listening(name: str, address: str) -> Pod:
        port = ContainerPort(container_port=80, host_port=80, host_ip=address)
        return make_pod(name, Container(name="c", ports=(port,)))

    found = rejection(listening("p", first), THE_NODE, [listening("q", second)], GATES)
    assert (found is not None and found.reason == "NodePorts") == clash


def test_pods_for_other_systems_are_rejected() -> None:
    found = rejection(with_spec(make_pod(), os=PodOS(name="windows")), THE_NODE, [], GATES)
    assert found is not None
    assert found.reason == "PodOSNotSupported"


@run_with(play)
async def test_a_refused_pod_fails_without_having_run_and_leaves_its_room_to_others(s: Setting) -> None:
    await asyncio.sleep(1)
    await s.create(asking("big", cpu="31"), asking("more", cpu="2"), asking("small", cpu="1"))
    await asyncio.sleep(1)
    assert s.pod("big").status.phase == "Running"
    refused = s.pod("more").status
    assert (refused.phase, refused.reason) == ("Failed", "OutOfcpu")
    shortage = "Node didn't have enough resource: cpu, requested: 2000, used: 31000, capacity: 32000"
    assert refused.message == f"Pod was rejected: {shortage}"
    assert refused.container_statuses == ()
    assert s.events_of("OutOfcpu") == [shortage]
    assert s.pod("small").status.phase == "Running"


@run_with(play)
async def test_a_refusal_is_given_on_a_fresh_look_at_the_node_only(s: Setting) -> None:
    await asyncio.sleep(1)
    await s.create(make_pod("first"))
    await asyncio.sleep(1)
    nodes = s.client.resource(NODES)
    node = await nodes.get(NODE)
    await nodes.update(replace(node, metadata=replace(node.metadata, labels={"disk": "ssd"})))
    await s.create(with_spec(make_pod("second"), node_selector={"disk": "ssd"}))
    await asyncio.sleep(1)
    assert s.pod("second").status.phase == "Running"
