"""Kubernetes' CEL: parse, check, estimate, compile, evaluate and explain expressions.

    environment = Environment(variables={"x": types.INT})
    cel.check("x > 1", environment)                the checked tree, or `CompileError` with its `issues`
    cel.compile("x > 1", environment)              a `Program`, to be evaluated often
    cel.evaluate("x > 1", environment, {"x": 2})   the value, or `EvaluationError`
    cel.explain("x > 1", environment, {"x": 2})    the value or error of every part of it

`docs/cel.md` shows these at work.

For the allocator and the API server (stable signatures):

* `compile_selector(expression, *, consumable_capacity, list_attributes, mode) -> CompiledSelector`,
  raises `CompileError`
* `CompiledSelector.matches(view) -> bool`, raises `EvaluationError`; `CompiledSelector.max_cost`
* `DeviceView.of(driver, allow_multiple_allocations, attributes, capacity) -> DeviceView`
* `validate_selector(expression, …) -> Admission | None`

Data flow: `syntax` → `checking` → `evaluation`. `library` has the functions, `device` and `admission` the
environments, `selector` the compiled selectors, and `explanation` the values of an expression's parts.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cathedra.cel.device import DeviceView
    from cathedra.cel.environment import Environment
    from cathedra.cel.errors import CELError, CompileError, EvaluationError, Issue
    from cathedra.cel.explanation import ExpressionExplanation, Finding, explain
    from cathedra.cel.program import Evaluation, Program, check
    from cathedra.cel.program import compile_expression as compile  # noqa: A004 - the name users expect
    from cathedra.cel.selector import Admission, CompiledSelector, compile_selector, validate_selector

__all__ = [
    "Admission",
    "CELError",
    "CompileError",
    "CompiledSelector",
    "DeviceView",
    "Environment",
    "Evaluation",
    "EvaluationError",
    "ExpressionExplanation",
    "Finding",
    "Issue",
    "Program",
    "check",
    "compile",
    "compile_selector",
    "evaluate",
    "explain",
    "validate_selector",
]

_HOMES = {
    "Admission": ("selector", "Admission"),
    "CELError": ("errors", "CELError"),
    "CompileError": ("errors", "CompileError"),
    "CompiledSelector": ("selector", "CompiledSelector"),
    "DeviceView": ("device", "DeviceView"),
    "Environment": ("environment", "Environment"),
    "EvaluationError": ("errors", "EvaluationError"),
    "ExpressionExplanation": ("explanation", "ExpressionExplanation"),
    "Finding": ("explanation", "Finding"),
    "Issue": ("errors", "Issue"),
    "Evaluation": ("program", "Evaluation"),
    "Program": ("program", "Program"),
    "check": ("program", "check"),
    "compile": ("program", "compile_expression"),
    "explain": ("explanation", "explain"),
    "compile_selector": ("selector", "compile_selector"),
    "validate_selector": ("selector", "validate_selector"),
}


def __getattr__(name: str) -> Any:
    """Load the module behind a public name when the name is first used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home[0]}"), home[1])
    globals()[name] = value
    return value


def evaluate(expression: str, environment: Environment, variables: dict[str, Any]) -> Any:
    """Return the value of ``expression``.

    Raises:
        CompileError: it is refused.
        EvaluationError: it has no value.
    """
    # start-up time: as `__getattr__`
    from cathedra.cel.program import compile_expression

    return compile_expression(expression, environment).value(variables)
