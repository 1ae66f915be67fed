"""Compiled code and the counting evaluator give the same answers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from cathedra.cel.device import DeviceView
from cathedra.cel.errors import CompileError, EvaluationError
from cathedra.cel.evaluation import compiler
from cathedra.cel.selector import CompiledSelector, compile_selector
from tests.unit.cel.building import ATTRIBUTES, devices, selectors, view


def code_of(expression: str) -> compiler.Code | None:
    """The compiled function, if the expression is compiled."""
    return compiler.selector_code(compile_selector(expression).program)


def agree(selector: CompiledSelector, device: DeviceView) -> None:
    """Hold the compiled code against the counting evaluator."""
    counted = selector.outcome(device)
    code = compiler.selector_code(selector.program)
    if code is None:
        return
    try:
        answer = code(device)
    except compiler.UNUSUAL:
        return
    assert (answer, None) == (counted.value, counted.error)


@settings(max_examples=200, deadline=None)
@given(expression=selectors, device=devices)
def test_code_answers_as_the_counting_evaluator_or_hands_over(expression: str, device: DeviceView) -> None:
    try:
        selector = compile_selector(expression)
    except CompileError:
        return
    agree(selector, device)
    counted = selector.outcome(device)
    try:
        decided: object = selector.decide(device)
    except EvaluationError as error:
        decided = error.text
    assert decided == (counted.value if counted.error is None else counted.error)


@pytest.mark.parametrize(
    "expression",
    [
        f'{ATTRIBUTES}.model == "a100"',
        f"{ATTRIBUTES}.ready == true",
        f"{ATTRIBUTES}.?index.orValue(3) > 4",
        f"has({ATTRIBUTES}.model) && {ATTRIBUTES}.index >= 5",
        f'{ATTRIBUTES}.model in ["a100", "b"]',
        f'{ATTRIBUTES}.version.compareTo(semver("1.0.0")) > 0',
        f'cel.bind(a, {ATTRIBUTES}, a.ready && a.model != "x")',
        f"{ATTRIBUTES}.exists(k, v, k == 'index' && v == 5)",
        "[1, 2, 3].exists_one(x, x > 2)",
        'device.driver.startsWith("gpu")',
    ],
)
def test_usual_selectors_are_compiled_and_answer_without_handing_over(expression: str) -> None:
    code = code_of(expression)
    assert code is not None
    assert code(view()) is True


@pytest.mark.parametrize(
    "expression",
    [
        f"{ATTRIBUTES}.ready == 1",
        f"{ATTRIBUTES}.index == true",
        f'{ATTRIBUTES}.version == "1.2.3"',
        f"{ATTRIBUTES}.version == true",
        f"{ATTRIBUTES}.index",
        f"{ATTRIBUTES}.missing == 1 || true",
        "device.attributes.?nowhere.hasValue()",
        "has(device.attributes.nowhere)",
        "device.attributes[?'nowhere'].orValue({}).size() == 0",
        "9223372036854775807 + device.driver.size() > 0",
        f"{ATTRIBUTES}.exists(device, device == 'model')",
        "['x'].exists(device, device == 'x' && .device.driver != '')",
    ],
)
def test_what_python_would_see_differently_stays_right(expression: str) -> None:
    agree(compile_selector(expression), view())


def test_cheap_expressions_need_no_estimate() -> None:
    assert compiler.is_cheap(compile_selector(f'{ATTRIBUTES}.model == "a100"').program.root)


@pytest.mark.parametrize(
    "expression", ["[1].all(x, true)", 'device.driver.matches("a+")', 'device.driver + "a" == "b"']
)
def test_loops_patterns_and_growth_are_not_called_cheap(expression: str) -> None:
    assert not compiler.is_cheap(compile_selector(expression).program.root)
