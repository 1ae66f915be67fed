"""One expression of a policy, compiled, and the budget that the expressions of a policy share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.cel import program
from cathedra.cel.admission._declarations import environment
from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type
from cathedra.cel.environment import Environment
from cathedra.cel.errors import CompileError, CostLimitExceeded
from cathedra.cel.program import Evaluation, Program
from cathedra.cel.values import CELValue

EXPRESSION_LIMIT: Final = 1_000_000
"""Cost limit of one evaluation."""


class PolicyCompileError(msgspec.Struct, frozen=True):
    """A validation error of one field of a policy's spec: path, reason (`FieldValueInvalid`, …) and text."""

    field: str
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}: {self.text}"


class Expression(msgspec.Struct, frozen=True):
    """The source of an expression, with its program or its errors."""

    source: str
    program: Program | None
    error: str
    reason: str = "FieldValueInvalid"

    def run(self, values: Mapping[str, CELValue], budget: CostBudget) -> Evaluation:
        """Evaluate, and subtract the cost from the budget.

        Raises:
            Exhausted: the cost exceeds the rest of the budget.
        """
        if self.program is None:
            return Evaluation(None, f"compilation error: {self.error}", 0)
        outcome = self.program.evaluate(values, EXPRESSION_LIMIT, budget.interrupted)
        budget.charge(outcome.cost)
        if outcome.error is not None:
            text = f"expression '{self.source}' resulted in error: {outcome.error}"
            return Evaluation(None, text, outcome.cost)
        return outcome


def compile_one(source: str, declared: Environment, wanted: Sequence[Type]) -> Expression:
    """Compile an expression. It must have one of the ``wanted`` types, if there are any."""
    try:
        compiled = program.compile_expression(source, declared)
        if wanted and compiled.type not in wanted:
            names = " ".join(one.declared for one in wanted)
            needed = names if len(wanted) == 1 else f"one of [{names}]"
            raise CompileError("RuleInvalid", f"must evaluate to {needed} but got {compiled.type.declared}")
        compiled.instantiate()
    except CompileError as error:
        reason = "InternalError" if error.type == "InternalError" else "FieldValueInvalid"
        return Expression(source, None, error.text, reason)
    return Expression(source, compiled, "")


def compile_variables(
    variables: Sequence[Mapping[str, Any]], check: Callable[[], object], *, params: bool
) -> tuple[dict[str, Expression], dict[str, Type]]:
    """Return the compiled variables of a policy and their types, by name.

    Each variable may use those before it. One that does not compile has the type ``dyn``. ``check`` is called before
    each and may raise.
    """
    compiled: dict[str, Expression] = {}
    known: dict[str, Type] = {}
    for variable in variables:
        check()
        declared = environment(params=params, authorizer=True, variables=known)
        one = compile_one(variable["expression"], declared, ())
        compiled[variable["name"]] = one
        known[variable["name"]] = one.program.type if one.program is not None else types.DYN
    return compiled, known


class CostBudget:
    """Cost limit that all expressions of a policy share. ``composed`` is the cost of variables since the last
    charge."""

    def __init__(self, amount: int, interrupted: Callable[[], bool] | None) -> None:
        self.left = amount
        self._interrupted = interrupted
        self.composed = 0

    def interrupted(self) -> bool:
        """Return False; the check between two steps of an evaluation.

        Raises:
            CostLimitExceeded: the evaluation has taken the processor time that stands for its cost limit.
        """
        # Python reaches the limit of time before that of cost, where Kubernetes ends an evaluation for its cost. Users
        # know that text, and it names the remedy: a cheaper expression.
        if self._interrupted is not None and self._interrupted():
            raise CostLimitExceeded
        return False

    def charge(self, cost: int) -> None:
        """Subtract a cost, and that of the variables that were evaluated for it.

        Raises:
            Exhausted: the cost exceeds the rest of the budget.
        """
        spent = cost + self.composed
        self.composed = 0
        if spent > self.left:
            raise BudgetExhausted
        self.left -= spent


class BudgetExhausted(Exception):
    """The budget is spent."""
