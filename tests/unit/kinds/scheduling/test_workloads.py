"""Workloads as they are written."""

from __future__ import annotations

from cathedra.api.core.scheduling_v1alpha3 import Workload
from cathedra.api.struct import from_dict, replace
from tests.unit.kinds.objects import context, created, definition_of, texts, updated

TEMPLATE = {
    "name": "t",
    "schedulingPolicy": {"basic": {}},
    "resourceClaims": [{"name": "a", "resourceClaimName": "x"}],
}
WORKLOAD = from_dict(Workload, {"spec": {"podGroupTemplates": [TEMPLATE]}})
STRATEGY = definition_of("workloads").strategy


def test_templates_have_claims_where_groups_may_have_them() -> None:
    opened = context(GenericWorkload=True, DRAWorkloadResourceClaims=True)
    assert created(STRATEGY, WORKLOAD, opened) == (WORKLOAD, [])
    made, errors = created(STRATEGY, WORKLOAD, context(GenericWorkload=True))
    assert (errors, made.spec.pod_group_templates[0].resource_claims) == ([], ())
    assert made.spec.pod_group_templates[0].name == "t"


def test_the_claims_of_templates_never_change() -> None:
    (template,) = WORKLOAD.spec.pod_group_templates
    without = replace(template, resource_claims=())
    other = replace(WORKLOAD, spec=replace(WORKLOAD.spec, pod_group_templates=(without,)))
    (text,) = texts(updated(STRATEGY, other, WORKLOAD, context(everything=True))[1])
    assert text.startswith("spec.podGroupTemplates[0].resourceClaims: Invalid value: ")
    assert text.endswith("field is immutable")
    assert updated(STRATEGY, WORKLOAD, WORKLOAD, context(everything=True))[1] == []
