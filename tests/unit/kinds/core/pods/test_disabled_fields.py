"""Fields of pods that go with closed gates, unless the stored pod has them already."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.struct import encode, from_dict
from cathedra.kinds.core.pods.disabled_fields import enabled_pod_spec, enabled_pod_status
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tests.unit.kinds.objects import gates, pod

USING = {"resources": {"claims": [{"name": "a"}]}}
CLAIMS = [{"name": "a", "resourceClaimName": "x"}]
NEEDING_CLAIMS = (
    "DRAAdminAccess",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
    "DRASchedulerFilterTimeout",
)
WITHOUT_CLAIMS = gates("1.34", DynamicResourceAllocation=False, **dict.fromkeys(NEEDING_CLAIMS, False))


def test_without_dynamic_resource_allocation_no_pod_has_claims() -> None:
    made = pod(USING, resourceClaims=CLAIMS, initContainers=[{"name": "i", "image": "i", **USING}]).spec
    spec = enabled_pod_spec(made, None, WITHOUT_CLAIMS)
    assert spec.resource_claims == ()
    assert [c.resources.claims for c in (*spec.containers, *spec.init_containers)] == [(), ()]
    assert enabled_pod_spec(made, made, WITHOUT_CLAIMS) is made
    assert enabled_pod_spec(made, None, gates("1.34")) == made


@pytest.mark.parametrize(
    ("release", "name", "field"),
    [
        ("1.37", "scheduling_group", {"schedulingGroup": {"podGroupName": "g"}}),
        ("1.35", "workload_ref", {"workloadRef": {"name": "w", "podGroup": "g"}}),
    ],
    ids=["a pod belongs to a group where groups exist", "a pod refers to a workload where workloads exist"],
)
def test_the_group_of_a_pod_needs_the_gate_generic_workload(release: str, name: str, field: dict[str, Any]) -> None:
    made = pod(**field).spec
    assert getattr(enabled_pod_spec(made, None, gates(release)), name) is None
    assert enabled_pod_spec(made, None, gates(release, GenericWorkload=True)) is made
    assert enabled_pod_spec(made, made, gates(release)) is made


def test_a_spec_without_what_is_closed_is_the_same_object() -> None:
    """Pods are written often: nothing is copied for nothing."""
    made = pod().spec
    assert enabled_pod_spec(made, None, WITHOUT_CLAIMS) is made


def status(**values: Any) -> core_v1.PodStatus:
    return from_dict(core_v1.PodStatus, values)


def health(message: str | None = "hot", kind: str = "containerStatuses") -> dict[str, Any]:
    device = {"resourceID": "d", "health": "Healthy", **({"message": message} if message else {})}
    return {kind: [{"name": "c", "allocatedResourcesStatus": [{"name": "claim:a", "resources": [device]}]}]}


@pytest.mark.parametrize(
    ("gate", "values", "field"),
    [
        (
            "DRAExtendedResource",
            {"extendedResourceClaimStatus": {"resourceClaimName": "x"}},
            "extended_resource_claim_status",
        ),
        (
            "DRANodeAllocatableResources",
            {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "x"}]},
            "node_allocatable_resource_claim_statuses",
        ),
    ],
)
def test_a_status_loses_what_is_closed_unless_it_was_reported_before(
    gate: str, values: dict[str, Any], field: str
) -> None:
    new, empty = status(**values), status()
    closed, opened = gates("1.36", **{gate: False}), gates("1.36", **{gate: True})
    assert getattr(enabled_pod_status(new, empty, closed), field) == getattr(empty, field)
    assert getattr(enabled_pod_status(new, empty, opened), field) == getattr(new, field)
    assert getattr(enabled_pod_status(new, new, closed), field) == getattr(new, field)


def test_statuses_of_claims_go_without_dynamic_resource_allocation() -> None:
    new = status(resourceClaimStatuses=[{"name": "a"}])
    assert enabled_pod_status(new, status(), WITHOUT_CLAIMS).resource_claim_statuses == ()
    assert enabled_pod_status(new, new, WITHOUT_CLAIMS) == new


@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"])
def test_the_health_of_devices_is_reported_where_that_is_open(kind: str) -> None:
    closed = gates("1.36", ResourceHealthStatus=False, ResourceHealthStatusMessage=False)
    new = status(**health(kind=kind))
    assert enabled_pod_status(new, status(), closed) == status(**{kind: [{"name": "c"}]})
    assert enabled_pod_status(new, status(), gates("1.36")) == new
    assert enabled_pod_status(new, status(**health()), closed) == new


def test_messages_about_devices_have_a_gate_of_their_own() -> None:
    closed = gates("1.36", ResourceHealthStatusMessage=False)
    new = status(**health())
    assert enabled_pod_status(new, status(**health(None)), closed) == status(**health(None))
    assert enabled_pod_status(new, status(**health("old")), closed) == new


TEMPLATE = {"spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": [{"name": "c", "image": "i"}]}}
JOB = {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        *(
            (kind, {"spec": {"template": TEMPLATE}})
            for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
        ),
        ("ReplicationController", {"spec": {"template": TEMPLATE}}),
        ("Job", {"spec": JOB}),
        ("CronJob", {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}}),
        ("PodTemplate", {"template": TEMPLATE}),
    ],
)
def test_templates_lose_what_pods_would_lose_unless_it_is_stored(kind: str, body: dict[str, Any]) -> None:
    closed = FeatureGates.for_release("1.37")
    opened = FeatureGates.for_release("1.37", {"GenericWorkload": True})
    definition = next(one for one in all_definitions(opened) if one.kind == kind)
    given = from_dict(definition.type, {"metadata": {"name": "a", "namespace": "n"}, **body})

    def is_kept(gates: FeatureGates, old: Any) -> bool:
        context = RequestContext(gates, 0.0)
        strategy = definition.strategy
        new = strategy.default(given, context)
        kept = strategy.prepare_create(new, context) if old is None else strategy.prepare_update(new, old, context)
        return "podGroupName" in encode(kept).decode()

    assert is_kept(opened, None)
    assert not is_kept(closed, None)
    assert is_kept(closed, given)
