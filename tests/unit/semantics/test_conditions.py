"""Finding and setting conditions, in Kubernetes' three ways."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import PodCondition
from cathedra.api.struct import Time
from cathedra.semantics.conditions import (
    find_condition,
    is_true,
    with_condition,
    with_condition_moved_last,
    with_condition_restarted,
)


def condition(kind: str, status: str = "True", reason: str = "R", at: float = 1.0, message: str = "") -> PodCondition:
    return PodCondition(type=kind, status=status, reason=reason, message=message, last_transition_time=Time(at))


A, B = condition("A"), condition("B")

CONDITIONS = st.lists(
    st.builds(condition, st.sampled_from("ABC"), st.sampled_from(["True", "False", "Unknown"]), st.sampled_from("RS")),
    unique_by=lambda one: one.type,
).map(tuple)


def test_a_condition_is_found_by_type_and_true_only_if_it_says_so() -> None:
    assert find_condition((A, B), "B") is B
    assert find_condition((A, B), "C") is None
    assert is_true((A,), "A")
    assert not is_true((condition("A", "Unknown"),), "A")
    assert not is_true((), "A")


def test_setting_keeps_the_place_and_the_time_while_the_status_stays() -> None:
    new = condition("A", reason="Other", at=9.0)
    assert with_condition((A, B), new) == (condition("A", reason="Other", at=1.0), B)
    flipped = condition("A", "False", at=9.0)
    assert with_condition((A, B), flipped) == (flipped, B)
    assert with_condition((B,), A) == (B, A)


def test_moving_last_ignores_new_words_for_the_same_reason() -> None:
    assert with_condition_moved_last((A, B), condition("A", message="new", at=9.0)) == (A, B)
    assert with_condition_moved_last((A, B), condition("A", reason="S", at=9.0)) == (B, condition("A", reason="S"))
    flipped = condition("A", "False", at=9.0)
    assert with_condition_moved_last((A, B), flipped) == (B, flipped)


def test_restarting_takes_the_new_times_and_adds_nothing_that_is_false() -> None:
    renamed = condition("A", reason="S", at=9.0)
    assert with_condition_restarted((A, B), renamed) == (renamed, B)
    assert with_condition_restarted((A, B), condition("A", at=9.0)) == (A, B)
    assert with_condition_restarted((B,), condition("A", "False")) == (B,)


@given(CONDITIONS, st.sampled_from([with_condition, with_condition_moved_last, with_condition_restarted]))
def test_setting_twice_is_setting_once_and_leaves_the_others_alone(
    before: tuple[PodCondition, ...], way: object
) -> None:
    assert callable(way)
    new = condition("A", "Unknown", at=9.0)
    once = way(before, new)
    assert way(once, new) == once
    assert [one for one in once if one.type != "A"] == [one for one in before if one.type != "A"]
    assert [one.status for one in once if one.type == "A"] == ["Unknown"]
