"""Evaluations that take too long."""

from __future__ import annotations

from cathedra.cel.checking import types
from cathedra.cel.environment import Environment
from cathedra.cel.interruption import CPULimit
from cathedra.cel.program import compile_expression


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
