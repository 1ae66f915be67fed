"""An expression that has been accepted: the pipeline from text to something that can be evaluated.

`compile` is the way in for every kind of environment; `cathedra.cel.selector` and `cathedra.cel.admission` add the
rules of their places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from cathedra.cel import _trampoline
from cathedra.cel.checking import checker, cost, validators
from cathedra.cel.checking.types import Type
from cathedra.cel.environment import Environment
from cathedra.cel.errors import CompileError, EvaluationAborted, EvaluationError, Issue, display
from cathedra.cel.evaluation import evaluator
from cathedra.cel.evaluation.run import Run, Step, Variables, Walk
from cathedra.cel.library import registry
from cathedra.cel.syntax import parser
from cathedra.cel.syntax.tree import CallExpr, Expr, walk
from cathedra.cel.values import CELValue, Failure


class Evaluation:
    """Result of an evaluation: a value or an error text, and the cost."""

    __slots__ = ("cost", "error", "value")

    def __init__(self, value: CELValue, error: str | None, cost: int) -> None:
        self.value, self.error, self.cost = value, error, cost


class Program:
    """A checked expression. Immutable; evaluations share nothing but the plan."""

    def __init__(self, source: str, environment: Environment, root: Expr) -> None:
        self.source, self.environment, self.root = source, environment, root

    @property
    def type(self) -> Type:
        """The type of the whole expression."""
        return self.root.type

    @cached_property
    def max_cost(self) -> int:
        """The estimated maximum cost; 2⁶⁴-1 means that there is no telling."""
        return cost.estimate(self.root, self.environment.size_of)

    @cached_property
    def plan(self) -> Step:
        """The steps of the counting evaluator.

        Raises:
            CompileError: `InternalError`, a constant conversion or pattern fails.
        """
        try:
            return evaluator.plan(self.root)
        except EvaluationAborted as error:
            raise CompileError("InternalError", f"program instantiation failed: {error.text}") from error

    def evaluate(
        self,
        variables: Mapping[str, CELValue],
        limit: int | None = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> Evaluation:
        """Evaluate and count, until it costs more than ``limit`` or is ``interrupted``. Never raises for what the
        expression does."""
        return self._run(Run(limit, None, interrupted), variables)

    def trace(
        self,
        variables: Mapping[str, CELValue],
        trace: dict[int, CELValue] | None,
        limit: int | None = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> Evaluation:
        """Return the same, leaving every node's value in ``trace``, by the id of the node."""
        return self._run(Run(limit, trace, interrupted), variables)

    def _run(self, run: Run, variables: Mapping[str, CELValue]) -> Evaluation:
        try:
            value = self.plan.eval(run, Variables(variables))
            if value.__class__ is Walk:
                value = _trampoline.run(value)
        except (EvaluationAborted, CompileError) as error:
            return Evaluation(None, error.text, run.cost)
        if value.__class__ is Failure:
            return Evaluation(None, value.text, run.cost)
        return Evaluation(value, None, run.cost)

    def value(self, variables: Mapping[str, CELValue], limit: int | None = None) -> CELValue:
        """Return the value.

        Raises:
            EvaluationError: there is none.
        """
        outcome = self.evaluate(variables, limit)
        if outcome.error is not None:
            raise EvaluationError(outcome.error)
        return outcome.value

    def instantiate(self) -> None:
        """Find out now whether constant conversions and patterns work.

        Raises:
            CompileError: `InternalError`, one does not.
        """
        for node in walk(self.root):
            if isinstance(node, CallExpr) and (node.function in registry.FOLDED or node.function in registry.PATTERNS):
                _ = self.plan
                return


def parse(source: str, environment: Environment) -> Expr:
    """Return the tree of an expression.

    Raises:
        CompileError: syntax errors, worded as Kubernetes words them.
    """
    try:
        return parser.parse(source, environment.macros)
    except parser.Invalid:
        # start-up time: with a broken expression alone
        from cathedra.cel.syntax import diagnosis

        issues = diagnosis.diagnose(source, environment.macros)
    raise refused(source, issues)


def refused(source: str, issues: list[Issue]) -> CompileError:
    """Return the error that reports ``issues``."""
    return CompileError("RuleInvalid", f"compilation failed: {display(source, issues)}", tuple(issues))


def check(source: str, environment: Environment) -> Expr:
    """Return the checked tree of an expression.

    Raises:
        CompileError: it is refused, by parser, checker or validators.
    """
    root = parse(source, environment)
    issues = checker.check(root, environment)
    if not issues and environment.checked_literals:
        issues = validators.validate(root)
    if issues:
        raise refused(source, issues)
    return root


def compile_expression(source: str, environment: Environment) -> Program:
    """Return an expression ready for evaluation.

    Raises:
        CompileError: it is refused.
    """
    return Program(source, environment, check(source, environment))
