"""From text to answer, and nothing but the package's own errors on the way."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra import cel
from cathedra.cel.checking import types
from tests.unit.cel.asking import PLAIN
from tests.unit.cel.building import nonsense, selectors, view

ENVIRONMENT = cel.Environment(variables={"x": types.INT})


def test_a_program_is_compiled_once_and_evaluated_often() -> None:
    program = cel.compile("x * 2", ENVIRONMENT)
    assert program.type == types.INT
    assert [program.value({"x": n}) for n in (1, 2)] == [2, 4]


def test_an_outcome_holds_value_or_error_and_the_cost() -> None:
    program = cel.compile("10 / x", ENVIRONMENT)
    assert (program.evaluate({"x": 5}).value, program.evaluate({"x": 5}).cost) == (2, 2)
    assert program.evaluate({"x": 0}).error == "division by zero"


def test_a_missing_variable_is_an_error_and_no_exception() -> None:
    assert cel.compile("x", ENVIRONMENT).evaluate({}).error == "no such attribute(s): x"


@settings(max_examples=100, deadline=None)
@given(nonsense | selectors | st.builds(lambda a, b, c: f"{a} {b} {c}", nonsense, selectors, nonsense))
def test_no_text_raises_anything_but_the_packages_own_errors(source: str) -> None:
    device = view()
    cel.validate_selector(source)
    try:
        selector = cel.compile_selector(source)
    except cel.CompileError:
        return
    selector.explain(device)
    try:
        selector.matches(device)
    except cel.EvaluationError:
        return


@given(st.text())
def test_checking_any_text_gives_a_tree_or_a_compile_error(source: str) -> None:
    issues = ()
    try:
        assert cel.check(source, PLAIN).type is not None
    except cel.CompileError as error:
        issues = error.issues
    assert all(issue.message for issue in issues)
