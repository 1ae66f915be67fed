"""The fast path of the search: the lexicographically first assignment, found with masks, bounds and memory.

The exhaustive search of section 8 tries devices in order and learns nothing from a failure. This search makes the same
choices in the same order, but skips those that cannot succeed (docs/spec/allocation.md §15.4).

* Candidates are bit masks. A request with fewer candidates left than it needs fails at once, and so does every later
  one that this choice would leave with too few (`Lookahead`).
* Of interchangeable devices only the first is tried, and equal requests are filled in ascending order (`Symmetry`).
* A state that failed is cached; states are immutable, so nothing is ever undone.
* A matching decides whether the remaining requests can share the remaining devices at all.

The means beyond the first are used only after the first failure, because most searches never fail and should not pay
for them.

If a selector, a capacity or a derived attribute fails on some device, the exhaustive search ends with an error as soon
as it reaches that device. The fast path gives the same error: nothing is skipped that would have led there. A request
that could meet such a device either succeeds before it or fails with its error, so the bounds end at that request.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.allocation.checks.capacity import Unusable
from cathedra.allocation.claims.problem import Choice, DevicePlacement, Problem, Solution
from cathedra.allocation.claims.requests import CLAIM_LIMIT, RequestOption
from cathedra.allocation.claims.tables import Bases
from cathedra.allocation.errors import FatalError
from cathedra.allocation.search.budget import Meter
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.lookahead import Lookahead
from cathedra.allocation.search.matching import mask_of, positions
from cathedra.allocation.search.state import Frame, SearchResult, State, depth_first
from cathedra.allocation.search.symmetry import Symmetry

_PATIENCE: Final = 4
"""Number of failures after which devices are compared, because the comparison costs more than a few failures."""
_LONG_PATIENCE: Final = 32
"""Number of failed devices after which components are searched apart."""


class FastSearch:
    """One search over ``bases``: per option the devices that pass all fixed tests and are free."""

    def __init__(self, problem: Problem, bases: Bases, meter: Meter) -> None:
        self.problem = problem
        self.meter = meter
        self.requests = problem.requests
        self.full = (1 << len(problem.devices)) - 1
        self.candidates = Candidates(problem, bases)
        self.lookahead = Lookahead(self.candidates, meter)
        self.symmetry = Symmetry(self.candidates)
        self.trail: list[DevicePlacement] = []
        self.chosen: list[list[int]] = [[0] * len(requests) for requests in problem.requests]
        # Until the first failure no keys, bounds or symmetries are computed. Most searches never fail, and their cost
        # would double.
        self.has_failed = False
        self.failures = 0
        self.failed: dict[Any, int] = {}
        """States that failed → components that caused it."""
        self.blame = -1
        """The components (`Lookahead.component`) that caused the latest failure. It would happen again with any other
        placements for requests of other components."""

    def run(self) -> Solution | None:
        """Return the first solution, or None if there is none.

        Raises:
            FatalError: the walk would meet a failure before a solution.
            BudgetExceeded: even this takes too long.
        """
        if depth_first(_Request(self, 0, 0, self.candidates.first, self.full)) is not SearchResult.FOUND:
            return None
        placements: list[list[DevicePlacement]] = [[] for _ in self.requests]
        for placement in self.trail:
            placements[placement.choice.option.claim].append(placement)
        return Solution(tuple(map(tuple, placements)), tuple(map(tuple, self.chosen)))

    def place(self, choice: Choice, position: int, state: State) -> State:
        """Place the device at ``position``, record the placement in the trail, and return the state after it."""
        after, placement = self.candidates.place(choice, position, state)
        self.trail.append(placement)
        return after

    def may_have(self, option: RequestOption, position: int, state: State) -> bool:
        """Return True if mode All may be given the device.

        Raises:
            FatalError: a constraint is against it, or cannot be judged.
        """
        candidates = self.candidates
        if not candidates.untied(option, state) >> position & 1:
            return False
        record = self.problem.devices[position]
        for rule, value in zip(candidates.rules[option.claim], state.constraints, strict=True):
            if not rule.concerns(option):
                continue
            if rule.failing(option) >> position & 1:
                self.problem.value(option, record, rule.constraint)
            if not rule.admitted(option, value, 1 << position):
                raise FatalError(
                    f"{option.where}: cannot add device {record} because a claim constraint would not be satisfied"
                )
        if not option.checks_capacity_last or not candidates.shareable >> position & 1:
            return True
        shares = candidates.shares
        return shares.fits(option, position, state.shares.used.get(position) or shares.used_before(position))

    def meet(self, option: RequestOption, position: int, state: State) -> None:
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
        for rule, value in zip(self.candidates.rules[option.claim], state.constraints, strict=True):
            if not rule.concerns(option):
                continue
            if rule.failing(option) >> position & 1:
                self.problem.value(option, record, rule.constraint)
            if not rule.admitted(option, value, 1 << position):
                return


class _Request:
    """Satisfy everything from a request on; its first devices must be ``within`` a mask."""

    __slots__ = ("claim", "key", "request", "search", "state", "within")

    def __init__(self, search: FastSearch, claim: int, request: int, state: State, within: int) -> None:
        self.search, self.claim, self.request, self.state, self.within = search, claim, request, state, within
        self.key: Any = None

    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        if result is None:
            return self._begin()
        if self.request >= len(self.search.requests[self.claim]):
            if result is SearchResult.EXCEEDED:
                self.search.blame = -1
            return SearchResult.NOTHING
        return self._end(result)

    def _begin(self) -> Frame | SearchResult:
        search, claim, request, state = self.search, self.claim, self.request, self.state
        search.meter.step()
        requests = search.requests
        if claim >= len(requests):
            return SearchResult.FOUND
        if request >= len(requests[claim]):
            if claim + 1 == len(requests):
                return SearchResult.FOUND
            # Constraints and the limit of 32 devices are per claim; devices and counters are per pod.
            state = state.for_next_claim(len(search.candidates.rules[claim + 1]))
            return _Request(search, claim + 1, 0, state, search.full)
        if search.has_failed:
            self.key = self._key()
            known = search.failed.get(self.key)
            if known is not None:
                search.blame = known
                return SearchResult.NOTHING
            if not search.lookahead.can_continue(claim, request, state):
                search.blame = self.components_from_here
                return SearchResult.NOTHING
        if requests[claim][request].alternatives:
            return _Alternatives(self)
        step = self.choose(0, self.within)
        return self._end(step) if isinstance(step, SearchResult) else step

    def choose(self, sub: int, within: int) -> Frame | SearchResult:
        """Satisfy the request with one of its choices, and everything behind it."""
        search, state = self.search, self.state
        choice = search.requests[self.claim][self.request].choices[sub]
        if choice.devices is not None and not choice.devices:
            search.blame = self.component
            return SearchResult.NOTHING
        if choice.devices is None and choice.count <= 0:
            return _Request(search, self.claim, self.request + 1, state, search.full)
        # Kubernetes tests the limit here, before any candidate, so a failing selector behind it is never met.
        if choice.count > CLAIM_LIMIT - state.placed:
            return SearchResult.EXCEEDED
        if choice.devices is not None:
            return _All(self, choice, choice.devices)
        return _Scan(self, choice, choice.count, state, within)

    @property
    def component(self) -> int:
        """The component of the request, as a bit. As long as few devices have failed, all count as one component."""
        if self.search.failures <= _LONG_PATIENCE:
            return -1
        return self.search.lookahead.component(self.claim, self.request)

    @property
    def components_from_here(self) -> int:
        """The components of the request and of all behind it."""
        if self.search.failures <= _LONG_PATIENCE:
            return -1
        return self.search.lookahead.components_from(self.claim, self.request)

    def _end(self, result: SearchResult) -> SearchResult:
        if result is SearchResult.NOTHING:
            self.search.has_failed = True
            self.search.failed[self.key or self._key()] = self.search.blame
        return result

    def _key(self) -> tuple[Any, ...]:
        return (self.claim, self.request, self.within, *self.search.symmetry.request_key(self.state))


class _Alternatives:
    """Satisfy a request with the first of its sub-requests with which everything behind it can be satisfied."""

    __slots__ = ("blame", "exceeded", "request", "sub")

    def __init__(self, request: _Request) -> None:
        self.request = request
        self.blame = 0
        self.sub = -1
        self.exceeded = True

    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        request, search = self.request, self.request.search
        if result is SearchResult.NOTHING:
            self.exceeded = False
            # Another alternative of this request would leave the failure as it is: the search jumps back over it.
            if not search.blame & request.component:
                return SearchResult.NOTHING
            self.blame |= search.blame
        for sub in range(self.sub + 1, len(search.requests[request.claim][request.request].choices)):
            search.chosen[request.claim][request.request] = self.sub = sub
            step = request.choose(sub, search.full)
            if not isinstance(step, SearchResult):
                return step
            if step is SearchResult.NOTHING:
                self.exceeded = False
        # All alternatives were too large. A caller must not try other devices, only other alternatives before.
        if self.exceeded:
            return SearchResult.EXCEEDED
        search.blame = self.blame | request.component
        return SearchResult.NOTHING


class _All:
    """Place all devices of a choice, which are known."""

    __slots__ = ("choice", "devices", "mark", "request")

    def __init__(self, request: _Request, choice: Choice, devices: tuple[int, ...]) -> None:
        self.request, self.choice, self.devices = request, choice, devices
        self.mark = len(request.search.trail)

    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        request, search = self.request, self.request.search
        if result is not None:
            del search.trail[self.mark :]
            return result
        state = request.state
        for position in self.devices:
            if not search.may_have(self.choice.option, position, state):
                del search.trail[self.mark :]
                search.blame = request.component
                return SearchResult.NOTHING
            state = search.place(self.choice, position, state)
        return _Request(search, request.claim, request.request + 1, state, search.full)


class _Scan:
    """Place ``needed`` more devices for a choice, in ascending order and ``within`` a mask."""

    __slots__ = (
        "blame",
        "choice",
        "everything",
        "hazards",
        "is_narrowed",
        "key",
        "left",
        "needed",
        "position",
        "request",
        "state",
    )

    def __init__(self, request: _Request, choice: Choice, needed: int, state: State, within: int) -> None:
        self.request, self.choice, self.needed, self.state = request, choice, needed, state
        candidates = request.search.candidates
        self.left = self.everything = candidates.of(choice.option, state) & within
        hazardous = request.search.lookahead.is_hazardous(request.claim, request.request)
        self.hazards = candidates.hazards(choice.option, state) & within if hazardous else 0
        self.key: Any = None
        self.position = -1
        self.is_narrowed = False
        self.blame = 0

    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        search = self.request.search
        if result is None:
            if search.has_failed and self.needed != self.choice.count:
                self.key = self._key(self.left, self.hazards)
                known = search.failed.get(self.key)
                if known is not None:
                    search.blame = known
                    return SearchResult.NOTHING
            return self._next()
        search.trail.pop()
        if result is SearchResult.EXCEEDED:
            return result
        if not search.blame & self.request.component:
            return result  # no other device here would change what failed
        self.blame |= search.blame
        self._failed()
        return self._next()

    def _next(self) -> Frame | SearchResult:
        search, option = self.request.search, self.choice.option
        while self.left or self.hazards:
            # Where a device may fail with an error, the walk must reach it even if no solution is left.
            if not self.hazards and self._is_hopeless():
                break
            if search.has_failed and not self.is_narrowed:
                self._narrow()
                continue
            bit = (self.left | self.hazards) & -(self.left | self.hazards)
            self.position = bit.bit_length() - 1
            # The walk of Kubernetes reaches this device now. If it fails there, the error is the result of the search.
            if self.hazards & bit:
                search.meet(option, self.position, self.state)
                self.hazards ^= bit
                continue
            self.left ^= bit
            search.meter.step()
            step = self._last() if self.needed == 1 else self._more()
            if step is not None:
                return step
            self._failed()
        search.blame = self.blame | self.request.component
        if self.needed != self.choice.count:
            search.has_failed = True
            search.failed[self.key or self._key(self.everything, 0)] = search.blame
        return SearchResult.NOTHING

    def _is_hopeless(self) -> bool:
        """Return True if the devices left cannot suffice."""
        if self.left.bit_count() < self.needed:
            return True
        search = self.request.search
        return search.has_failed and not search.lookahead.enough(self.choice.option, self.left, self.needed, self.state)

    def _last(self) -> Frame:
        """Place the last device, and go on; an equal request need not look before the rest."""
        request, search = self.request, self.request.search
        rest = self.left | self.hazards
        within = rest if search.symmetry.is_twin(request.claim, request.request) else search.full
        after = search.place(self.choice, self.position, self.state)
        return _Request(search, request.claim, request.request + 1, after, within)

    def _more(self) -> Frame | None:
        """Place one of several devices; the others come from the devices left behind it. None if too few are left for
        other requests."""
        request, search = self.request, self.request.search
        after = search.place(self.choice, self.position, self.state)
        if search.has_failed and not self.hazards:
            spared = search.lookahead.spares_others(request.claim, request.request, self.state, after)
            if not spared:
                search.trail.pop()
                self.blame |= request.components_from_here
                return None
        return _Scan(request, self.choice, self.needed - 1, after, self.left | self.hazards)

    def _failed(self) -> None:
        """Count a failure of the device at ``position``; after more than `_PATIENCE` failures, skip the devices like
        it."""
        search = self.request.search
        search.has_failed = True
        search.failures += 1
        if search.failures > _PATIENCE:
            self.left &= ~search.symmetry.alike(self.choice.option, self.position, self.state)

    def _narrow(self) -> None:
        """Skip the devices that no assignment can use; once, since the state of a scan does not change."""
        self.is_narrowed = True
        if not self.left or self.hazards:
            return
        request = self.request
        self.left = request.search.lookahead.narrow(self.choice, self.needed, self.left, self.state)
        if not self.left:
            self.blame |= request.components_from_here

    def _key(self, left: int, hazards: int) -> tuple[Any, ...]:
        request = self.request
        own = (request.claim, request.request, self.choice.option.sub, self.needed, left, hazards)
        return (*own, *request.search.symmetry.scan_key(self.state))


# --- greedy


def greedy(problem: Problem, bases: Bases) -> tuple[bool, Solution | None]:
    """Return True if the search is decided, and the solution if there is one."""
    if (
        any(bases.risky)
        or any(plan.constraints for plan in problem.plans)
        or problem.supply.has_counters
        or (bases.shareable and any(mask & bases.shareable for mask in bases.masks))
    ):
        return False, None
    used = 0
    placements = []
    chosen = []
    for requests in problem.requests:
        mine = 0
        placed: list[DevicePlacement] = []
        subs = []
        for request in requests:
            for sub, choice in enumerate(request.choices):
                taken = _first(choice, bases.masks[choice.option.number] & ~(mine if choice.option.admin else used))
                if taken >= 0 and len(placed) + choice.count <= CLAIM_LIMIT:
                    subs.append(sub)
                    used |= taken
                    mine |= taken
                    placed.extend([DevicePlacement(choice, position, None) for position in positions(taken)])
                    break
            else:
                # Before the first placement there is nothing that could be changed.
                return not used, None
        placements.append(tuple(placed))
        chosen.append(tuple(subs))
    return True, Solution(tuple(placements), tuple(chosen))


def _first(choice: Choice, left: int) -> int:
    """Return the devices to be taken of those that are left; -1 if there are not enough."""
    if choice.devices is not None:
        wanted = mask_of(choice.devices)
        return wanted if wanted and not wanted & ~left else -1
    if left.bit_count() < choice.count:
        return -1
    taken = 0
    for _ in range(choice.count):
        taken |= left & -left
        left &= left - 1
    return taken
