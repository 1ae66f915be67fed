"""Descents without recursion, and expressions as deep as they may be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from cathedra.cel import _trampoline
from cathedra.cel._trampoline import Descent
from cathedra.cel.errors import CompileError
from cathedra.cel.program import check, compile_expression
from cathedra.cel.selector import compile_selector
from tests.unit.cel.asking import value
from tests.unit.cel.building import view

DEEP = 250


def height(tree: list[Any]) -> Descent[int]:
    highest = 0
    for part in tree:
        highest = max(highest, (yield height(part)))
    return highest + 1


def failing(levels: int) -> Descent[None]:
    if not levels:
        raise LookupError("at the bottom")
    yield failing(levels - 1)


def recovering() -> Descent[str]:
    try:
        yield failing(3)
    except LookupError as error:
        return str(error)
    return "nothing"


@pytest.fixture
def little_room() -> Iterator[None]:
    """So few frames that anything that recurses with the depth of its input fails."""
    before = sys.getrecursionlimit()
    frames, frame = 0, sys._getframe()
    while frame is not None:
        frames, frame = frames + 1, frame.f_back  # type: ignore[assignment]  # ends with None
    sys.setrecursionlimit(frames + 160)
    yield
    sys.setrecursionlimit(before)


def test_depth_costs_no_recursion() -> None:
    tree: list[Any] = []
    for _ in range(100_000):
        tree = [tree]
    assert _trampoline.run(height(tree)) == 100_001


def test_a_failure_of_a_part_can_be_handled_by_the_whole() -> None:
    assert _trampoline.run(recovering()) == "at the bottom"
    with pytest.raises(LookupError):
        _trampoline.run(failing(2))


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(" * (DEEP - 1) + "1" + ")" * (DEEP - 1), 1),
        ("[" * (DEEP - 1) + "1" + "]" * (DEEP - 1) + "[0]" * (DEEP - 1), 1),
        ("[" * 200 + "1" + "]" * 200 + " == " + "[" * 200 + "1" + "]" * 200, True),
        ("1" + " + 1" * DEEP, DEEP + 1),
        ("false ? 3 : " * (DEEP - 1) + "4", 4),
        ("true && (" * (DEEP - 1) + "true" + ")" * (DEEP - 1), True),
        ("false || (" * (DEEP - 1) + "true" + ")" * (DEEP - 1), True),
        ("true" + " && true" * 5000, True),
        ("!" * 5001 + "false", True),
        ("-(" * (DEEP - 1) + "1" + ")" * (DEEP - 1), -1),
        ("size(string(" * 124 + "1" + "))" * 124, 1),
        ("cel.bind(x, 1, " * (DEEP - 1) + "x" + ")" * (DEEP - 1), 1),
        ("[1].all(a, " * (DEEP - 1) + "true" + ")" * (DEEP - 1), True),
        ("[1].map(a, " * 200 + "a" + ")" * 200 + ".size()", 1),
        ("[[1]]" + ".map(x, [x])" * 200 + ".size()", 1),
        ("{'a': " * (DEEP - 1) + "1" + "}" * (DEEP - 1) + ".a" * (DEEP - 1), 1),
        ("optional.of(" * (DEEP - 1) + "1" + ")" * (DEEP - 1) + ".hasValue()", True),
        ("'%s'.format([" + "[" * 200 + "1" + "]" * 200 + "])", "[" * 200 + "1" + "]" * 200),
        ("[" * 200 + "1" + "]" * 200 + ".flatten(300)", [1]),
    ],
    ids=lambda one: str(one)[:24],
)
def test_legal_nesting_is_evaluated_within_the_usual_recursion_limit(expression: str, expected: Any) -> None:
    assert value(expression) == expected


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize(
    "expression",
    [
        "(" * DEEP + "1" + ")" * DEEP,
        "[" * 60_000,
        "{" * 60_000,
        "(" * 60_000 + ")" * 60_000,
        "[" * 200 + "+" + "]" * 200,
        "a" + ".b" * 5000,
        "f(" * 30_000,
        "- " * 40_000,
        "[" * 240 + "1 + 'a'" + "]" * 240,
        "[" * 200 + "1" + "]" * 200 + " + 1",
    ],
    ids=lambda one: one[:12],
)
def test_what_is_too_deep_or_wrong_deep_inside_is_refused(expression: str) -> None:
    from cathedra.cel.environment import Environment

    with pytest.raises(CompileError):
        check(expression, Environment())


@pytest.mark.usefixtures("little_room")
def test_a_deep_selector_has_a_cost_and_an_answer_and_an_explanation() -> None:
    expression = "device.driver == 'gpu.example.com' && (" * 240 + "true" + ")" * 240
    selector = compile_selector(expression)
    assert selector.max_cost == 960
    assert selector.matches(view()) is True
    assert selector.explain(view()).value is True


@pytest.mark.usefixtures("little_room")
def test_values_nest_deeper_than_expressions() -> None:
    from cathedra.cel.checking import types
    from cathedra.cel.environment import Environment

    deep: list[Any] = [1]
    for _ in range(5000):
        deep = [deep]
    program = compile_expression(
        "x == y && !(x != y) && y in [x]", Environment(variables=dict.fromkeys("xy", types.DYN))
    )
    assert program.value({"x": deep, "y": deep}) is True
