"""What the scheduler reads off a pod."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.quantity import Quantity
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.state.pod_info import (
    CPU,
    MEMORY,
    PodInfo,
    is_extended_resource,
    pod_requests,
    selector_with_keys,
)
from tests.unit.scheduler.objects import pod


def taken(cpu: str) -> NodeAllocatableResourceClaimStatus:
    return from_dict(
        NodeAllocatableResourceClaimStatus,
        {"resourceClaimName": "c", "containers": ["c"], "mapping": [{"name": "cpu", "quantity": cpu}]},
    )


def test_requests_are_whole_units_without_zeros() -> None:
    info = PodInfo(pod("p", requests={"cpu": "1500m", "memory": "1Ki", "a.test/b": "0"}))
    assert info.requests == {"cpu": 1500, "memory": 1024}


def test_a_container_that_asks_for_nothing_scores_as_a_small_one() -> None:
    assert PodInfo(pod("p")).requests == {}
    assert PodInfo(pod("p")).scoring_requests == (100, 200 * 1024 * 1024)
    assert PodInfo(pod("p", requests={"cpu": "0"})).scoring_requests[0] == 0


@pytest.mark.parametrize("cpu", ["", "0", "1500m"])
@pytest.mark.parametrize("memory", ["", "0", "1Ki"])
@pytest.mark.parametrize("granted", [{}, {"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}])
@pytest.mark.parametrize("step", [{}, {"cpu": "3"}, {"cpu": "3", "memory": "1Mi"}])
def test_what_scores_is_the_sum_with_what_is_assumed(
    cpu: str, memory: str, granted: dict[str, str], step: dict[str, str]
) -> None:
    """Also if every container has all requests, so that nothing is assumed."""
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    status = {"containerStatuses": [{"name": "c", "allocatedResources": granted}]} if granted else {}
    first = [{"name": "step", "resources": {"requests": step}}] if step else []
    made = pod("p", requests=requests, status=status, initContainers=first)
    counted = pod_requests(made, {CPU: Quantity("100m"), MEMORY: Quantity("200Mi")})
    assert PodInfo(made).scoring_requests == (counted.get(CPU, 0), counted.get(MEMORY, 0))


@pytest.mark.parametrize("requests", [{}, {"cpu": "1"}, {"cpu": "1500m", "memory": "1Ki", "a.test/b": "2"}])
def test_pods_that_share_the_resources_of_their_containers_are_added_up_each_by_itself(
    requests: dict[str, str],
) -> None:
    """Init containers, overhead, the pod's own resources and those of its status do not belong to the containers."""
    plain = pod("p", requests=requests)
    shared = plain.spec.containers[0].resources
    others = [
        pod("q", initContainers=[{"name": "step", "resources": {"requests": {"cpu": "3"}}}]),
        pod("q", overhead={"cpu": "1"}),
        pod("q", resources={"requests": {"memory": "1Gi"}}),
        pod("q", status={"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "5"}}]}),
        plain,
    ]
    for other in [*others, *others]:
        containers = tuple(replace(one, resources=shared) for one in other.spec.containers)
        for number in (1, 2):
            made = replace(other, spec=replace(other.spec, containers=containers * number))
            asked = {name: amount for name, amount in pod_requests(made).items() if amount}
            counted = pod_requests(made, {CPU: Quantity("100m"), MEMORY: Quantity("200Mi")})
            assert PodInfo(made).requests == asked
            assert PodInfo(made).scoring_requests == (counted.get(CPU, 0), counted.get(MEMORY, 0))


def test_devices_that_take_of_the_node_are_counted_where_the_pod_goes() -> None:
    info = PodInfo(pod("p", requests={"cpu": "1"}))
    assert info.on("n", (taken("2"),)).requests == {"cpu": 3000}
    assert info.on("n").requests == {"cpu": 1000}
    assert info.on("n").pod.spec.node_name == "n"


def test_versions_of_a_pod_take_the_same_if_spec_labels_and_amounts_are_equal() -> None:
    info = PodInfo(pod("p", requests={"cpu": "1"}))
    touched: Pod = replace(info.pod, metadata=replace(info.pod.metadata, annotations={"a": "b"}))
    later = info.taking_the_same(touched)
    assert later is not None
    assert later.pod is touched
    assert later.requests == {"cpu": 1000}
    assert info.taking_the_same(pod("p", requests={"cpu": "2"})) is None
    assert info.taking_the_same(pod("p", requests={"cpu": "1"}, labels={"a": "b"})) is None
    assert info.on("n").taking_the_same(info.on("n", (taken("2"),)).pod) is None
    assert info.on("n", (taken("2"),)).taking_the_same(info.on("n").pod) is None


def test_ports_are_those_of_containers_that_go_on() -> None:
    def container(name: str, port: int, **more: str) -> dict[str, object]:
        return {"name": name, "ports": [{"containerPort": 80, "hostPort": port}], **more}

    made = pod(
        "p",
        containers=[container("main", 1)],
        initContainers=[container("step", 2), container("sidecar", 3, restartPolicy="Always")],
    )
    assert [port for _, _, port in PodInfo(made).host_ports] == [1, 3]


def test_anti_affinity_weighs_against() -> None:
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    weighted = [{"weight": 7, "podAffinityTerm": term}]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    info = PodInfo(pod("p", affinity={"podAffinity": preferred, "podAntiAffinity": preferred}))
    assert [one.weight for one in info.preferred_terms] == [7, -7]
    assert info.has_affinity
    assert not PodInfo(pod("q")).has_affinity


def test_a_selector_can_be_narrowed_to_the_pods_own_values() -> None:
    spec = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    term = PodInfo(
        pod("p", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [spec]}})
    ).pod.spec.affinity
    assert term is not None
    assert term.pod_affinity is not None
    selector = term.pod_affinity.required_during_scheduling_ignored_during_execution[0].label_selector
    narrowed = selector_with_keys(selector, {"rev": "1"}, ("rev", "absent"))
    assert narrowed is not None
    assert narrowed.matches({"app": "web", "rev": "1"})
    assert not narrowed.matches({"app": "web", "rev": "2"})
    other = selector_with_keys(selector, {"rev": "1"}, (), ("rev",))
    assert other is not None
    assert not other.matches({"app": "web", "rev": "1"})
    assert selector_with_keys(None, {}, ("rev",)) is None


def container(cpu: str, *, sidecar: bool = False) -> dict[str, Any]:
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **policy}


@pytest.mark.parametrize(
    ("inits", "containers", "milli"),
    [
        ([], ["1", "500m"], 1500),
        ([container("4")], ["1", "1"], 4000),
        ([container("1", sidecar=True)], ["1"], 2000),
        ([container("1", sidecar=True), container("4")], ["1"], 5000),
        ([container("4"), container("1", sidecar=True)], ["1"], 4000),
        ([container("100u")], ["100u"], 1),
    ],
)
def test_init_containers_count_beside_the_sidecars_started_before(
    inits: list[dict[str, Any]], containers: list[str], milli: int
) -> None:
    asked = pod("p", initContainers=inits, containers=[container(cpu) for cpu in containers])
    assert pod_requests(asked)["cpu"] == milli


def test_overhead_is_added_after_pod_level_requests_override() -> None:
    asked = pod("p", requests={"cpu": "1"}, resources={"requests": {"cpu": "2"}}, overhead={"cpu": "100m"})
    assert pod_requests(asked)["cpu"] == 2100


def test_for_scoring_a_silent_container_counts_as_a_small_one() -> None:
    assert PodInfo(pod("p")).scoring_requests == (100, 200 * 1024**2)
    assert PodInfo(pod("p")).requests == {}


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/x", False),
        ("requests.acme.test/x", False),
        ("acme.test/fpga", True),
        ("deviceclass.resource.kubernetes.io/gpu", True),
    ],
)
def test_extended_resources_are_those_of_other_domains(name: str, *, extended: bool) -> None:
    assert is_extended_resource(name) is extended
