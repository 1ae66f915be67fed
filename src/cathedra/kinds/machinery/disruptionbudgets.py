"""Pod disruption budgets."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import policy_v1
from cathedra.kinds.builtin import builtin
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column, ResourceDefinition

__all__ = ["budget_cells", "disruption_budget_definition"]

BUDGET_COLUMNS: Final = (
    NAME,
    Column("Min Available", description="Pods that must stay."),
    Column("Max Unavailable", description="Pods that may go."),
    Column("Allowed Disruptions", type="integer", description="Pods that may go now."),
    AGE,
)


def budget_cells(budget: policy_v1.PodDisruptionBudget, now: float) -> list[Any]:
    """Cells of a PodDisruptionBudget."""
    least, most = budget.spec.min_available, budget.spec.max_unavailable
    return [
        budget.metadata.name,
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        budget.status.disruptions_allowed,
        age(budget.metadata.creation_timestamp, now),
    ]


def disruption_budget_definition() -> ResourceDefinition[policy_v1.PodDisruptionBudget]:
    """The definition of poddisruptionbudgets."""
    return builtin(
        policy_v1.PodDisruptionBudget,
        "poddisruptionbudgets",
        namespaced=True,
        counts_generation=True,
        table=(BUDGET_COLUMNS, budget_cells),
        short_names=("pdb",),
    )
