"""Deadlines of computations: when they stop, and when they pause."""

from __future__ import annotations

from itertools import count

import pytest

from cathedra.cel.checking import types
from cathedra.cel.environment import Environment
from cathedra.cel.program import compile_expression
from cathedra.deadline import CPULimit, DeadlineExceeded, Interruption, TimeSlice, TimeSliceOver


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
    """Earlier work is not counted: caches that are filled once."""
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


def test_the_limit_is_of_processor_time_and_looked_at_now_and_then() -> None:
    times = {"cpu": 10.0, "clock": 0.0}
    exceeded = CPULimit(2.0, cpu=lambda: times["cpu"], monotonic=lambda: times["clock"])
    times["cpu"] = 13.0
    assert not exceeded()
    times["clock"] = 1.0
    assert exceeded()
    times["cpu"] = 11.0
    times["clock"] = 100.0
    assert not exceeded()


def test_an_interrupted_evaluation_ends_at_once_and_cannot_be_absorbed() -> None:
    asked = 0

    def interrupted() -> bool:
        nonlocal asked
        asked += 1
        return asked > 50

    program = compile_expression("l.all(x, x > 0) || true", Environment(variables={"l": types.list_of(types.INT)}))
    outcome = program.evaluate({"l": list(range(1, 100_000))}, None, interrupted)
    assert outcome.error == "operation interrupted"
    assert asked == 51
