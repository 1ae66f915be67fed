"""Rules of what is reported about pods."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.struct import from_dict, replace
from tests.unit.kinds.objects import context, created, definition_of, pod, texts, updated

CLAIMS = [{"name": "a", "resourceClaimName": "x"}, {"name": "b", "resourceClaimTemplateName": "t"}]


def reported(status: dict[str, Any], release: str = "1.37", **overrides: bool) -> tuple[core_v1.Pod, list[str]]:
    request = context(release, **overrides)
    container = {"resources": {"claims": [{"name": "a"}], "requests": {"example.com/gpu": "1"}}}
    container["resources"]["limits"] = {"example.com/gpu": "1"}
    old, errors = created(definition_of("pods").strategy, pod(container, resourceClaims=CLAIMS), request)
    assert errors == []
    new = replace(old, status=from_dict(core_v1.PodStatus, status))
    made, errors = updated(definition_of("pods").subresources["status"], new, old, request)
    return made, texts(errors)


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [
        ([{"name": "b", "resourceClaimName": "x"}], []),
        ([{"name": "b"}], []),
        ([{"name": "z"}], ['[0].name: Invalid value: "z": must match the name of an entry in `spec.resourceClaims`']),
        ([{"name": "b"}, {"name": "b"}], ['[1].name: Duplicate value: "b"']),
    ],
)
def test_statuses_of_claims_name_entries_of_the_pod(statuses: list[Any], wanted: list[str]) -> None:
    found = reported({"resourceClaimStatuses": statuses})[1]
    assert found == [f"status.resourceClaimStatuses{text}" for text in wanted]


@pytest.mark.parametrize(("release", "field"), [("1.35", "name"), ("1.36", "resourceClaimName")])
def test_a_wrong_claim_name_is_told_at_the_name_until_135(release: str, field: str) -> None:
    (text,) = reported({"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "A_"}]}, release)[1]
    assert text.startswith(f'status.resourceClaimStatuses[0].{field}: Invalid value: "A_"')


def test_requests_of_extended_resources_are_mapped_to_containers_that_have_them() -> None:
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "q"}
    good = {"resourceClaimName": "x", "requestMappings": [mapping]}
    assert reported({"extendedResourceClaimStatus": good})[1] == []
    bad = {"resourceClaimName": "", "requestMappings": [mapping, mapping, {**mapping, "containerName": "z"}]}
    path = "status.extendedResourceClaimStatus"
    assert reported({"extendedResourceClaimStatus": bad})[1] == [
        f'{path}.requestMappings[1].containerName: Duplicate value: "c"',
        f'{path}.requestMappings[1].resourceName: Duplicate value: "example.com/gpu"',
        f'{path}.requestMappings[1].requestName: Duplicate value: "q"',
        f'{path}.requestMappings[2].containerName: Invalid value: "z": must match the name of an entry in '
        "spec.initContainers.name or spec.containers.name",
        f"{path}.resourceClaimName: Required value",
    ]


def health(name: str, **device: Any) -> dict[str, Any]:
    resource = {"name": name, "resources": [{"resourceID": "d", "health": "Healthy", **device}]}
    return {"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [resource]}]}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (health("claim:a"), ""),
        (health("example.com/gpu"), ""),
        (health("claim:a/r"), 'name: Invalid value: "claim:a/r": must match one of the container\'s resource claims'),
        (health("cpu"), 'name: Invalid value: "cpu": must match one of the container\'s resource requests'),
        (health("claim:a", health="x"), 'resources[0].health: Unsupported value: "x"'),
        (health("claim:a", message=""), "resources[0].message: Required value: must be non-empty if specified"),
        (health("claim:a", message="x" * 1025), "resources[0].message: Too long: may not be more than 1024 bytes"),
    ],
)
def test_health_is_about_resources_of_the_container(status: dict[str, Any], wanted: str) -> None:
    found = reported(status)[1]
    path = "status.containerStatuses[0].allocatedResourcesStatus[0]."
    assert [text.startswith(path + wanted) for text in found] == ([True] if wanted else [])


def test_what_closed_gates_forbid_is_dropped() -> None:
    status = {
        "extendedResourceClaimStatus": {"resourceClaimName": "x"},
        "nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "x"}],
        **health("claim:a", message="m"),
    }
    made, errors = reported(status, "1.36", DRAExtendedResource=False, ResourceHealthStatusMessage=False)
    assert errors == []
    assert made.status.extended_resource_claim_status is None
    assert made.status.node_allocatable_resource_claim_statuses == ()
    assert made.status.container_statuses[0].allocated_resources_status[0].resources[0].message is None
    made, _ = reported(health("claim:a"), "1.35")
    assert made.status.container_statuses[0].allocated_resources_status == ()


def test_what_ended_for_good_does_not_begin_again() -> None:
    strategy = definition_of("pods").strategy
    old, _ = created(strategy, pod(restartPolicy="Never"), context())
    ended = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
    old = replace(old, status=from_dict(core_v1.PodStatus, {"qosClass": "BestEffort", "containerStatuses": [ended]}))
    running = {"name": "c", "state": {"running": {}}}
    new = replace(old, status=from_dict(core_v1.PodStatus, {"qosClass": "BestEffort", "containerStatuses": [running]}))
    errors = updated(definition_of("pods").subresources["status"], new, old, context())[1]
    assert texts(errors) == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]


def test_the_quality_class_stays() -> None:
    assert reported({"qosClass": "Guaranteed"})[1] == [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable'
    ]
