"""What 1.37 changed (docs/spec/api.md §1.4, §1.5 and §D): one test per change, against 1.36."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cathedra.api import resource
from cathedra.api.core import core_v1, resource_v1alpha3, scheduling_v1alpha3
from cathedra.api.decoding import decode_json
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.kinds.served import all_definitions
from tests.unit.kinds.objects import (
    claim,
    context,
    created,
    definition_of,
    device,
    exactly,
    gates,
    pod,
    resource_slice,
    texts,
    updated,
)

PATH = "spec.devices[0]"


def sliced(made: resource.ResourceSlice, release: str = "1.37", **overrides: bool) -> list[str]:
    request = context(release, **overrides)
    return texts(created(definition_of("resourceslices", release).strategy, made, request)[1])


def unknown(plural: str, values: dict[str, Any], release: str) -> tuple[str, ...]:
    definition = definition_of(plural)
    gvk = GroupVersionKind(definition.group, "v1", definition.kind)
    return decode_json(definition.type, gvk, msgspec.json.encode(values), release).problems


# --- served kinds and versions


def test_taint_rules_are_served_in_v1() -> None:
    newest = definition_of("devicetaintrules")
    assert [version.name for version in newest.versions if version.served_by_default] == ["v1"]
    older = definition_of("devicetaintrules", "1.36")
    assert [version.name for version in older.versions] == ["v1beta2", "v1alpha3"]
    assert not any(version.served_by_default for version in older.versions)


def test_pod_groups_move_to_newer_versions() -> None:
    def versions(release: str) -> list[str]:
        found = all_definitions(gates(release, GenericWorkload=True))
        return [v.name for kind in found if kind.plural == "podgroups" for v in kind.versions]

    assert versions("1.36") == ["v1alpha2"]
    assert versions("1.37") == ["v1beta1", "v1alpha3"]


def test_slices_can_be_selected_by_pool() -> None:
    assert "spec.pool.name" in definition_of("resourceslices").field_selectors
    assert "spec.pool.name" not in definition_of("resourceslices", "1.36").field_selectors


# --- fields


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("spec.skipNodeOperations", {"spec": {"skipNodeOperations": ["*"]}}),
        ("spec.partitionTypeAttribute", {"spec": {"partitionTypeAttribute": "a/b"}}),
        (
            "spec.devices[0].nodeAllocatableResources",
            {"spec": {"devices": [{"name": "d", "nodeAllocatableResources": {}}]}},
        ),
        (
            "spec.devices[0].consumesCounters[0].compatibilityGroups",
            {"spec": {"devices": [{"name": "d", "consumesCounters": [{"compatibilityGroups": ["a"]}]}]}},
        ),
    ],
)
def test_fields_that_came_with_137_are_unknown_before(field: str, values: dict[str, Any]) -> None:
    assert unknown("resourceslices", values, "1.37") == ()
    assert unknown("resourceslices", values, "1.36") == (f'unknown field "{field}"',)


def test_the_mappings_of_136_are_gone() -> None:
    values = {"spec": {"devices": [{"name": "d", "nodeAllocatableResourceMappings": {}}]}}
    assert unknown("resourceslices", values, "1.36") == ()
    assert unknown("resourceslices", values, "1.37") == (
        'unknown field "spec.devices[0].nodeAllocatableResourceMappings"',
    )


# --- gates: every new field is dropped while its gate is closed, and kept where it is in use


def test_closed_gates_drop_the_new_fields_of_slices() -> None:
    made = resource_slice(
        device(
            nodeAllocatableResources={"cpu": {"overhead": {"perPod": "1"}}},
            consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["a"]}],
        ),
        skipNodeOperations=["*"],
        partitionTypeAttribute="a/b",
    )
    strategy = definition_of("resourceslices").strategy
    stored, errors = created(strategy, made, context())
    assert errors == []
    assert to_dict(stored.spec) == to_dict(
        resource_slice(device(consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}}])).spec
    )
    kept, _ = updated(strategy, made, made, context())
    assert kept.spec.skip_node_operations == ("*",)
    assert kept.spec.devices[0].node_allocatable_resources != {}
    assert kept.spec.devices[0].consumes_counters[0].compatibility_groups == ("a",)


DERIVED = [{"name": "a/b", "expression": "1"}]


def test_derived_attributes_are_dropped_while_their_gate_is_closed() -> None:
    made = claim(exactly(derivedAttributes=DERIVED), constraints=[{"matchAttribute": "a/b"}])
    strategy = definition_of("resourceclaims").strategy
    assert created(strategy, made, context())[0].spec.devices.requests[0].exactly.derived_attributes == ()
    opened = context(DRADerivedAttributes=True)
    stored, errors = created(strategy, made, opened)
    assert (len(stored.spec.devices.requests[0].exactly.derived_attributes), errors) == (1, [])


@pytest.mark.parametrize(
    ("derived", "wanted"),
    [
        (DERIVED, []),
        ([{"name": "b", "expression": "1"}], ['name: Invalid value: "b": a fully', 'name: Invalid value: "b": must']),
        ([{"name": "x/y", "expression": "1"}], ['name: Invalid value: "x/y": must be referenced by at least one']),
        ([{"name": "a/b", "expression": ""}], ["expression: Required value"]),
    ],
)
def test_a_derived_attribute_is_used_by_a_constraint(derived: list[Any], wanted: list[str]) -> None:
    made = claim(exactly(derivedAttributes=derived), constraints=[{"matchAttribute": "a/b"}])
    found = texts(created(definition_of("resourceclaims").strategy, made, context(DRADerivedAttributes=True))[1])
    path = "spec.devices.requests[0].exactly.derivedAttributes[0]."
    assert [text.startswith(path + part) for text, part in zip(found, wanted, strict=True)] == [True] * len(wanted)


# --- rules


def policy(value: str = "10", **rest: Any) -> resource.ResourceSlice:
    capacity = {"m": {"value": value, "requestPolicy": rest}}
    return resource_slice(device(allowMultipleAllocations=True, capacity=capacity))


def test_capacity_is_compared_in_fractions() -> None:
    made = policy("10", default="1200m", validRange={"min": "1", "step": "500m"})
    assert len(sliced(made, DRAFractionalCapacityRange=True)) == 1
    assert sliced(made) == sliced(made, "1.36") == []


def test_a_default_out_of_range_is_told_at_the_default() -> None:
    made = policy("10", default="1", validRange={"min": "2"})
    where = f"{PATH}.capacity[m].requestPolicy.validRange"
    assert sliced(made) == [f'{where}.default: Invalid value: "1": default is less than min: 2']
    assert sliced(made, "1.36") == [f'{where}.min: Invalid value: "1": default is less than min: 2']


def test_a_negative_step_is_refused() -> None:
    found = sliced(policy("10", default="1", validRange={"min": "1", "step": "-1"}))
    assert found == [
        f'{PATH}.capacity[m].requestPolicy.validRange.step: Invalid value: "-1": must be greater than zero'
    ]


def test_unchanged_capacity_is_not_looked_at_again() -> None:
    strategy = definition_of("resourceslices").strategy
    bad = policy("10", default="1", validRange={"min": "2"})
    assert texts(updated(strategy, bad, bad, context())[1]) == []


@pytest.mark.parametrize(
    ("taken", "wanted"),
    [
        ({"cpu": {"overhead": {"perPod": "1"}}}, []),
        ({"cpu": {"mapping": {"deviceMultiplier": "1"}}}, []),
        ({"cpu": {"mapping": {"capacityKey": "m", "capacityMultiplier": "2"}}}, []),
        ({"cpu": {}}, ["[cpu]: Required value: at least one of mapping or overhead must be set"]),
        ({"example.com/x": {"overhead": {"perPod": "1"}}}, ['[example.com/x]: Invalid value: "example.com/x"']),
        (
            {"cpu": {"mapping": {"capacityKey": "z", "capacityMultiplier": "1"}}},
            ["[cpu].mapping.capacityKey: Not"],
        ),
        ({"cpu": {"mapping": {"deviceMultiplier": "0"}}}, ['[cpu].mapping.deviceMultiplier: Invalid value: "0"']),
        ({"cpu": {"overhead": {"perPod": "-1"}}}, ['[cpu].overhead.perPod: Invalid value: "-1"']),
    ],
)
def test_what_a_device_takes_from_its_node_is_checked(taken: dict[str, Any], wanted: list[str]) -> None:
    made = resource_slice(device(nodeAllocatableResources=taken, capacity={"m": {"value": "1"}}))
    found = sliced(made, DRANodeAllocatableResources=True)
    path = f"{PATH}.nodeAllocatableResources"
    assert [text.startswith(path + part) for text, part in zip(found, wanted, strict=True)] == [True] * len(wanted)


@pytest.mark.parametrize(
    ("operations", "wanted"),
    [
        (["*"], []),
        (["NodePrepareResources", "NodeUnprepareResources"], []),
        (["NodePrepareResources"], ['spec.skipNodeOperations: Invalid value: ["NodePrepareResources"]']),
        (["Sing"], ['spec.skipNodeOperations[0]: Unsupported value: "Sing"']),
        (["*", "*"], ['spec.skipNodeOperations[1]: Duplicate value: "*"']),
    ],
)
def test_what_a_driver_can_do_without_is_checked(operations: list[str], wanted: list[str]) -> None:
    found = sliced(resource_slice(skipNodeOperations=operations), DRAOptionalNodeOperations=True)
    assert [text.startswith(part) for text, part in zip(found, wanted, strict=True)] == [True] * len(wanted)


def test_a_partition_type_is_a_text_of_every_device_that_draws_counters() -> None:
    draws = [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]
    opened = {"DRAPartitionableDevicesType": True, "DRAResourcePoolStatus": True}
    good = device(consumesCounters=draws, attributes={"gpu.example.com/type": {"string": "x"}})
    assert sliced(resource_slice(good, partitionTypeAttribute="gpu.example.com/type"), **opened) == []
    assert sliced(resource_slice(device(consumesCounters=draws), partitionTypeAttribute="a/b"), **opened) == [
        f"{PATH}.attributes[a/b]: Required value: "
        "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
    ]


def test_tolerations_in_allocations_are_checked() -> None:
    result = {
        "request": "r",
        "driver": "d",
        "pool": "p",
        "device": "d",
        "tolerations": [{"key": "a b", "operator": "x"}],
    }
    for release, count in (("1.36", 0), ("1.37", 2)):
        request = context(release)
        old, _ = created(definition_of("resourceclaims", release).strategy, claim(), request)
        status = {"allocation": {"devices": {"results": [result]}}}
        new = replace(old, status=from_dict(resource.ResourceClaimStatus, status))
        errors = updated(definition_of("resourceclaims", release).subresources["status"], new, old, request)[1]
        assert len(errors) == count


def test_health_may_be_about_the_claim_of_extended_resources() -> None:
    resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "q"}
    health = {"name": "claim:x/q", "resources": [{"resourceID": "d", "health": "Healthy"}]}
    status = {
        "qosClass": "BestEffort",
        "extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [mapping]},
        "containerStatuses": [{"name": "c", "allocatedResourcesStatus": [health]}],
    }
    for release, accepted in (("1.36", False), ("1.37", True)):
        request = context(release)
        old, _ = created(definition_of("pods", release).strategy, pod({"resources": resources}), request)
        new = replace(old, status=from_dict(core_v1.PodStatus, status))
        errors = updated(definition_of("pods", release).subresources["status"], new, old, request)[1]
        assert (errors == []) is accepted


def test_what_a_pod_took_from_its_node_has_mapping_and_overhead() -> None:
    request = context(DRANodeAllocatableResources=True)
    entry = {"name": "a", "resourceClaimName": "x"}
    old, _ = created(definition_of("pods").strategy, pod(resourceClaims=[entry]), request)
    taken = {"resourceClaimName": "x", "containers": ["c"], "mapping": [{"name": "cpu", "quantity": "-1"}]}
    status = from_dict(core_v1.PodStatus, {"qosClass": "BestEffort", "nodeAllocatableResourceClaimStatuses": [taken]})
    errors = updated(definition_of("pods").subresources["status"], replace(old, status=status), old, request)[1]
    assert texts(errors) == [
        'status.nodeAllocatableResourceClaimStatuses[0].mapping[0].quantity: Invalid value: "-1": must be non-negative'
    ]


def test_answers_about_pools_count_partition_types_once() -> None:
    entry = {"attribute": "a/b", "type": "x", "total": 1, "allocatable": -1}
    pool = {"driver": "d", "poolName": "p", "generation": 1, "partitionSummary": [entry, entry]}
    status = from_dict(resource_v1alpha3.ResourcePoolStatusRequestStatus, {"poolCount": 1, "pools": [pool]})
    definition = definition_of("resourcepoolstatusrequests")
    request = from_dict(resource_v1alpha3.ResourcePoolStatusRequest, {"spec": {"driver": "d"}})
    old, errors = created(definition.strategy, request, context(everything=True))
    assert errors == []
    errors = updated(definition.subresources["status"], replace(old, status=status), old, context(everything=True))[1]
    path = "status.pools[0].partitionSummary"
    assert texts(errors) == [
        f'{path}[1]: Duplicate value: {{"type":"x","total":1,"allocatable":-1,"attribute":"a/b"}}',
        f"{path}[0].allocatable: Invalid value: -1: must be greater than or equal to 0",
        f"{path}[1].allocatable: Invalid value: -1: must be greater than or equal to 0",
    ]


def test_groups_of_pods_keep_their_rules_in_the_new_versions() -> None:
    group = from_dict(
        scheduling_v1alpha3.PodGroup, {"spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "a"}]}}
    )
    errors = created(definition_of("podgroups").strategy, group, context(everything=True))[1]
    assert len(errors) == 1


# --- tags of other groups (k8s.io/api 1.37: +k8s:beta(since: "1.37"))


def refused(plural: str, new: dict[str, Any], old: dict[str, Any] | None, release: str) -> list[str]:
    definition, request = definition_of(plural, release), context(release)

    def made(values: dict[str, Any]) -> Any:
        return from_dict(definition.type, {"metadata": {"name": "o", "namespace": "default"}, **values})

    if old is None:
        return texts(created(definition.strategy, made(new), request)[1])
    return texts(updated(definition.strategy, made(new), made(old), request)[1])


BLOCK = [{"from": [{"ipBlock": {"cidr": ""}}]}]
TYPED = {"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}]}
ATTACHED = {"spec": {"attacher": "csi.example.com", "nodeName": "n", "source": {}}}


TARGET = {"kind": "Deployment", "name": "d"}


@pytest.mark.parametrize(
    ("plural", "values", "wanted"),
    [
        ("storageclasses", {}, ["provisioner: Required value"]),
        ("volumeattachments", {}, ["spec.attacher: Required value"]),
        (
            "volumeattachments",
            {"spec": {"attacher": "a" * 64}},
            ["spec.attacher: Too long: may not be more than 63 characters"],
        ),
        ("networkpolicies", {"spec": {"ingress": BLOCK}}, ["spec.ingress[0].from[0].ipBlock.cidr: Required value"]),
        (
            "ingressclasses",
            {"spec": {"parameters": {}}},
            ["spec.parameters.kind: Required value", "spec.parameters.name: Required value"],
        ),
        ("ipaddresses", {}, ["spec.parentRef: Required value"]),
        ("ipaddresses", {"spec": {"parentRef": {"name": "s"}}}, ["spec.parentRef.resource: Required value"]),
        ("horizontalpodautoscalers", {"spec": {"scaleTargetRef": TARGET}}, ["spec.maxReplicas: Required value"]),
        (
            "horizontalpodautoscalers",
            {"spec": {"maxReplicas": -1, "scaleTargetRef": TARGET}},
            ["spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1"],
        ),
        (
            "endpointslices",
            {"addressType": "IPX", "endpoints": [{}]},
            [
                'addressType: Unsupported value: "IPX": supported values: "FQDN", "IPv4", "IPv6"',
                "endpoints[0].addresses: Required value",
            ],
        ),
    ],
)
def test_kinds_without_rules_of_their_own_have_those_of_their_tags(
    plural: str, values: dict[str, Any], wanted: list[str]
) -> None:
    assert refused(plural, values, None, "1.37") == wanted
    assert refused(plural, values, None, "1.36") == []


def test_tags_of_replication_controllers_stand_beside_rules_of_their_own() -> None:
    values = {"spec": {"replicas": -1, "minReadySeconds": -2}}
    own = ["spec.selector: Required value", "spec.template: Required value"]
    assert refused("replicationcontrollers", values, None, "1.36") == own
    assert refused("replicationcontrollers", values, None, "1.37") == [
        *own,
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
    ]


@pytest.mark.parametrize(
    ("plural", "old", "new", "wanted"),
    [
        (
            "storageclasses",
            {"provisioner": "a", "parameters": {"a": "b"}},
            {"provisioner": ""},
            [
                "provisioner: Required value",
                "provisioner: Invalid value: null: field is immutable",
                "parameters: Invalid value: null: field is immutable",
            ],
        ),
        ("volumeattachments", ATTACHED, {}, ["spec: Invalid value: null: field is immutable"]),
        (
            "endpointslices",
            TYPED,
            {**TYPED, "addressType": "IPv6"},
            ["addressType: Invalid value: null: field is immutable"],
        ),
        ("endpointslices", {"addressType": "IPX"}, {"addressType": "IPX"}, []),
    ],
)
def test_what_tags_call_immutable_stays(
    plural: str, old: dict[str, Any], new: dict[str, Any], wanted: list[str]
) -> None:
    assert refused(plural, new, old, "1.37") == wanted


@pytest.mark.parametrize(
    ("plural", "values", "newer", "older"),
    [
        (
            "roles",
            {"rules": [{"apiGroups": [""]}]},
            ["rules[0].resources", "rules[0].verbs: Required value"],
            ["rules[0].verbs: Required value: verbs must contain at least one value", "rules[0].resources"],
        ),
        (
            "rolebindings",
            {"roleRef": {"kind": "Role"}, "subjects": [{"kind": "User"}, {"kind": "X", "name": "x"}]},
            ["subjects[1].kind", "subjects[0].name: Required value", "roleRef.name: Required value"],
            ["roleRef.name: Required value", "subjects[0].name: Required value", "subjects[1].kind"],
        ),
        (
            "cronjobs",
            {"spec": {"concurrencyPolicy": "X"}},
            ["spec.concurrencyPolicy", "spec.jobTemplate", "spec.schedule: Required value"],
            ["spec.schedule: Required value", "spec.concurrencyPolicy", "spec.jobTemplate"],
        ),
    ],
)
def test_what_tags_cover_is_reported_last(
    plural: str, values: dict[str, Any], newer: list[str], older: list[str]
) -> None:
    for release, wanted in (("1.37", newer), ("1.36", older)):
        found = refused(plural, values, None, release)
        distinct = [text for i, text in enumerate(found) if i == 0 or text[:16] != found[i - 1][:16]]
        assert [text[: len(start)] for text, start in zip(distinct, wanted, strict=True)] == wanted, found
