"""The choice among overloads at run time."""

from __future__ import annotations

import pytest

from cathedra.cel.checking import declarations
from cathedra.cel.library import registry
from cathedra.cel.values import Failure
from tests.unit.cel.asking import shown

WITHOUT_CODE = frozenset(
    ("_&&_", "_||_", "_?_:_", "_==_", "_!=_", "_[_]", "_[?_]", "_?._", "@not_strictly_false", "or", "orValue")
)
"""What the evaluator does itself."""


@pytest.mark.parametrize("library", sorted(declarations.LIBRARIES))
def test_every_declared_overload_is_implemented(library: str) -> None:
    for function, overloads in declarations.library(library).items():
        if function not in WITHOUT_CODE and function not in registry.SINGLE_FUNCTIONS:
            assert all(callable(registry.implementation(function, overload)) for overload in overloads)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("dyn(1).isGreaterThan(quantity('1'))", "error: no such overload: isGreaterThan(int, kubernetes.Quantity)"),
        ("dyn('a').size()", "1"),
        ("size(dyn(1))", "error: no such overload: size"),
        ("dyn('a') < dyn(1)", "error: no such overload"),
        ("dyn([1]).sum()", "1"),
    ],
)
def test_values_decide_where_types_are_unknown(expression: str, result: str) -> None:
    assert shown(expression) == result


def test_an_unknown_function_is_a_failure_and_no_exception() -> None:
    assert isinstance(registry.call("nope", "", [1]), Failure)
