"""Pod groups as they are written and shown."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup, PodGroup
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.kinds.definition import RequestContext
from tests.unit.kinds.objects import context, created, definition_of, row, texts, updated

DEFINITION = definition_of("podgroups")
CLOSED, OPENED = context(GenericWorkload=True), context(GenericWorkload=True, DRAWorkloadResourceClaims=True)
CLAIMS = [{"name": "a", "resourceClaimName": "x"}]
CLAIM_STATUSES = [{"name": "a", "resourceClaimName": "x"}]


def group(status: dict[str, Any] | None = None, **spec: Any) -> PodGroup:
    values = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}, **spec}, "status": status or {}}
    return from_dict(PodGroup, values)


def test_pods_of_a_group_are_disrupted_one_by_one_unless_it_says_otherwise() -> None:
    assert to_dict(created(DEFINITION.strategy, group(), CLOSED)[0].spec)["disruptionMode"] == {"single": {}}
    made = created(DEFINITION.strategy, group(disruptionMode={"all": {}}), CLOSED)[0]
    assert to_dict(made.spec)["disruptionMode"] == {"all": {}}


def test_a_group_is_created_without_status() -> None:
    made, errors = created(DEFINITION.strategy, group({"resourceClaimStatuses": CLAIM_STATUSES}), OPENED)
    assert (errors, made.status) == ([], group().status)


def test_the_claims_of_a_group_never_change() -> None:
    old, _ = created(DEFINITION.strategy, group(resourceClaims=CLAIMS), OPENED)
    other = group(resourceClaims=[{"name": "a", "resourceClaimName": "y"}])
    (text,) = texts(updated(DEFINITION.strategy, other, old, OPENED)[1])
    assert text.startswith("spec.resourceClaims: Invalid value: ")
    assert text.endswith("field is immutable")


def test_the_main_resource_keeps_the_status() -> None:
    old = replace(created(DEFINITION.strategy, group(), OPENED)[0], status=group({"conditions": []}).status)
    made = updated(DEFINITION.strategy, group({"resourceClaimStatuses": CLAIM_STATUSES}), old, OPENED)[0]
    assert made.status == old.status


def test_claims_of_a_group_have_a_gate_but_stay_where_they_are_in_use() -> None:
    claiming = group(resourceClaims=CLAIMS)
    assert created(DEFINITION.strategy, claiming, CLOSED)[0].spec.resource_claims == ()
    assert len(created(DEFINITION.strategy, claiming, OPENED)[0].spec.resource_claims) == 1
    assert len(updated(DEFINITION.strategy, claiming, claiming, CLOSED)[0].spec.resource_claims) == 1


def test_a_status_keeps_the_spec_and_drops_claims_that_the_gate_closes_out() -> None:
    status, told = DEFINITION.subresources["status"], {"resourceClaimStatuses": CLAIM_STATUSES}
    old, claiming = created(DEFINITION.strategy, group(), CLOSED)[0], group(resourceClaims=CLAIMS)
    made = updated(status, group(told, schedulingPolicy={"gang": {"minCount": 2}}), old, CLOSED)[0]
    assert (made.spec, made.status.resource_claim_statuses) == (old.spec, ())
    assert len(updated(status, group(told), claiming, CLOSED)[0].status.resource_claim_statuses) == 1
    assert len(updated(status, group(told), old, OPENED)[0].status.resource_claim_statuses) == 1


def condition(type_: str, status: str, reason: str = "R") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        ([], "Pending"),
        ([condition("PodGroupScheduled", "True")], "Scheduled"),
        ([condition("PodGroupScheduled", "False")], "Unschedulable"),
        ([condition("PodGroupScheduled", "Unknown")], "Pending"),
        ([condition("PodGroupScheduled", "True"), condition("DisruptionTarget", "True", "Preempted")], "Preempted"),
        ([condition("PodGroupScheduled", "True"), condition("DisruptionTarget", "False")], "Scheduled"),
    ],
)
def test_a_row_says_how_far_scheduling_has_come(conditions: list[dict[str, str]], shown: str) -> None:
    assert row("podgroups", group({"conditions": conditions}))["Status"] == shown


def test_a_row_names_policy_and_workload() -> None:
    found = row("podgroups", group())
    assert (found["Policy"], found["Workload"]) == ("Basic", "<none>")
    gang = group(schedulingPolicy={"gang": {"minCount": 2}}, workloadRef={"workloadName": "w", "templateName": "t"})
    found = row("podgroups", gang)
    assert (found["Policy"], found["Workload"]) == ("Gang", "w")


COMPOSITES = definition_of("compositepodgroups")
REFERENCE = {"workloadName": "w", "templateName": "t"}


def composite(**spec: Any) -> CompositePodGroup:
    values = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "workloadRef": REFERENCE, **spec}
    return from_dict(CompositePodGroup, {"metadata": {"name": "g"}, "spec": values})


def grouping(release: str) -> RequestContext:
    return context(release, GenericWorkload=True, CompositePodGroup=True)


def test_groups_of_groups_are_disrupted_one_by_one_and_name_their_workload() -> None:
    made, errors = created(COMPOSITES.strategy, composite(), grouping("1.37"))
    assert (errors, to_dict(made.spec)["disruptionMode"]) == ([], {"single": {}})
    _, errors = created(COMPOSITES.strategy, composite(workloadRef=None), grouping("1.37"))
    assert [text.partition(":")[0] for text in texts(errors)] == ["spec.workloadRef"]


@pytest.mark.parametrize(("release", "changes"), [("1.37", False), ("1.38", True)])
def test_the_number_of_groups_changes_from_138_on(release: str, changes: bool) -> None:
    """kubernetes/kubernetes#141023."""
    old, _ = created(COMPOSITES.strategy, composite(), grouping(release))
    new = composite(schedulingPolicy={"gang": {"minGroupCount": 1}})
    found = texts(updated(COMPOSITES.strategy, new, old, grouping(release))[1])
    assert [text.partition(":")[0] for text in found] == ([] if changes else ["spec.schedulingPolicy"])
    none = composite(schedulingPolicy={"gang": {"minGroupCount": 0}})
    assert texts(created(COMPOSITES.strategy, none, grouping(release))[1])
    basic = composite(schedulingPolicy={"basic": {}})
    assert texts(updated(COMPOSITES.strategy, basic, old, grouping(release))[1])


@pytest.mark.parametrize("kind", ["podgroups", "compositepodgroups"])
def test_conditions_of_groups_are_validated(kind: str) -> None:
    definition = definition_of(kind)
    status = {
        "conditions": [{"type": "A", "status": "maybe", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    }
    spec = {"schedulingPolicy": {"basic": {}}, "workloadRef": {"workloadName": "w", "templateName": "t"}}
    old = from_dict(definition.type, {"metadata": {"name": "a", "namespace": "n"}, "spec": spec})
    new = from_dict(definition.type, {"metadata": {"name": "a", "namespace": "n"}, "spec": spec, "status": status})
    (text,) = texts(updated(definition.subresources["status"], new, old, context(everything=True))[1])
    assert text.startswith('status.conditions[0].status: Unsupported value: "maybe"')
