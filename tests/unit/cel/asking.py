"""Shortcuts to evaluate an expression, for the tests of this package."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.cel.environment import BASE_LIBRARIES, Environment
from cathedra.cel.errors import CompileError
from cathedra.cel.program import Evaluation, compile_expression
from cathedra.cel.values import text

PLAIN = Environment(libraries=(*BASE_LIBRARIES, "bindings", "includes"))


def outcome(expression: str, **variables: Any) -> Evaluation:
    """Return the value of an expression with its cost; variables are untyped."""
    from cathedra.cel.checking import types

    declared = PLAIN.extend(dict.fromkeys(variables, types.DYN)) if variables else PLAIN
    return compile_expression(expression, declared).evaluate(variables, 1_000_000)


def value(expression: str, **variables: Any) -> Any:
    """The value; the test fails if there is none."""
    found = outcome(expression, **variables)
    assert found.error is None, found.error
    return found.value


def shown(expression: str) -> str:
    """The value as text, or the error after ``error: ``."""
    found = outcome(expression)
    return text(found.value) if found.error is None else f"error: {found.error}"


def refusal(expression: str, environment: Environment = PLAIN) -> str:
    """The report of an expression that does not compile."""
    with pytest.raises(CompileError) as caught:
        compile_expression(expression, environment)
    return caught.value.text.removeprefix("compilation failed: ")


def findings(expression: str, environment: Environment = PLAIN) -> list[tuple[int, str]]:
    """The issues of an expression that does not compile: offset and message."""
    with pytest.raises(CompileError) as caught:
        compile_expression(expression, environment)
    return [(issue.offset, issue.message) for issue in caught.value.issues]
