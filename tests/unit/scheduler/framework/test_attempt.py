"""Time of one attempt: turns, and what is remembered from one to the next."""

from __future__ import annotations

from functools import partial

import pytest

from cathedra.deadline import SLICE_SECONDS, TimeSliceOver
from cathedra.scheduler.framework.attempt import Attempt, Memo


class Clock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_search_is_told_of_the_end_of_the_turn_as_long_as_there_is_time() -> None:
    clock = Clock()
    attempt = Attempt(clock)
    interrupted = attempt.interrupted(10.0)
    assert not interrupted()
    clock.now = SLICE_SECONDS
    with pytest.raises(TimeSliceOver):
        interrupted()
    attempt.next_slice()
    assert not attempt.interrupted(10.0)()


def test_searches_share_one_last_turn_when_time_is_up() -> None:
    clock = Clock()
    attempt = Attempt(clock)
    attempt.used = 10.0
    assert not attempt.interrupted(10.0)()
    clock.now = SLICE_SECONDS
    assert attempt.interrupted(10.0)()
    attempt.next_slice()
    assert attempt.interrupted(10.0)(), "another turn does not bring more time"


def test_a_memo_works_out_a_piece_again_only_for_another_version() -> None:
    memo: Memo[str, int] = Memo()
    first, second = object(), object()
    assert memo.get("a", (first,), None, lambda: 1) == 1
    assert memo.get("a", (first,), None, lambda: 2) == 1
    assert memo.get("a", (second,), None, lambda: 3) == 3


def test_a_memo_ends_the_turn_between_two_pieces_and_keeps_what_is_known() -> None:
    clock = Clock()
    attempt = Attempt(clock)
    memo: Memo[int, int] = Memo()

    def piece(number: int) -> int:
        clock.now += SLICE_SECONDS
        return number

    def all_pieces() -> list[int]:
        return [memo.get(number, (), attempt, partial(piece, number)) for number in range(4)]

    # A turn has one piece: the first look of a turn does not end it.
    for known in range(1, 4):
        with pytest.raises(TimeSliceOver):
            all_pieces()
        assert clock.now == known * SLICE_SECONDS
        attempt.next_slice()
    assert all_pieces() == [0, 1, 2, 3]


def test_a_memo_forgets_the_oldest_piece() -> None:
    memo: Memo[int, int] = Memo(2)
    for number in range(3):
        memo.get(number, (), None, lambda number=number: number)
    assert memo.get(0, (), None, lambda: 10) == 10
    assert memo.get(2, (), None, lambda: 20) == 2
