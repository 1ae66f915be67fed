"""Limits of states and time for searches.

Kubernetes' allocator stops after ten seconds and reports a time-out. Here time is counted over all searches for one
pod, including the selectors that they evaluate: `Budget` is the limit, and `SearchAllowance` is a budget in use. A
search that is stopped has no result but a `Refusal` with the number of states that were visited.

The scheduler gives a search a short time slice on the event loop (`cathedra.offload`). If the search takes longer, it
is moved to a thread by `LongSearch`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from typing import Final

import msgspec

from cathedra.allocation.errors import Aborted, FatalError
from cathedra.deadline import Interruption

_LOOK_EVERY: Final = 8
"""States between two readings of the clock: a reading costs 0.1 µs, a state between 5 µs and 1 ms."""


class BudgetExceeded(Exception):
    """The search was stopped after ``states`` states."""

    def __init__(self, states: int) -> None:
        self.states = states
        super().__init__(f"stopped after {states} states")


class LongSearch(Exception):
    """A search whose time slice on the event loop is over. `search` repeats it as a whole and caches the result for the
    allocator."""

    def __init__(self, search: Callable[[Interruption], None], seconds: float) -> None:
        """``search`` may be called in any thread. ``seconds``: all that the pod's searches may take together."""
        self.search, self.seconds = search, seconds
        super().__init__("the search takes longer than a turn")


class Budget(msgspec.Struct, frozen=True):
    """Limits: states of each search, and seconds of ``monotonic``, if that is given, for all searches of one pod.

    ``until`` is a deadline that has begun already, for everything that is done with this budget. ``cancelled`` returns
    the reason why the caller wants to stop, or "".
    """

    states: int = 1_000_000
    seconds: float = 10.0
    monotonic: Callable[[], float] | None = None
    cancelled: Callable[[], str] | None = None
    until: Interruption | None = None

    @staticmethod
    def within(seconds: float, monotonic: Callable[[], float] = time.monotonic) -> Budget:
        """Return a budget whose seconds begin now, for any number of searches."""
        return Budget(seconds=seconds, until=Interruption(seconds, monotonic=monotonic))

    def begin(self) -> SearchAllowance:
        """Return the allowance whose seconds begin now, unless they have begun."""
        if self.until is not None:
            return SearchAllowance(self, self.until)
        if self.monotonic is None:
            return SearchAllowance(self)
        return SearchAllowance(self, Interruption(self.seconds, monotonic=self.monotonic))


UNLIMITED: Final = Budget(states=2**62, seconds=math.inf)


class SearchAllowance:
    """A budget in use, for all searches that are made for one pod."""

    __slots__ = ("_budget", "exhausted", "failures", "interrupted", "states")

    def __init__(self, budget: Budget, interrupted: Callable[[], bool] | None = None) -> None:
        """``interrupted`` returns True once time is up; it may also raise `cathedra.deadline.TimeSliceOver`."""
        self._budget = budget
        self.states = budget.states
        self.interrupted = interrupted
        self.exhausted = False
        """True when the time is over. Nodes whose search was stopped are not searched again."""
        self.failures: dict[Hashable, FatalError] = {}
        """Claims and node class → why that search failed, where it was made in a thread."""

    @property
    def seconds(self) -> float:
        """Seconds after which time is up."""
        return self._budget.seconds

    def with_states(self, states: int) -> SearchAllowance:
        """Return the same allowance of time for searches with fewer states."""
        twin = SearchAllowance(self._budget, self.interrupted)
        # Never more than before: nested searches share the limit of the pod.
        twin.states = min(self.states, states)
        twin.exhausted = self.exhausted
        return twin

    def in_thread(self, interrupted: Interruption) -> SearchAllowance:
        """Return the allowance of the same states for one search in a thread."""
        return SearchAllowance(self._budget, interrupted)

    def look(self, states: int = 0) -> bool:
        """Return False while there is time left. CEL calls this method as its ``interrupted``.

        Raises:
            BudgetExceeded: time is up; ``states`` is the number of visited states.
            Aborted: the caller cancelled.
        """
        cancelled = self._budget.cancelled
        # Checked before the time, so that a deleted pod is reported as such and not as a time-out.
        if cancelled is not None and (cause := cancelled()):
            raise Aborted(f"filter operation aborted: {cause}")
        if self.interrupted is not None and self.interrupted():
            # Stored: otherwise each further node would start a search that ends at its first state.
            self.exhausted = True
            raise BudgetExceeded(states)
        return False


class Meter:
    """Counts the states of one search."""

    __slots__ = ("_allowance", "_look_at", "states")

    def __init__(self, allowance: SearchAllowance) -> None:
        self._allowance = allowance
        self._look_at = 1
        self.states = 0

    def step(self) -> None:
        """Count one more state.

        Raises:
            BudgetExceeded: a limit is reached.
            Aborted: the caller cancelled.
        """
        self.states += 1
        if self.states < self._look_at:
            return
        if self.states > self._allowance.states:
            raise BudgetExceeded(self.states - 1)
        # The limit of states is exact; the clock is read at intervals.
        self._look_at = min(self.states + _LOOK_EVERY, self._allowance.states + 1)
        self._allowance.look(self.states)

    def look(self) -> bool:
        """Return False if there is time left: for work between two states.

        Raises:
            BudgetExceeded: time is up.
            Aborted: the caller cancelled.
        """
        return self._allowance.look(self.states)
