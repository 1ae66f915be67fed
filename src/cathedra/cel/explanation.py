"""Explanation of a result: the value or error of every part of an expression, with its place in the text.

It shows which half of an ``&&`` is false if no device matches. The counting evaluator records the value of every node
(`cathedra.cel.program.Program.trace`), and this module adds the text of each. `cathedra.insight` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cathedra.cel.environment import Environment
from cathedra.cel.program import Evaluation, Program, compile_expression
from cathedra.cel.syntax.tree import Comprehension, Const, Expr, ListLit, MapLit, walk
from cathedra.cel.values import CELValue, Failure, text


class Finding(msgspec.Struct, frozen=True):
    """Value or error of one part of an expression.

    ``start`` and ``end`` count code points of the source. ``reached`` is false for parts that were not needed, as the
    right of ``false && …``. ``error`` is the text of the failure, None if there is a value. ``repeated`` marks parts
    inside of a loop, of which the last turn is shown. ``depth`` is the nesting of parts within parts.
    """

    start: int
    end: int
    source: str
    depth: int
    reached: bool
    value: CELValue = None
    error: str | None = None
    repeated: bool = False

    @property
    def shown(self) -> str:
        """The value or error as people read it."""
        if not self.reached:
            return "not evaluated"
        return f"error: {self.error}" if self.error is not None else text(self.value)


class ExpressionExplanation(msgspec.Struct, frozen=True):
    """The whole answer, and the findings in the order of the text, outer parts before inner ones."""

    source: str
    value: CELValue
    error: str | None
    cost: int
    findings: tuple[Finding, ...]


def explain(
    expression: str, environment: Environment, variables: Mapping[str, CELValue], limit: int | None = None
) -> ExpressionExplanation:
    """Evaluate once, and return the value or error of every part.

    Raises:
        CompileError: the expression is refused.
    """
    program = compile_expression(expression, environment)
    trace: dict[int, CELValue] = {}
    return explain_program(program, program.trace(variables, trace, limit), trace)


def explain_program(program: Program, outcome: Evaluation, trace: dict[int, CELValue]) -> ExpressionExplanation:
    """Put what ``trace`` holds beside the source. Literals explain themselves and are left out."""
    findings: list[Finding] = []
    _collect(program, program.root, trace, 0, findings)
    return ExpressionExplanation(program.source, outcome.value, outcome.error, outcome.cost, tuple(findings))


def _collect(program: Program, root: Expr, trace: dict[int, CELValue], depth: int, into: list[Finding]) -> None:
    seen: set[tuple[int, int]] = set()
    looped = {inner.id for node in walk(root) if isinstance(node, Comprehension) for inner in _body(node)}
    pending = [(root, depth)]
    while pending:
        node, level = pending.pop()
        place = (node.start, node.end)
        shown = node.end > node.start and place not in seen and (node is root or not _is_literal(node))
        if shown:
            seen.add(place)
            into.append(_finding(program, node, trace, level, repeated=node.id in looped))
        pending.extend((child, level + shown) for child in reversed(node.children()))
    into.sort(key=lambda finding: (finding.start, -finding.end))


def _is_literal(node: Expr) -> bool:
    """Return True for a constant, and for a list or map of nothing else."""
    return all(isinstance(part, (Const, ListLit, MapLit)) for part in walk(node))


def _body(node: Comprehension) -> list[Expr]:
    """Return the nodes that a loop repeats; macros that only bind a name repeat none."""
    if node.macro in ("bind", "optMap", "optFlatMap", "sortBy"):
        return []
    return [*walk(node.condition), *walk(node.step)]


def _finding(program: Program, node: Expr, trace: dict[int, CELValue], depth: int, *, repeated: bool) -> Finding:
    source = program.source[node.start : node.end]
    if node.id not in trace:
        return Finding(node.start, node.end, source, depth, reached=False, repeated=repeated)
    value = trace[node.id]
    if value.__class__ is Failure:
        return Finding(node.start, node.end, source, depth, reached=True, error=value.text, repeated=repeated)
    return Finding(node.start, node.end, source, depth, reached=True, value=value, repeated=repeated)
