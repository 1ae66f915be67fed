"""What the placements of a search have used up so far.

A state is never changed: a placement makes another one, so nothing is ever undone, and a state that failed can be
remembered.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cathedra.allocation.search.counters import CounterState
from cathedra.allocation.search.shares import ShareState

__all__ = ["State"]


class State(msgspec.Struct, frozen=True, eq=False):
    """Sets of devices are masks over their positions."""

    used: int
    """Dedicated devices taken in this call."""
    mine: int
    """Those taken for the current claim, which bind admin requests."""
    placed: int
    """How many devices the current claim has got."""
    constraints: tuple[Any, ...]
    """State of each constraint of the current claim."""
    counters: CounterState | None
    """State of the counters, if the node has any."""
    shares: ShareState
    """State of the capacity of shareable devices."""

    def for_next_claim(self, constraints: int) -> State:
        """The same, as a claim with so many constraints begins."""
        return State(self.used, 0, 0, (None,) * constraints, self.counters, self.shares)
