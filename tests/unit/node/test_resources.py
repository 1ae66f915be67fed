"""What claims add to the sizes of pods and containers (docs/spec/node.md §13, with its worked example)."""

from __future__ import annotations

import shutil
from pathlib import Path
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
from cathedra.api.struct import from_dict
from cathedra.node.resources import (
    NodeFacts,
    PodCgroups,
    as_quantities,
    container_limits,
    cpu_weight,
    is_usable,
    oom_score,
    page_size,
    pod_limits,
    pod_requests,
    pod_requirements,
    shares_of,
)
from cathedra.releases import FeatureGates
from tests.unit.node.fakes import GATES

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


# What a pod may want to know of its node.


def test_memory_is_in_bytes_and_none_if_the_node_says_nothing() -> None:
    assert NodeFacts("10.0.0.1", {"memory": Quantity("2Ki")}, GATES).memory == 2048
    assert NodeFacts("10.0.0.1", {}, GATES).memory == 0


# What a pod as a whole is held to, where the scenarios of tests/simulation do not show it.

GATES_PODS = FeatureGates.for_release("1.37")


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    made = [{"name": f"c{number}", "resources": each} for number, each in enumerate(containers)]
    return from_dict(Pod, {"spec": {"containers": made, **spec}, "status": {"qosClass": "Burstable"}})


def test_a_pod_is_limited_only_where_each_of_its_containers_is() -> None:
    limited, free = {"limits": {"cpu": "1", "memory": "1Gi"}}, {"limits": {"memory": "1Gi"}}
    found = pod_limits(pod(limited, free), GATES_PODS)
    assert (found.cpu_milli, found.memory) == (None, 2 * 2**30)
    assert pod_limits(pod(limited, limited), GATES_PODS).cpu_milli == 2000


def test_an_init_container_without_a_limit_leaves_the_pod_without() -> None:
    limited = {"limits": {"cpu": "1"}}
    assert pod_limits(pod(limited, initContainers=[{"name": "i"}]), GATES_PODS).cpu_milli is None


def test_overhead_is_added_to_limits_that_there_are() -> None:
    made = pod({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, overhead={"cpu": "100m", "memory": "1Mi"})
    requests, limits = pod_requirements(made, GATES_PODS)
    assert {name: str(amount) for name, amount in as_quantities(requests).items()} == {"cpu": "1100m", "memory": "1Mi"}
    assert limits == {"cpu": 2100 * 10**6}


def test_sizes_and_shares_are_spelled_as_the_kernel_does() -> None:
    assert page_size("hugepages-1Gi") == "1GB"
    assert [shares_of(0), shares_of(10**9)] == [2, 1024]


# The cgroups of pods, in a directory that stands for the kernel's unified hierarchy.

GATES_CGROUPS = FeatureGates.for_release("1.37")
ALLOCATABLE = {"cpu": Quantity("8"), "memory": Quantity("16Gi"), "pods": Quantity("110")}


def pod_cgroups(uid: str, quality: str, **amounts: dict[str, str]) -> Pod:
    body = {
        "metadata": {"name": uid, "uid": uid},
        "spec": {"containers": [{"name": "c", "resources": amounts}]},
        "status": {"qosClass": quality},
    }
    return from_dict(Pod, body)


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc")
    (tmp_path / "cgroup.procs").write_text("")
    return tmp_path


def opened(mount: Path) -> PodCgroups:
    cgroups = PodCgroups(mount, "/node", ALLOCATABLE, GATES_CGROUPS)
    cgroups.open()
    return cgroups


def contents(directory: Path, *names: str) -> list[str]:
    return [(directory / name).read_text() for name in names]


@pytest.mark.parametrize(("shares", "weight"), [(0, 1), (2, 1), (1024, 39), (8192, 313), (262_144, 10_000)])
def test_shares_become_weights_as_in_a_kubelet(shares: int, weight: int) -> None:
    assert cpu_weight(shares) == weight


def test_a_hierarchy_is_usable_where_it_can_be_written(mount: Path) -> None:
    assert is_usable(mount)
    (mount / "cgroup.controllers").unlink()
    assert not is_usable(mount)


def test_all_pods_together_get_what_is_allocatable(mount: Path) -> None:
    opened(mount)
    top = mount / "node" / "kubepods"
    assert contents(top, "cpu.weight", "cpu.max", "memory.max") == ["313", "max 100000", str(16 * 2**30)]
    assert contents(top / "besteffort", "cpu.weight") == ["1"]
    assert (mount / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory +hugetlb +pids +io"


def test_each_quality_has_its_place_and_its_limits(mount: Path) -> None:
    cgroups = opened(mount)
    top = mount / "node" / "kubepods"
    one = {"cpu": "1", "memory": "1Gi"}
    guaranteed, burstable, best = (
        pod_cgroups("g", "Guaranteed", requests=one, limits=one),
        pod_cgroups("b", "Burstable", requests={"cpu": "500m"}, limits={"hugepages-2Mi": "4Mi"}),
        pod_cgroups("e", "BestEffort"),
    )
    for each in (guaranteed, burstable, best):
        cgroups.apply(each)
    names = ("cpu.weight", "cpu.max", "memory.max")
    assert contents(top / "podg", *names) == ["39", "100000 100000", str(2**30)]
    assert contents(top / "burstable" / "podb", *names) == ["20", "max 100000", "max"]
    assert contents(top / "burstable" / "podb", "hugetlb.2MB.max") == [str(4 * 2**20)]
    assert contents(top / "besteffort" / "pode", *names) == ["1", "max 100000", "max"]
    assert cgroups.path_of(burstable) == "/node/kubepods/burstable/podb"


def test_burstable_pods_weigh_together_what_they_ask_for_together(mount: Path) -> None:
    cgroups = opened(mount)
    burstable = mount / "node" / "kubepods" / "burstable"
    pods = [pod_cgroups(uid, "Burstable", requests={"cpu": "1"}) for uid in ("a", "b")]
    for each in pods:
        cgroups.apply(each)
    assert contents(burstable, "cpu.weight") == [str(cpu_weight(2048))]
    cgroups.remove(pods[0])
    assert contents(burstable, "cpu.weight") == [str(cpu_weight(1024))]


def test_a_pods_cgroup_goes_with_those_of_its_containers(mount: Path) -> None:
    """The kernel removes a cgroup with its files; here they are taken away by hand."""
    cgroups = opened(mount)
    made = pod_cgroups("e", "BestEffort")
    cgroups.apply(made)
    place = mount / "node" / "kubepods" / "besteffort" / "pode"
    shutil.rmtree(place)
    (place / "container").mkdir(parents=True)
    cgroups.remove(made)
    assert not place.exists()


def test_a_limit_that_the_kernel_refuses_is_an_error_and_a_controller_that_it_lacks_is_none(mount: Path) -> None:
    cgroups = opened(mount)
    made = pod_cgroups("e", "BestEffort")
    place = mount / "node" / "kubepods" / "besteffort" / "pode"
    (place / "memory.max").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        cgroups.apply(made)
