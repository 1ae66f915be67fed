"""Which requests and limits may change while a pod runs."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.core.pods.validation._resizing import validate_resize
from cathedra.releases import FeatureGates
from tests.unit.kinds.core.pods.validation.test_changes import stored
from tests.unit.kinds.objects import context, definition_of, pod, texts, updated

GATES = FeatureGates.for_release("1.37")
ONLY = "spec: Forbidden: only cpu and memory resources are mutable"


def of(resources: dict[str, Any]) -> core_v1.ResourceRequirements:
    return from_dict(core_v1.ResourceRequirements, resources)


def resized(old: core_v1.Pod, own: dict[str, Any], release: str = "1.37", **spec: Any) -> list[str]:
    strategy = definition_of("pods").subresources["resize"]
    container = replace(old.spec.containers[0], resources=of(own))
    new = replace(old, spec=replace(old.spec, containers=(container,), **spec))
    return texts(updated(strategy, new, old, context(release))[1])


def test_cpu_and_memory_may_be_resized_within_the_quality_class() -> None:
    old = stored(pod({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}))
    assert resized(old, {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}) == []
    assert resized(old, {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "ephemeral-storage": "1"}}) == [ONLY]
    assert resized(old, {})[0].endswith("Pod QOS Class may not change as a result of resizing")


def test_a_pod_whose_containers_use_claims_can_be_resized_from_137_on_and_keeps_them() -> None:
    claims = {"claims": [{"name": "a"}], "requests": {"cpu": "1"}}
    old = stored(pod({"resources": claims}, resourceClaims=[{"name": "a", "resourceClaimName": "x"}]))
    assert resized(old, {**claims, "requests": {"cpu": "2"}}) == []
    assert resized(old, {**claims, "requests": {"cpu": "2"}}, "1.36") == [ONLY]
    assert resized(old, {"requests": {"cpu": "2"}}) == [ONLY]


def test_a_pod_whose_claims_take_from_the_node_can_be_resized_from_137_on() -> None:
    taken = core_v1.NodeAllocatableResourceClaimStatus(resource_claim_name="x")
    old = stored(pod({"resources": {"requests": {"cpu": "1"}}}))
    old = replace(old, status=replace(old.status, node_allocatable_resource_claim_statuses=(taken,)))
    assert texts(validate_resize(old, old, old.status.qos_class, GATES)) == []
    assert texts(validate_resize(old, old, old.status.qos_class, FeatureGates.for_release("1.36"))) == [
        "spec: Forbidden: pods with node allocatable resource claims cannot be resized"
    ]


def test_the_resources_of_the_pod_as_a_whole_can_be_resized_from_136_on() -> None:
    before, after = of({"requests": {"cpu": "2"}}), of({"requests": {"cpu": "3"}})
    old = stored(pod({}))
    old = replace(old, spec=replace(old.spec, resources=before), status=replace(old.status, qos_class="Burstable"))
    assert resized(old, {}, "1.36", resources=after) == []
    assert resized(old, {}, "1.35", resources=after) == [
        "[]: Forbidden: pods with pod-level resources cannot be resized"
    ]
    (removed, *_) = resized(old, {}, resources=of({"requests": {"memory": "1"}}))
    assert removed == "spec.resources.requests: Forbidden: resource requests cannot be removed"


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [("Always", []), (None, ["spec: Forbidden: resources for non-sidecar init containers are immutable"])],
)
def test_of_init_containers_sidecars_alone_can_be_resized(policy: str | None, wanted: list[str]) -> None:
    old = stored(pod({"resources": {"requests": {"cpu": "1"}}}))
    init = core_v1.Container(name="i", image="i", restart_policy=policy, resources=of({"requests": {"cpu": "1"}}))
    old = stored(replace(old, spec=replace(old.spec, init_containers=(init,))))
    (before,) = old.spec.init_containers
    changed = replace(before, resources=of({"requests": {"cpu": "2"}}))
    assert resized(old, {"requests": {"cpu": "1"}}, init_containers=(changed,)) == wanted


def test_a_request_that_is_there_cannot_be_removed() -> None:
    old = stored(pod({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}))
    assert resized(old, {"requests": {"cpu": "1"}}) == [
        "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
    ]


def test_containers_are_neither_renamed_nor_added() -> None:
    old = stored(pod({"name": "a"}, {"name": "b"}))
    turned = replace(old, spec=replace(old.spec, containers=old.spec.containers[::-1]))
    assert texts(validate_resize(turned, old, "BestEffort", GATES)) == [
        "spec.containers: Forbidden: containers may not be renamed or reordered on resize"
    ]
    fewer = replace(old, spec=replace(old.spec, containers=old.spec.containers[:1]))
    assert texts(validate_resize(fewer, old, "BestEffort", GATES)) == [
        "spec.containers: Forbidden: containers may not be added or removed on resize"
    ]


def test_static_pods_are_not_resized() -> None:
    static = stored(pod(nodeName="n", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}))
    assert texts(validate_resize(static, static, "BestEffort", GATES)) == [
        "[]: Forbidden: static pods cannot be resized"
    ]
