"""State of a search: what its placements have used up; and its stack.

A state is never changed: a placement makes a new one, so nothing is ever undone, and a state that failed can be cached.

The stack has one frame per decision that is still open. A pod may request more devices than Python's calls may nest,
and the recursion limit belongs to the whole process, so searches keep a stack of their own. A frame is advanced first
without a result, then with the result of the frame above it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from cathedra.allocation.checks.capacity import CapacityUsage
from cathedra.allocation.claims.problem import Problem
from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.search.counters import CounterState


class State(msgspec.Struct, frozen=True, eq=False):
    """Sets of devices are masks over their positions."""

    used: int
    """Dedicated devices taken in this call."""
    mine: int
    """Devices taken for the current claim, which bind admin requests."""
    placed: int
    """Number of devices of the current claim."""
    constraints: tuple[Any, ...]
    """State of each constraint of the current claim."""
    counters: CounterState | None
    """State of the counters, if the node has any."""
    shares: ShareState
    """State of the capacity of shareable devices."""

    def for_next_claim(self, constraints: int) -> State:
        """Return the state at the beginning of the next claim, which has ``constraints`` constraints."""
        return State(self.used, 0, 0, (None,) * constraints, self.counters, self.shares)


# --- capacity of shared devices


class ShareState(NamedTuple):
    """Capacity that shares have consumed.

    ``used`` has the devices of which this call took a share: nano-units in use by qualified capacity name, including
    what was in use before. ``shared`` are the shareable devices in use, by this call or before it.
    """

    used: dict[int, dict[str, int]]
    shared: int


class Shares:
    """The capacity of all devices of a node. A `Restriction` whose state is a `ShareState`."""

    __slots__ = ("_problem", "_shareable", "first")

    def __init__(self, problem: Problem, shareable: int, shared_before: int) -> None:
        self._problem = problem
        self._shareable = shareable
        self.first = ShareState({}, shared_before & shareable)

    def admitted(self, option: RequestOption, state: ShareState, left: int) -> int:
        """Return those of ``left`` whose capacity suffices for ``option`` beside what is in use."""
        if option.checks_capacity_last:
            return left
        for position, used in state.used.items():
            if left >> position & 1 and not self.fits(option, position, used):
                left &= ~(1 << position)
        return left

    def after(self, option: RequestOption, state: ShareState, position: int) -> ShareState:
        """Return the state after ``option`` took a share, if the device at ``position`` has shares."""
        bit = 1 << position
        if not self._shareable & bit:
            return state
        needed = self.usage(option, position)
        if not needed.names:
            return ShareState(state.used, state.shared | bit)
        used = dict(state.used.get(position) or self.used_before(position))
        for name, amount in zip(needed.full_names, needed.amounts, strict=True):
            used[name] = used.get(name, 0) + amount.nanos
        return ShareState({**state.used, position: used}, state.shared | bit)

    def suffices(self, option: RequestOption, state: ShareState, left: int, needed: int) -> bool:
        """Return True: each admitted device has room. `CapacityBound` decides if all requests have room together."""
        return True

    def fits(self, option: RequestOption, position: int, used: Mapping[str, int]) -> bool:
        """Return True if the device's capacity suffices for ``option`` beside what is ``used``."""
        return self.usage(option, position).fits(used)

    def usage(self, option: RequestOption, position: int) -> CapacityUsage:
        """Return the consumption of ``option`` on a device that passed the fixed tests."""
        needed = self._problem.usage(option, self._problem.devices[position])
        assert isinstance(needed, CapacityUsage)
        return needed

    def used_before(self, position: int) -> Mapping[str, int]:
        """Capacity in use by earlier allocations."""
        pool, place = self._problem.state_of(position)
        return pool.capacity.get(place, {})


# --- stack


class SearchResult(enum.Enum):
    """The result of a branch of a search."""

    FOUND = enum.auto()
    NOTHING = enum.auto()
    EXCEEDED = enum.auto()
    """The claim would get more than 32 devices. Other devices cannot help, only other sub-requests."""


class Frame(Protocol):
    """One open decision of the search."""

    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        """Continue: return the next frame, whose ``result`` is passed back, or the result of this one.

        ``result`` is None the first time. It is never FOUND, because that ends the whole search.
        """


def depth_first(first: Frame) -> SearchResult:
    """Run a search from its first frame, and return the result of that frame. The first FOUND ends the search: the
    choices of the open frames are the solution."""
    frames = [first]
    result: SearchResult | None = None
    while frames:
        step = frames[-1].advance(result)
        if step.__class__ is not SearchResult:
            frames.append(step)  # type: ignore[arg-type]  # a frame, as it is no result
            result = None
            continue
        if step is SearchResult.FOUND:
            return step
        result = step
        frames.pop()
    assert result is not None
    return result
