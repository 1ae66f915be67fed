"""Values, failures and costs of the counting evaluator."""

from __future__ import annotations

import pytest

from cathedra.cel.errors import CompileError
from cathedra.cel.program import compile_expression
from tests.unit.cel.asking import PLAIN, outcome, shown, value


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 / 0 == 1 || true", "true"),
        ("true || 1 / 0 == 1", "true"),
        ("1 / 0 == 1 && false", "false"),
        ("1 / 0 == 1 && true", "error: division by zero"),
        ("dyn(5) || true", "true"),
        ("dyn(5) && true", "error: no such overload"),
        ("dyn(1) ? true : false", "error: no such overload"),
        ("true ? 1 : 1 / 0", "1"),
        ("{'a': 1}.b", "error: no such key: b"),
        ("[1][3]", "error: index out of bounds: 3"),
        ("dyn('abc')[0]", "error: no such key: 0"),
        ("has({'a': 1}.b)", "false"),
        ("{'a': {'b': 1}}.?a.b", "optional(1)"),
        ("dyn({'a': {'b': 1}}).?x.b.c", "optional.none()"),
        ("{'a': 1}[?'a'].orValue(2)", "1"),
        ("dyn(1).?a.hasValue()", "false"),
        ("[?optional.none(), 1]", "[1]"),
        ("{?'a': optional.none()}", "{}"),
        ("{'a': 1, 'a': 2}", "{a: 2}"),
        ("dyn(semver('1.0.0')) == '1.0.0'", "error: no such overload"),
        ("'1.0.0' == dyn(semver('1.0.0'))", "false"),
        ("dyn(1) == 1.0 && dyn(1u) == 1 && dyn(2u) in [2]", "true"),
        ("google.protobuf.Duration{seconds: 5} == duration('5s')", "true"),
        ("google.protobuf.Int32Value{value: 3000000000}",
         "error: field type conversion error for google.protobuf.Int32Value.value value type: integer overflow"),
        ("google.protobuf.Any{}", "error: unsupported conversion to ref.Val: (*dynamicpb.Message)"),
    ],
)  # fmt: skip
def test_operators_absorb_and_pass_on_failures(expression: str, result: str) -> None:
    assert shown(expression) == result


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("1 == 1", 1),
        ("[1, 2].exists(x, x == 2)", 13),
        ("'aaaaaaaaaaaaaaaaaaaa'.contains(dyn('aaaaaaaaaaaaaaaaaaaa'))", 4),
        ("{1: dyn(2)}[1] == 2", 3),
        ("google.protobuf.Int64Value{value: 5} == 5", 41),
    ],
)
def test_costs_are_counted(expression: str, cost: int) -> None:
    assert outcome(expression).cost == cost


def test_the_limit_stops_an_evaluation() -> None:
    program = compile_expression("lists.range(500).all(x, lists.range(500).all(y, true))", PLAIN)
    found = program.evaluate({}, 20_000)
    assert found.error == "operation cancelled: actual cost limit exceeded"
    assert 20_000 < found.cost < 20_100


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(900000).distinct().size() > 0",
        "sets.contains(lists.range(300000), lists.range(300000))",
        "lists.range(9223372036854775807).size() > 0",
    ],
)
def test_dear_calls_are_stopped_before_they_are_made(expression: str) -> None:
    assert outcome(expression).error == "operation cancelled: actual cost limit exceeded"


def doubled(first: str, step: str, last: str) -> str:
    """``last`` of something that a chain of bindings makes twice as large, forty times."""
    expression = last.replace("V", "v40")
    for number in range(40, 0, -1):
        expression = f"cel.bind(v{number}, {step.replace('V', f'v{number - 1}')}, {expression})"
    return f"cel.bind(v0, {first}, {expression})"


@pytest.mark.parametrize(
    ("first", "step", "last"),
    [("[1]", "V + V", "V.size()"), ("'ab'", "V + V", "V.size()"), ("dyn([1])", "dyn([V, V])", "V == V"),
     ("dyn([1])", "dyn([V, V])", "'%s'.format([V])"), ("'abcd'", "V.replace('', V)", "V.size()")],
)  # fmt: skip
def test_values_cannot_grow_without_end(first: str, step: str, last: str) -> None:
    assert outcome(doubled(first, step, last)).error == "operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize("expression", ["bool('yes')", "int('abc') == 5 || true", "'a'.matches(dyn('(')) || true"])
def test_constant_conversions_and_patterns_fail_when_the_program_is_built(expression: str) -> None:
    with pytest.raises(CompileError, match="program instantiation failed"):
        compile_expression(expression, PLAIN).instantiate()


def test_what_cannot_be_built_is_an_error_of_its_evaluation() -> None:
    assert outcome("int('abc') == 5").error == (
        "program instantiation failed: type conversion error from 'string' to 'int'"
    )
    assert outcome("{b'a': 1}").error is not None


def test_variables_may_be_asked_for_late() -> None:
    asked: list[int] = []

    def late() -> int:
        asked.append(1)
        return 5

    assert value("x + 1", x=late) == 6
    assert value("true || x == 1", x=late) is True
    assert len(asked) == 1
