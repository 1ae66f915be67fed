"""Deadlines of computations: when they stop, and when they pause."""

from __future__ import annotations

from itertools import count

import pytest

from cathedra.deadline import DeadlineExceeded, Interruption, TimeSlice, TimeSliceOver


class Ticking:
    """A clock that advances by one tick whenever it is read."""

    def __init__(self, tick: float) -> None:
        self._ticks = count(0)
        self._tick = tick

    def __call__(self) -> float:
        return next(self._ticks) * self._tick


def test_an_interruption_stops_the_work_at_its_deadline() -> None:
    interruption = Interruption(1.0, monotonic=Ticking(0.3))
    assert [interruption() for _ in range(4)] == [False, False, False, True]
    with pytest.raises(DeadlineExceeded, match="stopped after 1 s"):
        interruption.check()


def test_the_work_pauses_once_per_millisecond() -> None:
    pauses: list[float] = []
    interruption = Interruption(10.0, monotonic=Ticking(0.0005), sleep=pauses.append)
    for _ in range(30):
        interruption()
    assert 8 <= len(pauses) <= 15


def test_a_turn_begins_with_its_first_look_and_its_end_is_raised() -> None:
    """What was done before it is not counted: caches that are filled once."""
    now = [0.0]
    turn = TimeSlice(1.0, monotonic=lambda: now[0])
    now[0] = 100.0
    assert not turn()
    now[0] = 100.9
    assert not turn()
    now[0] = 101.0
    with pytest.raises(TimeSliceOver):
        turn()


def test_a_cancelled_computation_stops_at_its_next_look() -> None:
    interruption = Interruption(3600.0, monotonic=lambda: 0.0)
    assert not interruption()
    interruption.cancelled = True
    assert interruption()
