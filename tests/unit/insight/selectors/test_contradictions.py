"""Conditions that are told to exclude each other do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.insight.selectors.contradictions import conditions_of, first_conflict
from tests.unit.insight.selectors.expressions import CONDITIONS, DEVICES, MAP, SELECTORS, compiled, view_of


def conflict(*texts: str) -> tuple[str, str] | None:
    found = first_conflict(one for text in texts for one in conditions_of(compiled(text).root, text))
    return None if found is None else (found.earlier.text, found.later.text)


@settings(max_examples=600, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(st.one_of(CONDITIONS, CONDITIONS, SELECTORS), min_size=2, max_size=6),
    device=DEVICES,
    memory=st.integers(0, 3),
)
def test_what_is_said_to_be_never_true_is_true_of_no_device(
    texts: list[str], device: dict[str, Any], memory: int
) -> None:
    text = " && ".join(texts)
    if conflict(text) is not None:
        assert compiled(text).evaluate({"device": view_of(device, memory).root}).value is not True


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{MAP}.a == 1 && {MAP}.a == 2", True),
        (f"1 == {MAP}.a && {MAP}.a != 1", True),
        (f"{MAP}.a > 2 && 2 > {MAP}.a", True),
        (f"{MAP}.a >= 2 && 2 >= {MAP}.a", False),
        (f"{MAP}.a >= 2 && {MAP}.a < 2", True),
        (f"{MAP}.a == 1 && {MAP}.a == 1.0", False),
        (f'{MAP}.a == 1 && {MAP}.a == "1"', False),
        (f'{MAP}.s in ["x", "y"] && {MAP}.s in ["y", "z"]', False),
        (f'{MAP}.s in ["x"] && {MAP}.s in ["y", "z"]', True),
        (f"{MAP}.s in [] && {MAP}.s == 'x'", True),
        (f"{MAP}.t && !{MAP}.t", True),
        (f"{MAP}.t == true && {MAP}.t == false", True),
        (f"!({MAP}.a == 1) && {MAP}.a == 1", True),
        (f"!({MAP}.a > 1) && {MAP}.a > 2", False),
        (f"({MAP}.a == 1 || {MAP}.a == 2) && {MAP}.a == 3", True),
        (f"({MAP}.a == 1 || {MAP}.b == 2) && {MAP}.a == 3", False),
        (f'{MAP}.v.compareTo(semver("1.0.0-rc.1")) > 0 && {MAP}.v.isLessThan(semver("1.0.0"))', False),
        (f'{MAP}.v.compareTo(semver("1.0.0")) > 0 && {MAP}.v.isLessThan(semver("1.0.0"))', True),
        ("true && !false", False),
    ],
)
def test_only_what_is_certain_is_said(text: str, found: bool) -> None:
    assert (conflict(text) is not None) is found


def test_conditions_of_several_selectors_are_taken_together() -> None:
    assert conflict(f"{MAP}.a == 1", f"{MAP}.b == 2", f"{MAP}.a == 3") == (f"{MAP}.a == 1", f"{MAP}.a == 3")
