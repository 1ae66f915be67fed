"""Selectors: compiled once, evaluated often, validated as by the API server."""

from __future__ import annotations

import pytest

from cathedra.cel.errors import CompileError, EvaluationError
from cathedra.cel.selector import Admission, CompiledSelector, compile_selector, validate_selector
from tests.unit.cel.building import ATTRIBUTES, view


@pytest.mark.parametrize("expression", ["device.driver", "1 + 1", "google.protobuf.BoolValue{value: true}"])
def test_only_bool_and_unknown_results_are_accepted(expression: str) -> None:
    with pytest.raises(CompileError, match="must evaluate to bool or the unknown type, not"):
        compile_selector(expression)


def test_an_unknown_result_must_be_bool_in_the_end() -> None:
    assert compile_selector(f"{ATTRIBUTES}.ready").matches(view())
    with pytest.raises(EvaluationError, match="CEL result of type int could not be converted to bool"):
        compile_selector(f"{ATTRIBUTES}.index").matches(view())


def test_answers_are_remembered_per_device() -> None:
    selector, device = compile_selector(f"{ATTRIBUTES}.ready"), view()
    assert selector.matches(device)
    device.attributes.clear()
    assert selector.matches(device)
    with pytest.raises(EvaluationError, match="no such key: ready"):
        selector.decide(device)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompiledSelector, "MEMORY", 3)
    selector = compile_selector("true")
    assert all(selector.matches(view()) for _ in range(10))
    assert len(selector._memory) <= 3


def test_errors_are_not_remembered_as_answers() -> None:
    selector, device = compile_selector(f"{ATTRIBUTES}.missing"), view()
    for _ in range(2):
        with pytest.raises(EvaluationError, match="no such key: missing"):
            selector.matches(device)


def test_the_cost_limit_holds_for_compiled_selectors_too() -> None:
    selector = compile_selector("lists.range(500).all(x, lists.range(500).all(y, true))", cost_limit=20_000)
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        selector.matches(view())


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("true", None),
        ("'" + "a" * 10_240 + "' == ''", Admission("FieldValueTooLong", "may not be more than 10240 bytes")),
        ("type(device.driver) == string", Admission("FieldValueForbidden", "too complex, exceeds cost limit")),
        (
            "bool('yes')",
            Admission("InternalError", "program instantiation failed: type conversion error from 'string' to 'bool'"),
        ),
    ],
)
def test_admission_says_what_the_api_server_says(expression: str, verdict: Admission | None) -> None:
    assert validate_selector(expression) == verdict


def test_a_selector_explains_itself() -> None:
    explanation = compile_selector(f'{ATTRIBUTES}.model == "h100" && {ATTRIBUTES}.ready').explain(view())
    told = {finding.source: finding.shown for finding in explanation.findings}
    assert explanation.value is False
    assert told[f'{ATTRIBUTES}.model == "h100"'] == "false"
    assert told[f"{ATTRIBUTES}.model"] == "a100"
    assert told[f"{ATTRIBUTES}.ready"] == "not evaluated"


def test_a_dict_is_a_device_as_a_slice_writes_it() -> None:
    selector = compile_selector('device.attributes["gpu.example.com"].model == "a100"')
    device = {"driver": "gpu.example.com", "name": "gpu-0", "attributes": {"model": {"string": "a100"}}}
    assert selector.matches(device)
    assert repr(selector) == """CompiledSelector('device.attributes["gpu.example.com"].model == "a100"')"""
    for wrong in ({}, {"driver": "d", "attributes": {"model": "a100"}}):
        with pytest.raises(TypeError):
            selector.matches(wrong)
