"""Time of one attempt to schedule a pod.

What one pod needs must not hold up the event loop, which serves requests and renews leases. An attempt therefore has
turns of a few milliseconds. If a plugin's search needs longer, it ends the turn with an exception: the search goes on
in a thread, other pods are scheduled meanwhile, and then the attempt starts again from the beginning, on the nodes and
devices of that moment. What was found is remembered, so the second turn is short (`cathedra.offload`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cathedra.deadline import TURN_SECONDS, Interruption, Turn

__all__ = ["Attempt"]


class Attempt:
    """One attempt, from the queue to a node or a refusal, in one or several turns."""

    __slots__ = ("_last", "_monotonic", "_turn", "began", "data", "used")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._turn: Turn | None = None
        self._last: Interruption | None = None
        self.began = monotonic()
        self.used = 0.0
        """Seconds that searches in the thread have taken."""
        self.data: dict[str, Any] = {}
        """What plugins keep from turn to turn, by plugin name."""

    def interrupted(self, seconds: float) -> Interruption:
        """Return the turn's interruption, for a plugin whose searches may take that many ``seconds`` in all.

        As long as there is time, the interruption raises `cathedra.deadline.TurnOver` at the end of the turn. When time
        is up, searches that have not been made yet share one last turn, at whose end it returns True.
        """
        if self.used >= seconds:
            if self._last is None:
                self._last = Interruption(TURN_SECONDS, monotonic=self._monotonic)
            return self._last
        if self._turn is None:
            self._turn = Turn(monotonic=self._monotonic)
        return self._turn

    def next_turn(self) -> None:
        """Begin another turn."""
        if self._turn is not None:
            # Turns count as well, so that an attempt whose world changes with every turn comes to an end.
            self.used += TURN_SECONDS
        self._turn = None
