"""How much processor time a piece of work may take, in the seconds of an idle machine.

A bound on hostile input must keep its meaning on a machine that is busy, and in a process whose heap has grown: both
make each step dearer. So a yardstick of the same kind (small objects, many of them) is measured beside the work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

IDLE = 0.027
"""Seconds of processor time that the yardstick takes on an idle machine with a small heap."""


def yardstick() -> float:
    """Seconds of processor time that a fixed amount of work takes here and now."""
    begun = time.process_time()
    made = [{"": str(number)} for number in range(120_000)]
    del made
    return time.process_time() - begun


@contextmanager
def costs_less_than(seconds: float) -> Iterator[None]:
    """Fails when what stands inside takes more processor time than this, in seconds of an idle machine."""
    before = yardstick()
    begun = time.process_time()
    yield
    taken = time.process_time() - begun
    slowness = max(1.0, max(before, yardstick()) / IDLE)
    assert taken < seconds * slowness, (
        f"{taken:.2f} s of processor time, at {slowness:.1f} times the cost of an idle machine"
    )
