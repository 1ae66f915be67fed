"""Reads of attributes in a selector that may fail, and guards that prevent it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cathedra.insight.selectors.reads import DriverFacts, Read, conditions_of, facts_of, first_conflict, unguarded
from tests.unit.insight.selectors.expressions import CONDITIONS, DEVICES, DRIVER, MAP, SELECTORS, compiled, view_of

MEMORY = Read("capacity", DRIVER, "m")
"""Every device has it."""


def told(text: str, *known: Read | DriverFacts) -> list[str]:
    return [read.name for _, read in unguarded(compiled(text).root, frozenset((MEMORY, *known)))]


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(text=SELECTORS, device=DEVICES)
@example(text=f"({MAP}.a > 1 && {MAP}.a < 3)", device={})
@example(text=f'(!("a" in {MAP}) || {MAP}.a == 1)', device={})
@example(text=f'(("a" in {MAP} || "b" in {MAP}) && {MAP}.a == 1)', device={"b": {"int": 1}})
@example(text=f'cel.bind(m, {MAP}, cel.bind(m, m, m.s == "x"))', device={})
def test_an_expression_without_unguarded_reads_never_misses_a_key(text: str, device: dict[str, Any]) -> None:
    program = compiled(text)
    missing = [read for _, read in unguarded(program.root, frozenset((MEMORY,)), driver_counts=False)]
    error = program.evaluate({"device": view_of(device).root}).error or ""
    if not missing:
        assert "no such key" not in error
    elif error.startswith("no such key: "):
        assert any(read.name in error for read in missing)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(text=SELECTORS, device=DEVICES, truth=st.booleans(), evaluated=st.booleans())
@example(text=f"{MAP}.s in []", device={}, truth=False, evaluated=True)
def test_facts_hold_on_every_device(text: str, device: dict[str, Any], truth: bool, evaluated: bool) -> None:
    program = compiled(text)
    outcome = program.evaluate({"device": view_of(device).root})
    if outcome.error is not None or outcome.value is not truth:
        return
    for fact in facts_of(program.root, {}, truth=truth, evaluated=evaluated):
        if isinstance(fact, DriverFacts):
            assert fact.name == DRIVER
        elif fact.map == "attributes":
            assert fact.name in device


def test_a_read_is_told_once() -> None:
    assert told(f"{MAP}.a == 1 && {MAP}.a == 2 && {MAP}.b == 3") == ["a", "b"]


def test_what_was_read_before_is_there() -> None:
    before = facts_of(compiled(f"{MAP}.a > 1 || {MAP}.a < 0").root, {}, evaluated=True)
    assert told(f"{MAP}.a == 1", *before) == []


def test_the_driver_counts_for_its_own_domain() -> None:
    assert told(f"{MAP}.a == 1", DriverFacts(DRIVER)) == []
    assert told('device.attributes["other.example.com"].a == 1', DriverFacts(DRIVER)) == ["a"]


# Conditions that are reported as exclusive exclude each other.


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
