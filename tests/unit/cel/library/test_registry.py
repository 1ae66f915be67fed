"""The choice among overloads at run time."""

from __future__ import annotations

import pytest

from cathedra.cel.environment import BASE_LIBRARIES, Environment
from cathedra.cel.library import registry
from cathedra.cel.values import Failure
from tests.unit.cel.asking import shown

WITHOUT_CODE = frozenset(
    ("_&&_", "_||_", "_?_:_", "_==_", "_!=_", "_[_]", "_[?_]", "_?._", "@not_strictly_false", "or", "orValue")
)
"""Operators that the evaluator implements itself."""


@pytest.mark.parametrize("library", sorted(registry.LIBRARIES))
def test_every_overload_of_a_library_is_implemented_and_ids_are_unique(library: str) -> None:
    overloads = [one for group in registry.LIBRARIES[library].values() for one in group]
    assert len({(one.id, one.member) for one in overloads}) == len(overloads)
    for function, group in registry.LIBRARIES[library].items():
        assert all((one.implementation is None) is (function in WITHOUT_CODE) for one in group)


@pytest.mark.parametrize("name", ["math.greatest", "base64.encode", "cel.block", "isIPv4"])
def test_libraries_that_kubernetes_lacks_are_absent(name: str) -> None:
    assert name not in Environment(libraries=(*BASE_LIBRARIES, "bindings", "includes")).functions


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
    assert isinstance(registry.call("nope", None, [1]), Failure)


def test_functions_planned_beforehand_are_those_whose_overloads_say_so() -> None:
    assert {"int", "timestamp", "dyn", "type"} < registry.FOLDED
    assert {"matches", "find", "findAll"} == registry.PATTERNS


def test_a_call_whose_overload_only_the_values_choose_costs_what_the_name_says_or_one() -> None:
    assert registry.count("sum", None, [[1, 2, 3]], 6) == 3
    assert registry.count("matches", None, ["a" * 100, "b" * 100], False) == 1
