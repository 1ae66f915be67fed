"""The same answer without the walk: the lexicographically first assignment, found with masks, bounds and memory.

The walk of section 8 tries devices in order and learns nothing from a failure. This search makes the same choices in
the same order, but skips those that cannot lead anywhere (spec: allocation.md, 15.4):

* candidates are bit masks; a request with fewer candidates left than it needs fails at once, and so does every later
  one that this choice would starve (`Outlook`);
* of interchangeable devices only the first is tried, and requests that ask for the same are filled in ascending
  order (`Symmetry`);
* a state that failed is remembered; states are immutable, so nothing is ever undone;
* a matching decides whether the remaining requests can share the remaining devices at all.

The means beyond the first are taken up only after the first failure: most searches never fail, and those pay for
nothing.

Where a device lies in wait on which a selector, a capacity or a derived attribute fails, the walk ends in an error as
soon as it reaches that device. Here too: nothing is skipped that would have led there. A request that could meet such
a device either succeeds before it or fails with its error, so the bounds look no further than to that request.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.allocation.checks.capacity import Unusable
from cathedra.allocation.claims.problem import Choice, Placement, Problem, Solution
from cathedra.allocation.claims.requests import CLAIM_LIMIT, Option
from cathedra.allocation.claims.tables import Bases
from cathedra.allocation.errors import FatalError
from cathedra.allocation.search.budget import Meter
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.outlook import Outlook
from cathedra.allocation.search.state import State
from cathedra.allocation.search.symmetry import Symmetry

__all__ = ["FastSearch"]

_NO: Final = 0
_YES: Final = 1
_EXCEEDED: Final = 2
_PATIENCE: Final = 4
"""Devices are compared after so many have failed: that costs more than a few failures."""


class FastSearch:
    """One search over ``bases``: per option the devices that pass all fixed tests and are free."""

    def __init__(self, problem: Problem, bases: Bases, meter: Meter) -> None:
        self.problem = problem
        self.meter = meter
        self.requests = problem.requests
        self.full = (1 << len(problem.devices)) - 1
        self.candidates = Candidates(problem, bases)
        self.outlook = Outlook(self.candidates)
        self.symmetry = Symmetry(self.candidates)
        self.trail: list[Placement] = []
        self.chosen: list[list[int]] = [[0] * len(requests) for requests in problem.requests]
        self.has_failed = False
        self.failures = 0
        self.failed: set[Any] = set()

    def run(self) -> Solution | None:
        """The first solution, or None.

        Raises:
            FatalError: the walk would meet a failure before a solution.
            BudgetExceeded: even this takes too long.
        """
        if self._request(0, 0, self.candidates.first, self.full) != _YES:
            return None
        placements: list[list[Placement]] = [[] for _ in self.requests]
        for placement in self.trail:
            placements[placement.choice.option.claim].append(placement)
        return Solution(tuple(map(tuple, placements)), tuple(map(tuple, self.chosen)))

    # --- requests

    def _request(self, claim: int, request: int, state: State, within: int) -> int:
        """Satisfy everything from ``request`` on; its first devices must be ``within``."""
        self.meter.step()
        requests = self.requests
        if claim >= len(requests):
            return _YES
        if request >= len(requests[claim]):
            if claim + 1 == len(requests):
                return _YES
            state = state.for_next_claim(len(self.candidates.rules[claim + 1]))
            answer = self._request(claim + 1, 0, state, self.full)
            return _NO if answer == _EXCEEDED else answer
        key = None
        if self.has_failed:
            key = (claim, request, within, *self.symmetry.request_key(state))
            if key in self.failed or not self.outlook.can_continue(claim, request, state):
                return _NO
        current = requests[claim][request]
        answer = (
            self._alternatives(claim, request, state)
            if current.alternatives
            else self._choice(claim, request, 0, state, within)
        )
        if answer == _NO:
            self.has_failed = True
            self.failed.add(key or (claim, request, within, *self.symmetry.request_key(state)))
        return answer

    def _alternatives(self, claim: int, request: int, state: State) -> int:
        answer = _EXCEEDED
        for sub in range(len(self.requests[claim][request].choices)):
            found = self._choice(claim, request, sub, state, self.full)
            if found == _YES:
                self.chosen[claim][request] = sub
                return _YES
            if found == _NO:
                answer = _NO
        return answer

    def _choice(self, claim: int, request: int, sub: int, state: State, within: int) -> int:
        choice = self.requests[claim][request].choices[sub]
        if choice.devices is not None:
            return self._all(claim, request, choice, state)
        if choice.count <= 0:
            return self._request(claim, request + 1, state, self.full)
        if choice.count > CLAIM_LIMIT - state.placed:
            return _EXCEEDED
        return self._scan(claim, request, choice, choice.count, state, within)

    def _all(self, claim: int, request: int, choice: Choice, state: State) -> int:
        if not choice.devices:
            return _NO
        if choice.count > CLAIM_LIMIT - state.placed:
            return _EXCEEDED
        mark = len(self.trail)
        for position in choice.devices:
            if not self._may_have(choice.option, position, state):
                del self.trail[mark:]
                return _NO
            state, placement = self.candidates.place(choice, position, state)
            self.trail.append(placement)
        answer = self._request(claim, request + 1, state, self.full)
        if answer != _YES:
            del self.trail[mark:]
        return answer

    def _may_have(self, option: Option, position: int, state: State) -> bool:
        """Whether All gets one of its devices.

        Raises:
            FatalError: a constraint is against it, or cannot be judged.
        """
        candidates = self.candidates
        if not candidates.untied(option, state) >> position & 1:
            return False
        record = self.problem.devices[position]
        for rule, value in zip(candidates.rules[option.claim], state.values, strict=True):
            if not rule.concerns(option):
                continue
            if rule.failing(option) >> position & 1:
                self.problem.value(option, record, rule.constraint)
            if not rule.admitted(option, value) >> position & 1:
                raise FatalError(
                    f"{option.where}: cannot add device {record} because a claim constraint would not be satisfied"
                )
        if not option.checks_room_last or not candidates.shareable >> position & 1:
            return True
        return candidates.fits(option, position, state.capacity.get(position) or candidates.used_before(position))

    def _scan(self, claim: int, request: int, choice: Choice, needed: int, state: State, within: int) -> int:
        """Place ``needed`` more devices for ``choice``, in ascending order and ``within`` a mask."""
        option = choice.option
        candidates = self.candidates
        left = candidates.of(option, state) & within
        hazards = candidates.hazards(option, state) & within if self.outlook.is_hazardous(claim, request) else 0
        key = None
        if self.has_failed and needed != choice.count:
            key = (claim, request, option.sub, needed, left, hazards, *self.symmetry.scan_key(state))
            if key in self.failed:
                return _NO
        everything = left
        while left or hazards:
            if not hazards:
                if left.bit_count() < needed:
                    break
                if self.has_failed and not self.outlook.enough(option, left, needed, state):
                    break
            bit = (left | hazards) & -(left | hazards)
            position = bit.bit_length() - 1
            if hazards & bit:
                self._meet(option, position, state)
                hazards ^= bit
                continue
            left ^= bit
            self.meter.step()
            if needed == 1:
                answer = self._last(claim, request, choice, position, state, left | hazards)
            else:
                answer = self._more(claim, request, choice, needed, position, state, left, hazards)
            if answer != _NO:
                return answer
            self.has_failed = True
            self.failures += 1
            if self.failures > _PATIENCE:
                left &= ~self.symmetry.alike(option, position, state)
        if needed != choice.count:
            self.has_failed = True
            self.failed.add(key or (claim, request, option.sub, needed, everything, 0, *self.symmetry.scan_key(state)))
        return _NO

    def _last(self, claim: int, request: int, choice: Choice, position: int, state: State, rest: int) -> int:
        """Place the last device of a request, and go on; an equal request need not look before the ``rest``."""
        after, placement = self.candidates.place(choice, position, state)
        self.trail.append(placement)
        within = rest if self.symmetry.is_twin(claim, request) else self.full
        answer = self._request(claim, request + 1, after, within)
        if answer != _YES:
            self.trail.pop()
        return answer

    def _more(
        self,
        claim: int,
        request: int,
        choice: Choice,
        needed: int,
        position: int,
        state: State,
        left: int,
        hazards: int,
    ) -> int:
        """Place one of several devices; the others come from what is ``left`` behind it."""
        after, placement = self.candidates.place(choice, position, state)
        if self.has_failed and not hazards and not self.outlook.spares_others(claim, request, state, after):
            return _NO
        self.trail.append(placement)
        answer = self._scan(claim, request, choice, needed - 1, after, left | hazards)
        if answer != _YES:
            self.trail.pop()
        return answer

    def _meet(self, option: Option, position: int, state: State) -> None:
        """Test a device that may fail, as the walk does when it gets there.

        Raises:
            FatalError: it fails. Otherwise the device cannot be used.
        """
        if not self.problem.selectable(option, position):
            return
        record = self.problem.devices[position]
        if self.problem.features.consumable_capacity:
            needed = self.problem.usage(option, record)
            if isinstance(needed, Unusable) and needed.error:
                raise FatalError(needed.error)
        for rule, value in zip(self.candidates.rules[option.claim], state.values, strict=True):
            if not rule.concerns(option):
                continue
            if rule.failing(option) >> position & 1:
                self.problem.value(option, record, rule.constraint)
            if not rule.admitted(option, value) >> position & 1:
                return
