"""Types, and what the checker refuses."""

from __future__ import annotations

import pytest

from cathedra.cel.checking import types
from cathedra.cel.device import environment
from cathedra.cel.environment import Environment
from cathedra.cel.errors import CompileError
from cathedra.cel.program import check
from tests.unit.cel.asking import PLAIN, findings, refusal

NEW = environment(consumable_capacity=False, list_attributes=False, mode="new")
STORED = environment(consumable_capacity=False, list_attributes=False, mode="stored")
LISTS = environment(consumable_capacity=False, list_attributes=True, mode="new")


@pytest.mark.parametrize(
    ("expression", "declared"),
    [
        ("1 + 1", "int"),
        ("[1, 2]", "list(int)"),
        ("{'a': [1u]}", "map(string, list(uint))"),
        ("[]", "list(dyn)"),
        ("optional.of(1)", "optional_type(int)"),
        ("{'a': 1}.?a", "optional_type(int)"),
        ("type(1)", "type(int)"),
        ("google.protobuf.Int64Value{value: 5}", "wrapper(int)"),
        ("duration('1s')", "google.protobuf.Duration"),
        ("quantity('1')", "kubernetes.Quantity"),
        ("true ? dyn(1) : dyn('a')", "dyn"),
    ],
)
def test_every_expression_has_a_type(expression: str, declared: str) -> None:
    assert check(expression, PLAIN).type.declared == declared


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("foo", (0, "undeclared reference to 'foo' (in container '')")),
        ("device.nope", (6, "undefined field 'nope'")),
        ("1 == 'a'", (2, "found no matching overload for '_==_' applied to '(int, string)'")),
        ("[1, 'a']", (4, "expected type 'int' but found 'string'")),
        ("{1: 2, 'a': 3}", (7, "expected type 'int' but found 'string'")),
        ("'a'.b", (3, "type 'string' does not support field selection")),
        ("1 && true", (0, "expected type 'bool' but found 'int'")),
        (
            "device.attributes['d'].x.all(y, true)",
            (22, "expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)"),
        ),
        ("kubernetes.Semver", (0, "undeclared reference to 'kubernetes' (in container '')")),
        ("google.protobuf.BoolValue{nope: 1}", (30, "undefined field 'nope'")),
        (
            "google.protobuf.BoolValue{value: 1}",
            (31, "expected type of field 'value' is 'bool' but provided type is 'int'"),
        ),
    ],
)
def test_mistakes_are_placed_and_worded_as_by_kubernetes(expression: str, found: tuple[int, str]) -> None:
    assert findings(expression, NEW)[0] == found


def test_attributes_can_be_iterated_only_with_list_attributes() -> None:
    assert check("device.attributes['d'].x.all(y, true)", LISTS).type == types.BOOL


def test_stored_expressions_may_use_what_a_gate_hides_from_new_ones() -> None:
    assert check("device.allowMultipleAllocations", STORED).type == types.BOOL
    assert "undefined field" in refusal("device.allowMultipleAllocations", NEW)
    assert check("device.driver.includes('a')", STORED).type == types.BOOL
    assert "undeclared reference to 'includes'" in refusal("device.driver.includes('a')", NEW)


def test_names_are_looked_up_from_the_container_outwards() -> None:
    inside = Environment(variables={"a.b.x": types.INT, "x": types.STRING}, container="a.b")
    assert check("x", inside).type == types.INT
    assert check(".x", inside).type == types.STRING


def test_a_leading_dot_reaches_past_a_loop_variable() -> None:
    outside = Environment(variables={"x": types.STRING})
    assert check("[1].exists(x, .x == 'a')", outside).type == types.BOOL


def test_remembered_calls_do_not_change_the_numbers_in_reports() -> None:
    expression = "[[].reverse()].map(x, x) == 1"
    assert refusal(expression) == refusal(expression)


def test_null_may_stand_for_a_wrapper_and_not_for_a_plain_value() -> None:
    assert check("google.protobuf.Int64Value{} != null", PLAIN).type == types.BOOL
    assert "found no matching overload" in refusal("1 == null")


@pytest.mark.parametrize("levels", [1, 29, 30, 31, 100, 240])
def test_types_are_found_however_deep_they_stand(levels: int) -> None:
    """Upper levels are walked by recursion, lower ones with a stack of their own."""
    root = check("[" * levels + "1" + "]" * levels, PLAIN)
    assert root.type.text == "list(" * levels + "int" + ")" * levels
    with pytest.raises(CompileError, match="undeclared reference to 'nope'"):
        check("[" * levels + "nope" + "]" * levels, PLAIN)
