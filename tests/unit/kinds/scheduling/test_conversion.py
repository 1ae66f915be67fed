"""Workloads and pod groups of release 1.36 go to the hub version and come back as they were."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import scheduling_v1alpha2 as old
from cathedra.api.struct import from_dict, to_dict
from cathedra.kinds.scheduling import conversion as conversion
from tests.unit.kinds.objects import context, definition_of

CLAIMS = [{"name": "a", "resourceClaimName": "x"}]
GANG = {"gang": {"minCount": 2}}


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulingPolicy": {"basic": {}}},
        {"schedulingPolicy": GANG, "resourceClaims": CLAIMS, "disruptionMode": "PodGroup", "priority": 3},
        {
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
            "schedulingPolicy": GANG,
            "disruptionMode": "Pod",
        },
    ],
)
def test_a_pod_group_comes_back_as_it_was(spec: dict[str, Any]) -> None:
    group = from_dict(old.PodGroup, {"metadata": {"name": "g"}, "spec": spec})
    assert to_dict(conversion.group_from_hub(conversion.group_to_hub(group))) == to_dict(group)


def test_a_workload_comes_back_as_it_was() -> None:
    template = {"name": "t", "schedulingPolicy": GANG, "resourceClaims": CLAIMS, "disruptionMode": "Pod"}
    workload = from_dict(old.Workload, {"spec": {"podGroupTemplates": [template]}})
    assert to_dict(conversion.workload_from_hub(conversion.workload_to_hub(workload))) == to_dict(workload)


def test_the_reference_to_a_workload_has_another_name() -> None:
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    group = from_dict(old.PodGroup, {"spec": {"podGroupTemplateRef": reference, "schedulingPolicy": GANG}})
    hub = to_dict(conversion.group_to_hub(group))
    assert hub["spec"]["workloadRef"] == {"workloadName": "w", "templateName": "t"}


def test_pods_of_a_group_are_disrupted_one_by_one_by_default() -> None:
    definition = definition_of("podgroups")
    made = definition.strategy.default(definition.type(), context(everything=True))
    assert to_dict(made)["spec"]["disruptionMode"] == {"single": {}}
    assert to_dict(conversion.group_from_hub(made))["spec"]["disruptionMode"] == "Pod"
