"""What the placements of a search have used up so far.

A state is never changed: a placement makes another one, so nothing is ever undone, and a state that failed can be
remembered.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["State"]


class State(msgspec.Struct, frozen=True, eq=False):
    """Sets of devices are masks over their positions."""

    used: int
    """Dedicated devices taken in this call."""
    mine: int
    """Those taken for the current claim, which bind admin requests."""
    placed: int
    """How many devices the current claim has got."""
    values: tuple[Any, ...]
    """State of each constraint of the current claim."""
    counters: Any
    """What is consumed of each pool's counters, and which compatibility groups are there."""
    blocked: int
    """Devices whose counters or compatibility groups no longer allow them."""
    capacity: dict[int, dict[str, int]]
    """Position → qualified name → nano-units in use, for shares taken in this call; with what was in use before."""
    sharing: int
    """Shareable devices in use, by this call or before it."""

    def for_next_claim(self, constraints: int) -> State:
        """The same, as a claim with so many constraints begins."""
        return State(self.used, 0, 0, (None,) * constraints, self.counters, self.blocked, self.capacity, self.sharing)
