"""How long a search may take.

Kubernetes gives a node ten seconds and then fails. Here a search that would take too long ends with an honest answer:
stopped after so many states, nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from cathedra.allocation.errors import Aborted

__all__ = ["UNLIMITED", "Budget", "BudgetExceeded", "Meter"]

_CHECK_EVERY: Final = 256


class BudgetExceeded(Exception):
    """The search was stopped; ``states`` were looked at."""

    def __init__(self, states: int) -> None:
        self.states = states
        super().__init__(f"stopped after {states} states")


class Budget(msgspec.Struct, frozen=True):
    """Limits of one search on one node: states, and seconds of ``monotonic`` if that is given.

    ``cancelled`` returns why the caller wants to stop, or nothing.
    """

    states: int = 1_000_000
    seconds: float = 10.0
    monotonic: Callable[[], float] | None = None
    cancelled: Callable[[], str] | None = None


UNLIMITED: Final = Budget(states=2**62)


class Meter:
    """Counts the states of one search."""

    __slots__ = ("_budget", "_deadline", "states")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._deadline = None if budget.monotonic is None else budget.monotonic() + budget.seconds
        self.states = 0

    def step(self) -> None:
        """One more state.

        Raises:
            BudgetExceeded: a limit is reached.
            Aborted: the caller cancelled.
        """
        self.states += 1
        if self.states > self._budget.states:
            raise BudgetExceeded(self.states - 1)
        if self.states % _CHECK_EVERY == 1:
            self._check()

    def _check(self) -> None:
        if self._budget.cancelled is not None and (cause := self._budget.cancelled()):
            raise Aborted(f"filter operation aborted: {cause}")
        clock = self._budget.monotonic
        if self._deadline is not None and clock is not None and clock() > self._deadline:
            raise BudgetExceeded(self.states)
