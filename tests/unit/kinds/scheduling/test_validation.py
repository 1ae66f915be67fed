"""Rules of workloads and pod groups."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import scheduling_v1alpha3
from cathedra.api.struct import from_dict, replace
from tests.unit.kinds.objects import context, created, definition_of, problems_of, updated

POLICY: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
GROUP: dict[str, Any] = {"spec": {**POLICY, "resourceClaims": [{"name": "a", "resourceClaimName": "x"}]}}


@pytest.mark.parametrize(
    ("claims", "wanted"),
    [
        (GROUP["spec"]["resourceClaims"], []),
        ([{"name": "a"}], ['spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`']),
        ([{"name": f"c{n}", "resourceClaimName": "x"} for n in range(5)], ["spec.resourceClaims: Too many: 5"]),
    ],
)
def test_claims_of_a_pod_group_are_checked(claims: list[Any], wanted: list[str]) -> None:
    found = problems_of("podgroups", scheduling_v1alpha3.PodGroup, {"spec": {**POLICY, "resourceClaims": claims}})
    assert [text.startswith(beginning) for text, beginning in zip(found, wanted, strict=True)] == [True] * len(wanted)


def test_without_the_gate_a_pod_group_has_no_claims() -> None:
    group = from_dict(scheduling_v1alpha3.PodGroup, GROUP)
    made, errors = created(definition_of("podgroups").strategy, group, context(GenericWorkload=True))
    assert (errors, made.spec.resource_claims) == ([], ())
    kept, _ = updated(definition_of("podgroups").strategy, group, replace(group), context(GenericWorkload=True))
    assert kept.spec.resource_claims == group.spec.resource_claims


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ({"gang": {"minCount": 2}}, []),
        ({}, ['Invalid value: "": must specify one of: `basic`, `gang`']),
        (
            {"basic": {}, "gang": {"minCount": 1}},
            ['Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'],
        ),
        ({"gang": {"minCount": 0}}, ["gang.minCount: Required value"]),
    ],
)
def test_a_group_is_scheduled_in_one_way(policy: dict[str, Any], wanted: list[str]) -> None:
    found = problems_of("podgroups", scheduling_v1alpha3.PodGroup, {"spec": {"schedulingPolicy": policy}})
    path = "spec.schedulingPolicy"
    assert found == [f"{path}.{text}" if text.startswith("gang") else f"{path}: {text}" for text in wanted]


def test_templates_of_a_workload_have_names_of_their_own() -> None:
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    workload = {"spec": {"podGroupTemplates": [template, template, {**template, "name": ""}]}}
    shown = '{"name":"t","schedulingPolicy":{"basic":{}},"schedulingConstraints":null}'
    assert problems_of("workloads", scheduling_v1alpha3.Workload, workload) == [
        f"spec.podGroupTemplates[1]: Duplicate value: {shown}",
        "spec.podGroupTemplates[2].name: Required value",
    ]


def test_a_workload_without_templates_is_refused() -> None:
    assert problems_of("workloads", scheduling_v1alpha3.Workload, {"spec": {}}) == [
        'spec: Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`'
    ]


def test_names_that_come_again_are_told_before_what_else_is_wrong_and_lengths_are_in_bytes() -> None:
    claims = [{"name": "a"}, {"name": "a", "resourceClaimName": "x" * 254}]
    found = problems_of("podgroups", scheduling_v1alpha3.PodGroup, {"spec": {**POLICY, "resourceClaims": claims}})
    assert [text.partition(": ")[0] for text in found] == [
        "spec.resourceClaims[1]",
        "spec.resourceClaims[0]",
        "spec.resourceClaims[1].resourceClaimName",
    ]
    assert found[-1].endswith("must be no more than 253 bytes")


def test_a_group_names_the_workload_and_the_template_that_it_comes_from() -> None:
    reference = {"workloadName": "", "templateName": "A"}
    found = problems_of("podgroups", scheduling_v1alpha3.PodGroup, {"spec": {**POLICY, "workloadRef": reference}})
    assert [text.partition(": ")[0] for text in found] == [
        "spec.workloadRef.workloadName",
        "spec.workloadRef.templateName",
    ]


def test_the_controller_of_a_workload_is_a_whole_reference() -> None:
    workload = {
        "spec": {"controllerRef": {"apiGroup": "a/b"}, "podGroupTemplates": [{"name": "t", **POLICY}]},
    }
    found = problems_of("workloads", scheduling_v1alpha3.Workload, workload)
    assert [text.partition(": ")[0] for text in found] == [
        f"spec.controllerRef.{name}" for name in ("apiGroup", "kind", "name")
    ]


def test_a_mode_of_disruption_is_one_of_two() -> None:
    found = problems_of("podgroups", scheduling_v1alpha3.PodGroup, {"spec": {**POLICY, "disruptionMode": {}}})
    assert found == ['spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`']


GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (GANG, {"schedulingPolicy": {"gang": {"minCount": 3}}}, []),
        (
            GANG,
            POLICY,
            [
                "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
                "spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
            ],
        ),
        (
            POLICY,
            GANG,
            [
                "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
                "spec.schedulingPolicy.gang: Invalid value: null: field cannot be set once created",
            ],
        ),
    ],
)
def test_the_count_of_a_gang_may_change_and_its_policy_may_not(before: Any, after: Any, wanted: list[str]) -> None:
    """Release 1.37 made ``minCount`` mutable (KEP-4671)."""
    strategy, opened = definition_of("podgroups").strategy, context(everything=True)
    old, _ = created(strategy, from_dict(scheduling_v1alpha3.PodGroup, {"spec": before}), opened)
    _, errors = updated(strategy, from_dict(scheduling_v1alpha3.PodGroup, {"spec": after}), old, opened)
    assert [str(error) for error in errors] == wanted


def test_templates_are_neither_added_nor_removed() -> None:
    strategy, opened = definition_of("workloads").strategy, context(everything=True)
    old, new = (
        from_dict(scheduling_v1alpha3.Workload, {"spec": {"podGroupTemplates": [{"name": name, **POLICY}]}})
        for name in ("a", "b")
    )
    _, errors = updated(strategy, new, old, opened)
    assert [str(error) for error in errors] == [
        "spec.podGroupTemplates[0]: Forbidden: item may not be added",
        "spec.podGroupTemplates: Forbidden: item may not be removed",
    ]
