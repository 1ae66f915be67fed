"""Devices that a selector selects, on which it fails, and which it nearly selects."""

from __future__ import annotations

import pytest

from cathedra.allocation import InvalidInput
from cathedra.insight import match
from cathedra.insight.matching import ReplSession, SessionEnded, match_text
from tests.unit.insight.matching.devices import ATTRIBUTES, devices_with

A100, H100 = {"string": "a100"}, {"string": "h100"}
STATE = devices_with({"model": A100, "numa": {"int": 0}}, {"model": A100, "numa": {"int": 1}}, {"model": H100}, {})


def named(*numbers: int) -> tuple[str, ...]:
    return tuple(f"gpu.example.com/node-0/gpu-{number}" for number in numbers)


def test_devices_match_do_not_match_or_fail() -> None:
    found = match(STATE, f'{ATTRIBUTES}.model == "a100"')
    assert (found.devices, found.matched, found.unmatched) == (4, named(0, 1), 1)
    (failure,) = found.failures
    assert (failure.devices, failure.error) == (named(3), "no such key: model")
    assert found.nodes == {"node-0": 2}


def test_a_near_miss_is_a_device_that_one_condition_alone_keeps_out() -> None:
    found = match(STATE, f'{ATTRIBUTES}.?model.orValue("") == "a100" && {ATTRIBUTES}.?numa.orValue(0) == 0')
    assert found.matched == named(0)
    misses = {(miss.condition, miss.devices): miss for miss in found.near_misses}
    assert set(misses) == {
        (f'{ATTRIBUTES}.?model.orValue("") == "a100"', named(2)),
        (f'{ATTRIBUTES}.?model.orValue("") == "a100"', named(3)),
        (f"{ATTRIBUTES}.?numa.orValue(0) == 0", named(1)),
    }
    assert (
        misses[(f'{ATTRIBUTES}.?model.orValue("") == "a100"', named(2))].values[f'{ATTRIBUTES}.?model.orValue("")']
        == "h100"
    )


def test_each_condition_is_counted_by_itself() -> None:
    found = match(
        STATE, f'device.driver == "gpu.example.com" && {ATTRIBUTES}.model == "a100" && {ATTRIBUTES}.numa == 0'
    )
    assert [(one.met, one.unmet, one.failed, one.alone) for one in found.conditions] == [
        (4, 0, 0, 0),
        (2, 1, 1, 0),
        (1, 1, 2, 1),
    ]


def test_conditions_behind_cel_bind_are_one() -> None:
    found = match(STATE, f'cel.bind(a, {ATTRIBUTES}, "model" in a && a.model == "a100")')
    assert (found.matched, len(found.conditions), found.near_misses) == (named(0, 1), 1, ())


def test_one_driver_alone_can_be_asked() -> None:
    assert match(STATE, "true", driver="gpu.example.com").devices == 4
    with pytest.raises(InvalidInput, match=r"no device of driver 'nic.example.com'.*gpu.example.com"):
        match(STATE, "true", driver="nic.example.com")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("device.drver == 'x'", "1:7: undefined field 'drver'"),
        ("true &&\n  device.x && device.y", r"2:9: undefined field 'x' \(and 1 more\)"),
        ("1 + 1", "of type int"),
    ],
)
def test_what_is_no_selector_is_an_error_of_input(expression: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        match(STATE, expression)


@pytest.mark.parametrize("width", [80, 160])
def test_the_text_keeps_to_the_width(width: int) -> None:
    found = match(STATE, f'{ATTRIBUTES}.?model.orValue("") == "a100"\n  && {ATTRIBUTES}.numa == 0')
    lines = match_text(found, width).splitlines()
    assert lines[0] == "matches 1 of 4 devices"
    assert max(map(len, lines)) <= width


def test_no_devices_are_told() -> None:
    assert match_text(match(devices_with(), "true")).splitlines()[0] == "matches 0 of 0 devices"


# The conversation of the REPL: expressions, commands, completion.

STATE_SESSION = devices_with(
    {"model": {"string": "a100"}, "numa": {"int": 0}, "odd-name": {"bool": True}}, {"numa": {"int": 1}}
)


def said(*lines: str) -> str:
    session = ReplSession(STATE_SESSION)
    return "\n".join(answer for line in lines for answer in session.answer(line))


def test_an_expression_has_its_value_on_every_device() -> None:
    assert said(f"{ATTRIBUTES}.numa").splitlines() == [
        "0  on 1 device",
        "  gpu.example.com/node-0/gpu-0",
        "1  on 1 device",
        "  gpu.example.com/node-0/gpu-1",
    ]


def test_errors_are_values_too() -> None:
    assert "error: no such key: model  on 1 device" in said(f"{ATTRIBUTES}.model")


def test_why_tells_the_value_of_every_part() -> None:
    lines = said(f'{ATTRIBUTES}.model == "h100" && {ATTRIBUTES}.numa + 1 > 0', ":why gpu-0").splitlines()
    assert "gpu.example.com/node-0/gpu-0: false" in lines
    told = [line.strip() for line in lines]
    assert f'{ATTRIBUTES}.model == "h100"  →  false' in told
    assert f"{ATTRIBUTES}.model  →  a100" in told
    assert f"{ATTRIBUTES}.numa + 1  →  1" in told


def test_why_takes_an_expression_of_its_own() -> None:
    assert said(":why node-0/gpu-1 device.driver", "it").splitlines()[1:3] == [
        "  device.driver  →  gpu.example.com",
        "gpu.example.com  on 2 devices",
    ]


def test_devices_names_and_one_device_are_shown() -> None:
    assert said(":devices").splitlines() == ["gpu.example.com/node-0/gpu-0", "gpu.example.com/node-0/gpu-1"]
    assert f"{ATTRIBUTES}.numa  int" in said(":names")
    assert "capacity memory: 40Gi" in said(":show gpu-0")
    assert ":why DEVICE" in said(":help")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("1 +", "! the expression does not compile: 1:4: Syntax error"),
        (":why", "! which device?"),
        (":why gpu-9", "! there is no device 'gpu-9'"),
        (":why gpu-0", "! there is no last expression"),
        (":frob", "! there is no command :frob"),
    ],
)
def test_what_cannot_be_answered_is_said_and_nothing_ends(line: str, answer: str) -> None:
    assert said(line).startswith(answer)


def test_empty_lines_and_comments_say_nothing() -> None:
    assert said("", "   ", "// why not") == ""


def test_quit_ends() -> None:
    with pytest.raises(SessionEnded):
        said(":quit")


@pytest.mark.parametrize(
    ("before", "completed"),
    [
        ("device.attr", ["device.attributes"]),
        ("size(device.cap", ["device.capacity"]),
        ('device.attributes["', ['gpu.example.com"]']),
        ("device.capacity['gpu", ["gpu.example.com']"]),
        (f"{ATTRIBUTES}.", ["model", "numa"]),
        (f"true && {ATTRIBUTES}.?n", ["numa"]),
        ('device.capacity["gpu.example.com"].m', ["memory"]),
        (":w", [":why"]),
        (":why gpu-", ["gpu-0", "gpu-1"]),
        ("", []),
    ],
)
def test_names_of_the_devices_at_hand_are_completed(before: str, completed: list[str]) -> None:
    assert [text for text, _ in ReplSession(STATE_SESSION).completions(before)] == completed


def test_a_completion_replaces_what_was_begun() -> None:
    before = f"true && {ATTRIBUTES}.nu"
    ((text, replaced),) = ReplSession(STATE_SESSION).completions(before)
    assert before[: len(before) - replaced] + text == f"true && {ATTRIBUTES}.numa"
