"""Tolerations against taints, of nodes and of devices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Taint, Toleration
from cathedra.api.resource import DeviceTaint, DeviceToleration
from cathedra.semantics.tolerations import (
    concerns_taint,
    first_untolerated,
    first_untolerated_on_device,
    is_tolerated,
    merged_tolerations,
    tolerates,
    tolerates_device_taint,
)

TAINT = Taint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Equal", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", operator="Equal", value="w"), False),
        (Toleration(key="k", operator="Like", value="v"), False),
    ],
)
def test_empty_key_and_effect_cover_all_and_operators_compare_values(toleration: Toleration, covered: bool) -> None:
    assert tolerates(toleration, TAINT) is covered


@given(wanted=st.integers(-(2**63), 2**63 - 1), found=st.integers(-(2**63), 2**63 - 1))
def test_gt_and_lt_compare_as_integers(wanted: int, found: int) -> None:
    taint = Taint(key="k", value=str(found), effect="NoSchedule")
    assert tolerates(Toleration(key="k", operator="Gt", value=str(wanted)), taint) is (found > wanted)
    assert tolerates(Toleration(key="k", operator="Lt", value=str(wanted)), taint) is (found < wanted)


@pytest.mark.parametrize("text", ["", "x", "1_0", " 1", "1.0", str(2**63), "9" * 5000, "\u0661"])
def test_gt_and_lt_cover_nothing_that_is_no_64_bit_integer(text: str) -> None:
    assert not tolerates(Toleration(key="k", operator="Lt", value=text), Taint(key="k", value="0", effect="NoExecute"))
    assert not tolerates(Toleration(key="k", operator="Gt", value="0"), Taint(key="k", value=text, effect="NoExecute"))


def test_admission_asks_only_for_key_and_effect() -> None:
    assert concerns_taint(Toleration(key="k", value="other"), "k", "NoExecute")
    assert concerns_taint(Toleration(operator="Exists"), "k", "NoExecute")
    assert not concerns_taint(Toleration(key="k", effect="NoSchedule"), "k", "NoExecute")


def test_the_first_hard_taint_without_a_toleration_is_named() -> None:
    soft = Taint(key="s", effect="PreferNoSchedule")
    last = Taint(key="z", effect="NoExecute")
    assert first_untolerated([soft, TAINT, last], [Toleration(key="k", operator="Exists")]) is last
    assert first_untolerated([soft, TAINT], [], {"NoExecute"}) is None
    assert not is_tolerated(soft, [])


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_devices_know_no_comparisons(operator: str) -> None:
    taint = DeviceTaint(key="k", value="5", effect="NoSchedule")
    assert not tolerates_device_taint(DeviceToleration(key="k", operator=operator, value="5"), taint)


def test_a_device_taint_of_effect_none_keeps_nothing_away() -> None:
    harmless = DeviceTaint(key="a", effect="None")
    hard = DeviceTaint(key="b", value="1", effect="NoExecute")
    assert first_untolerated_on_device([harmless, hard], ()) is hard
    assert first_untolerated_on_device([harmless, hard], (DeviceToleration(key="b", value="1"),)) is None


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (("a", "Exists", "", "NoSchedule"), ("a", "Equal", "v", "NoSchedule"), 1),
        (("a", "Equal", "v", "NoSchedule"), ("a", "Exists", "", ""), 1),
        (("a", "Equal", "v", "NoSchedule"), ("a", "Equal", "w", "NoSchedule"), 2),
        (("", "Exists", "", ""), ("b", "Exists", "", "NoExecute"), 1),
        (("a", "Exists", "", "NoSchedule"), ("a", "Exists", "", "NoSchedule"), 1),
    ],
)
def test_merged_tolerations_hold_none_that_another_includes(
    first: tuple[str, str, str, str], second: tuple[str, str, str, str], kept: int
) -> None:
    one, other = (Toleration(key=k, operator=o, value=v, effect=e) for k, o, v, e in (first, second))
    assert len(merged_tolerations((one,), (other,))) == kept
