"""What a pod is charged."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceRequirements,
    ScopedResourceSelectorRequirement,
    ScopeSelector,
)
from cathedra.api.quantity import Quantity
from cathedra.kinds.core.pods.usage import missing_resources, pod_in_scopes, pod_usage, tracked_pod_resources


def container(name: str = "c", *, restart: str | None = None, **requests: str) -> Container:
    amounts = {key.replace("__", "/").replace("_", "."): Quantity(value) for key, value in requests.items()}
    return Container(name=name, resources=ResourceRequirements(requests=amounts), restart_policy=restart)


def pod(*containers: Container, phase: str = "Pending", **spec: Any) -> Pod:
    return Pod(spec=PodSpec(containers=containers, **spec), status=PodStatus(phase=phase))


def usage(one: Pod) -> dict[str, str]:
    return {name: str(amount) for name, amount in pod_usage(one, extended=True).items()}


def test_containers_add_up_and_overhead_comes_on_top() -> None:
    charged = usage(pod(container(cpu="1"), container("d", cpu="500m"), overhead={"cpu": Quantity("100m")}))
    assert charged == {"count/pods": "1", "pods": "1", "cpu": "1600m", "requests.cpu": "1600m"}


def test_a_large_first_step_counts_and_sidecars_stay() -> None:
    init = (container("side", restart="Always", cpu="1"), container("first", cpu="4"))
    assert usage(pod(container(cpu="2"), init_containers=init))["cpu"] == "5"
    init = (container("side", restart="Always", cpu="1"), container("first", cpu="1"))
    assert usage(pod(container(cpu="2"), init_containers=init))["cpu"] == "3"


def test_extended_resources_and_huge_pages_have_their_names() -> None:
    charged = usage(pod(container(example_com__gpu="2", **{"hugepages-2Mi": "4Mi"})))
    assert charged["requests.example.com/gpu"] == "2"
    assert charged["hugepages-2Mi"] == charged["requests.hugepages-2Mi"] == "4Mi"


def test_the_implicit_resource_of_a_class_counts_behind_its_gate() -> None:
    one = pod(container(deviceclass_resource_kubernetes_io__gpu="1"))
    name = "requests.deviceclass.resource.kubernetes.io/gpu"
    assert name in pod_usage(one, extended=True)
    assert name not in pod_usage(one, extended=False)
    assert tracked_pod_resources([name, "cpu", "services"], extended=True) == {name, "cpu"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_an_object_only(phase: str) -> None:
    assert usage(pod(container(cpu="1"), phase=phase)) == {"count/pods": "1"}


def test_missing_amounts_are_named_by_container() -> None:
    one = pod(container("a"), container("b", cpu="1"), container("d"))
    assert missing_resources(one, {"cpu", "memory", "pods"}) == "cpu for: a,d; memory for: a,b,d"


ACROSS = Affinity(
    pod_affinity=PodAffinity(
        required_during_scheduling_ignored_during_execution=(PodAffinityTerm(topology_key="z", namespaces=("x",)),)
    )
)


@pytest.mark.parametrize(
    ("scope", "spec", "held"),
    [
        ("Terminating", {"active_deadline_seconds": 5}, True),
        ("Terminating", {}, False),
        ("NotTerminating", {}, True),
        ("BestEffort", {}, True),
        ("NotBestEffort", {}, False),
        ("PriorityClass", {"priority_class_name": "high"}, True),
        ("CrossNamespacePodAffinity", {"affinity": ACROSS}, True),
        ("CrossNamespacePodAffinity", {}, False),
    ],
)
def test_scopes_hold_the_pods_they_name(scope: str, spec: dict[str, Any], held: bool) -> None:
    quota = ResourceQuota(spec=ResourceQuotaSpec(scopes=(scope,)))
    assert pod_in_scopes(quota, pod(container(), **spec)) is held


@pytest.mark.parametrize(
    ("operator", "values", "held"),
    [
        ("In", ("high",), True),
        ("In", ("low",), False),
        ("NotIn", ("low",), True),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
    ],
)
def test_a_selector_of_priority_classes_chooses(operator: str, values: tuple[str, ...], held: bool) -> None:
    wanted = ScopedResourceSelectorRequirement(scope_name="PriorityClass", operator=operator, values=values)
    quota = ResourceQuota(spec=ResourceQuotaSpec(scope_selector=ScopeSelector(match_expressions=(wanted,))))
    assert pod_in_scopes(quota, pod(container(), priority_class_name="high")) is held
