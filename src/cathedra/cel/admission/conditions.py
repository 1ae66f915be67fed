"""Match conditions: the expressions that decide whether a policy or webhook is asked at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cathedra.cel.admission.expressions import BudgetExhausted, CostBudget, Expression
from cathedra.cel.admission.inputs import Input, RequestValues
from cathedra.cel.values import CELValue

__all__ = ["OUT_OF_BUDGET", "objection"]

CONDITION_BUDGET: Final = 2_500_000
OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


def objection(
    conditions: Sequence[Expression], variables: Mapping[str, Expression], given: Input, *, fails: bool
) -> str | None:
    """None if all conditions hold, "" if one does not, else the error that decides; where the policy does not fail on
    errors, an error is a condition that does not hold."""
    if not conditions:
        return None
    budget = CostBudget(CONDITION_BUDGET, given.interrupted)
    values: Mapping[str, CELValue] = RequestValues(variables, given, budget).for_conditions()
    errors: list[str] = []
    for condition in conditions:
        try:
            outcome = condition.run(values, budget)
        except BudgetExhausted:
            errors = [OUT_OF_BUDGET]
            break
        if outcome.error is not None:
            errors.append(outcome.error)
        elif outcome.value is False:
            return ""
    if not errors:
        return None
    if not fails:
        return ""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
