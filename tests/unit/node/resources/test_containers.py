"""What claims add to the sizes of pods and containers (docs/spec/node.md §13, with its worked example)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cathedra.api.core.core_v1 import (
    Container,
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from cathedra.api.quantity import Quantity
from cathedra.node.resources.containers import container_limits, oom_score
from cathedra.node.resources.nodefacts import NodeFacts
from cathedra.node.resources.pods import pod_requests
from cathedra.releases import FeatureGates

ON = FeatureGates.for_release("1.37", {"DRANodeAllocatableResources": True})
OFF = FeatureGates.for_release("1.37")
GI, MI = 2**30, 2**20
NODE = NodeFacts("127.0.0.1", {"memory": Quantity("8Gi")}, ON)


def amounts(**values: str) -> dict[str, Quantity]:
    return {name.replace("_", "-"): Quantity(value) for name, value in values.items()}


def container(name: str, requests: dict[str, Quantity], limits: dict[str, Quantity] | None = None) -> Container:
    return Container(name=name, resources=ResourceRequirements(requests=requests, limits=limits or {}))


def claim(*containers: str, mapping: Any = None, overhead: Any = None) -> NodeAllocatableResourceClaimStatus:
    return NodeAllocatableResourceClaimStatus(
        resource_claim_name="c",
        containers=containers,
        mapping=tuple(NodeAllocatableMappedResources(name=n, quantity=Quantity(q)) for n, q in (mapping or {}).items()),
        overhead=tuple(
            NodeAllocatableOverheadResources(name=n, per_pod=Quantity(q), per_container=Quantity(q))
            for n, q in (overhead or {}).items()
        ),
    )


def burstable(*claims: NodeAllocatableResourceClaimStatus, **spec: Any) -> Pod:
    one = amounts(cpu="1", memory="1Gi")
    two = amounts(cpu="2", memory="2Gi")
    return Pod(
        spec=PodSpec(containers=(container("a", one, two), container("b", one, two)), **spec),
        status=PodStatus(qos_class="Burstable", node_allocatable_resource_claim_statuses=claims),
    )


MAPPED = claim("a", "b", mapping={"cpu": "1", "memory": "1000Mi"})
OVERHEAD = claim("a", "b", overhead={"cpu": "100m", "memory": "100Mi"})


def test_devices_that_stand_for_cpu_and_memory_add_to_pod_and_container() -> None:
    pod = burstable(MAPPED)
    assert pod_requests(pod, ON) == {"cpu": 3 * 10**9, "memory": (2 * GI + 1000 * MI) * 10**9}
    limits = container_limits(pod, pod.spec.containers[0], NODE)
    assert (limits.cpu_shares, limits.cpu_milli, limits.memory) == (1024, 3000, 3048 * MI)
    assert limits.oom_score_adj == 1000 - 1000 * 1524 // 8192


def test_overhead_counts_once_in_the_pod_and_in_full_in_each_container() -> None:
    pod = burstable(OVERHEAD)
    assert pod_requests(pod, ON)["cpu"] == 2300 * 10**6
    limits = container_limits(pod, pod.spec.containers[1], NODE)
    assert (limits.cpu_milli, limits.memory) == (2200, 2248 * MI)
    assert limits.oom_score_adj == 1000 - 1000 * 1174 // 8192


def test_without_the_gate_claims_add_nothing() -> None:
    pod = burstable(MAPPED, OVERHEAD)
    assert pod_requests(pod, OFF) == {"cpu": 2 * 10**9, "memory": 2 * GI * 10**9}
    assert container_limits(pod, pod.spec.containers[0], msgspec.structs.replace(NODE, gates=OFF)).memory == 2 * GI


def test_a_container_without_limits_stays_unlimited() -> None:
    pod = Pod(
        spec=PodSpec(containers=(Container(name="a"),)),
        status=PodStatus(
            qos_class="BestEffort", node_allocatable_resource_claim_statuses=(claim("a", mapping={"cpu": "1"}),)
        ),
    )
    limits = container_limits(pod, pod.spec.containers[0], NODE)
    assert (limits.cpu_milli, limits.memory, limits.oom_score_adj) == (None, None, 1000)


def test_huge_pages_of_claims_are_a_limit_by_themselves() -> None:
    pod = Pod(
        spec=PodSpec(containers=(Container(name="a"),)),
        status=PodStatus(node_allocatable_resource_claim_statuses=(claim("a", mapping={"hugepages-2Mi": "4Mi"}),)),
    )
    assert container_limits(pod, pod.spec.containers[0], NODE).huge_pages == {"2MB": 4 * MI}


def test_the_limit_of_the_pod_is_inherited_as_it_is() -> None:
    spec = PodSpec(
        containers=(Container(name="a"),),
        resources=ResourceRequirements(requests=amounts(cpu="1"), limits=amounts(cpu="2", memory="1Gi")),
    )
    pod = Pod(spec=spec, status=PodStatus(node_allocatable_resource_claim_statuses=(claim("a", mapping={"cpu": "1"}),)))
    limits = container_limits(pod, pod.spec.containers[0], NODE)
    assert (limits.cpu_milli, limits.memory) == (2000, GI)
    assert pod_requests(pod, ON)["cpu"] == 10**9


def test_init_containers_count_where_they_need_more_than_the_rest_and_sidecars_always() -> None:
    sidecar = Container(name="s", restart_policy="Always", resources=ResourceRequirements(requests=amounts(cpu="1")))
    spec = PodSpec(
        init_containers=(sidecar, container("i", amounts(cpu="5", memory="1Gi"))),
        containers=(container("a", amounts(cpu="2")),),
        overhead=amounts(cpu="100m"),
    )
    assert pod_requests(Pod(spec=spec), ON) == {"cpu": 6100 * 10**6, "memory": GI * 10**9}


@pytest.mark.parametrize(("qos", "score"), [("Guaranteed", -997), ("BestEffort", 1000), ("Burstable", 875)])
def test_the_quality_of_service_decides_who_is_killed_first(qos: str, score: int) -> None:
    pod = Pod(
        spec=PodSpec(containers=(container("a", amounts(memory="1Gi")),)),
        status=PodStatus(qos_class=qos),
    )
    assert oom_score(pod, pod.spec.containers[0], NODE) == score
