"""PodDisruptionBudget, and the rules of its label selector (apimachinery ``pkg/apis/meta/v1/validation``)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import policy_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.kinds.apps.validation import is_above_hundred_percent, validate_int_or_percent
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.labelselectors import validate_label_selector
from cathedra.kinds.strategies import ObjectRules

_SPEC: Final = FieldPath("spec")
_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")

BUDGET_COLUMNS: Final = (
    NAME,
    Column("Min Available", description="Pods that must stay."),
    Column("Max Unavailable", description="Pods that may go."),
    Column("Allowed Disruptions", type="integer", description="Pods that may go now."),
    AGE,
)


def validate_budget(budget: policy_v1.PodDisruptionBudget) -> ErrorList:
    """Return the errors of a budget: one bound, of pods or of a share of them, and a selector that can be read."""
    errors, spec = ErrorList(), budget.spec
    if spec.min_available is not None and spec.max_unavailable is not None:
        errors.invalid(_SPEC, spec, "minAvailable and maxUnavailable cannot be both set")
    for name, bound in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        validate_int_or_percent(errors, _SPEC.child(name), bound)
        if isinstance(bound, str) and is_above_hundred_percent(bound):
            errors.invalid(_SPEC.child(name), bound, "must not be greater than 100%")
    if spec.selector is not None:
        validate_label_selector(errors, _SPEC.child("selector"), spec.selector)
    policy = spec.unhealthy_pod_eviction_policy
    if policy is not None and policy not in _POLICIES:
        errors.not_supported(_SPEC.child("unhealthyPodEvictionPolicy"), policy, _POLICIES)
    return errors


def budget_cells(budget: policy_v1.PodDisruptionBudget, now: float) -> list[Any]:
    """Return the cells of a PodDisruptionBudget."""
    least, most = budget.spec.min_available, budget.spec.max_unavailable
    return [
        budget.metadata.name,
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        budget.status.disruptions_allowed,
        age(budget.metadata.creation_timestamp, now),
    ]


def disruption_budget_definition() -> ResourceDefinition[policy_v1.PodDisruptionBudget]:
    """Return the definition of poddisruptionbudgets."""
    return BuiltinKind(
        policy_v1.PodDisruptionBudget,
        "poddisruptionbudgets",
        namespaced=True,
        rules=ObjectRules(validate_budget, lambda new, old: validate_budget(new)),
        counts_generation=True,
        table=(BUDGET_COLUMNS, budget_cells),
        short_names=("pdb",),
    ).definition()
