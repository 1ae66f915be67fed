"""Taints of devices."""

from __future__ import annotations

import pytest

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.resource import DeviceTaint
from cathedra.api.struct import Time
from cathedra.kinds.resource.taints import dated_taint, validate_taint
from tests.unit.kinds.objects import gates, texts


def problems(taint: DeviceTaint, release: str = "1.37", old: DeviceTaint | None = None) -> list[str]:
    errors = ErrorList()
    validate_taint(errors, FieldPath("t"), taint, gates(release), old=old)
    return texts(errors)


def test_a_taint_without_a_time_gets_the_present_one_and_keeps_its_own() -> None:
    assert dated_taint(DeviceTaint(key="a"), 5.0).time_added == Time(5.0)
    assert dated_taint(DeviceTaint(key="a", time_added=Time(3.0)), 5.0).time_added == Time(3.0)


@pytest.mark.parametrize("effect", ["NoExecute", "NoSchedule", "None"])
def test_known_effects_are_accepted(effect: str) -> None:
    assert problems(DeviceTaint(key="a", effect=effect)) == []


def test_the_effect_none_came_with_1_35() -> None:
    (found,) = problems(DeviceTaint(key="a", effect="None"), "1.34")
    assert found.startswith('t.effect: Unsupported value: "None"')


def test_an_effect_is_needed_and_an_unknown_one_refused() -> None:
    assert problems(DeviceTaint(key="a")) == ["t.effect: Required value"]
    (found,) = problems(DeviceTaint(key="a", effect="Later"))
    assert found.startswith('t.effect: Unsupported value: "Later": supported values:')


def test_an_effect_that_is_stored_already_is_not_judged_again() -> None:
    assert problems(DeviceTaint(key="a", effect="Later"), old=DeviceTaint(key="a", effect="Later")) == []


def test_keys_and_values_have_the_form_of_labels() -> None:
    assert len(problems(DeviceTaint(key="a b", value="-", effect="NoExecute"))) == 2
