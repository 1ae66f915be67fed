"""What nothing guards may fail; what is not told, does not."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cathedra.insight.selectors.reads import DriverFacts, Read, facts_of, unguarded
from tests.unit.insight.selectors.expressions import DEVICES, DRIVER, MAP, SELECTORS, compiled, view_of

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
