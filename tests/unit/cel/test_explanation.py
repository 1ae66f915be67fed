"""The value or error of every part."""

from __future__ import annotations

from hypothesis import given, settings

from cathedra.cel.device import DeviceView
from cathedra.cel.errors import CompileError
from cathedra.cel.explanation import explain
from cathedra.cel.selector import compile_selector
from tests.unit.cel.asking import PLAIN
from tests.unit.cel.building import devices, selectors


def test_parts_come_in_the_order_of_the_text_with_their_depth() -> None:
    found = explain("1 + size('abc') > 3 || [1].exists(x, x > 5)", PLAIN, {}).findings
    assert [(finding.source, finding.depth, finding.shown) for finding in found[:4]] == [
        ("1 + size('abc') > 3 || [1].exists(x, x > 5)", 0, "true"),
        ("1 + size('abc') > 3", 1, "true"),
        ("1 + size('abc')", 2, "4"),
        ("size('abc')", 3, "3"),
    ]


def test_failures_that_were_absorbed_are_shown() -> None:
    explanation = explain("{'a': 1}.b == 2 || true", PLAIN, {})
    assert explanation.value is True
    assert explanation.findings[1].error == "no such key: b"


def test_parts_of_loops_are_marked() -> None:
    found = {f.source: f for f in explain("[1, 2].exists(x, x == 2)", PLAIN, {}).findings}
    assert found["x == 2"].repeated
    assert found["x == 2"].shown == "true"
    assert not found["[1, 2].exists(x, x == 2)"].repeated


@settings(max_examples=100, deadline=None)
@given(expression=selectors, device=devices)
def test_the_whole_is_told_as_it_was_answered(expression: str, device: DeviceView) -> None:
    try:
        selector = compile_selector(expression)
    except CompileError:
        return
    outcome, explanation = selector.outcome(device), selector.explain(device)
    assert (explanation.value, explanation.error, explanation.cost) == (outcome.value, outcome.error, outcome.cost)
    whole = explanation.findings[0]
    assert (whole.start, whole.end) == (
        min(f.start for f in explanation.findings),
        max(f.end for f in explanation.findings),
    )
    if outcome.error is None and whole.source == expression:
        assert whole.value is outcome.value
