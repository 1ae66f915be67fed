"""Fields of workloads and groups behind gates."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import scheduling_v1alpha3 as v1alpha3
from cathedra.api.struct import from_dict, to_dict
from cathedra.kinds.scheduling.disabled_fields import (
    enabled_composite_spec,
    enabled_group_spec,
    enabled_workload_spec,
)
from tests.unit.kinds.objects import gates

POLICY = {"schedulingPolicy": {"basic": {}}}
FIELDS: dict[str, tuple[str, Any]] = {
    "parentCompositePodGroupName": ("CompositePodGroup", "parent"),
    "schedulingConstraints": ("TopologyAwareWorkloadScheduling", {"topology": [{"key": "zone"}]}),
    "resourceClaims": ("DRAWorkloadResourceClaims", [{"name": "a", "resourceClaimName": "x"}]),
    "preemptionPolicy": ("PodGroupPreemptionPolicy", "Never"),
}


def shown(value: Any) -> dict[str, Any]:
    """Return the JSON of a spec without the empty fields that are always there."""
    return {name: one for name, one in to_dict(value).items() if one is not None}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_a_group_needs_its_gate_unless_it_is_stored(field: str) -> None:
    gate, value = FIELDS[field]
    spec = from_dict(v1alpha3.PodGroupSpec, {**POLICY, field: value})
    closed, opened = gates(GenericWorkload=True), gates(GenericWorkload=True, **{gate: True})
    assert field not in shown(enabled_group_spec(spec, None, closed))
    assert enabled_group_spec(spec, None, opened) == spec
    assert enabled_group_spec(spec, spec, closed) == spec


@pytest.mark.parametrize("field", [field for field in FIELDS if field != "parentCompositePodGroupName"])
def test_a_field_of_a_template_needs_its_gate_at_every_depth(field: str) -> None:
    gate, value = FIELDS[field]
    template = {"name": "t", **POLICY, field: value}
    inner = {"name": "i", **POLICY, "podGroupTemplates": [template]}
    outer = {"name": "o", **POLICY, "compositePodGroupTemplates": [inner]}
    spec = from_dict(v1alpha3.WorkloadSpec, {"podGroupTemplates": [template], "compositePodGroupTemplates": [outer]})
    closed = gates(GenericWorkload=True, CompositePodGroup=True)
    opened = gates(GenericWorkload=True, CompositePodGroup=True, **{gate: True})
    made = enabled_workload_spec(spec, None, closed)
    inside = made.composite_pod_group_templates[0].composite_pod_group_templates[0].pod_group_templates[0]
    for one in (made.pod_group_templates[0], inside):
        assert field not in shown(one)
    assert enabled_workload_spec(spec, None, opened) == spec
    assert enabled_workload_spec(spec, spec, closed) == spec


def test_templates_of_groups_of_groups_need_their_gate() -> None:
    spec = from_dict(v1alpha3.WorkloadSpec, {"compositePodGroupTemplates": [{"name": "o", **POLICY}]})
    closed = gates(GenericWorkload=True)
    assert enabled_workload_spec(spec, None, closed).composite_pod_group_templates == ()
    assert enabled_workload_spec(spec, spec, closed) == spec


def test_the_preemption_policy_of_a_group_of_groups_needs_its_gate() -> None:
    values = {"workloadRef": {"workloadName": "w", "templateName": "t"}, **POLICY, "preemptionPolicy": "Never"}
    spec = from_dict(v1alpha3.CompositePodGroupSpec, values)
    closed = gates(GenericWorkload=True, CompositePodGroup=True)
    assert enabled_composite_spec(spec, None, closed).preemption_policy is None
    assert enabled_composite_spec(spec, spec, closed) == spec
