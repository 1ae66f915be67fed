"""The conversation of the REPL: expressions, commands, completion."""

from __future__ import annotations

import pytest

from cathedra.insight.matching.session import ReplSession, SessionEnded
from tests.unit.insight.matching.devices import ATTRIBUTES, devices_with

STATE = devices_with(
    {"model": {"string": "a100"}, "numa": {"int": 0}, "odd-name": {"bool": True}}, {"numa": {"int": 1}}
)


def said(*lines: str) -> str:
    session = ReplSession(STATE)
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
    assert [text for text, _ in ReplSession(STATE).completions(before)] == completed


def test_a_completion_replaces_what_was_begun() -> None:
    before = f"true && {ATTRIBUTES}.nu"
    ((text, replaced),) = ReplSession(STATE).completions(before)
    assert before[: len(before) - replaced] + text == f"true && {ATTRIBUTES}.numa"
