"""Bounds that a state must keep if the open requests are to be satisfied.

Each bound is necessary, none is sufficient: a state that breaks one fails, whatever the search would do. Bounds end at
the first request in which the search could meet an error, because whether it gets there must not depend on later
requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cathedra.allocation.checks.capacity import CapacityUsage
from cathedra.allocation.claims.problem import Choice, RequestOnNode
from cathedra.allocation.claims.requests import CLAIM_LIMIT, RequestOption
from cathedra.allocation.search.budget import Meter
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.consistency import Consistency
from cathedra.allocation.search.matching import bits, mask_of, matchable, positions
from cathedra.allocation.search.state import State


class Lookahead:
    """Consistency checks of one search, ahead of the requests that it has reached."""

    __slots__ = (
        "_candidates",
        "_capacity_bound",
        "_closed",
        "_components",
        "_consistency",
        "_ends",
        "_hazardous",
        "_meter",
        "_places",
        "_requests",
    )

    def __init__(self, candidates: Candidates, meter: Meter) -> None:
        self._candidates = candidates
        self._meter = meter
        self._requests = candidates.problem.requests
        self._hazardous: dict[tuple[int, int], bool] = {}
        self._closed: dict[int, bool] = {}
        self._capacity_bound: CapacityBound | None = None
        self._consistency: Consistency | None = None
        self._components: list[tuple[int, int]] = []
        self._ends: dict[int, int] = {}
        self._places = [(claim, number) for claim, of in enumerate(self._requests) for number in range(len(of))]
        """Claim and number within it of each request, counted over all claims."""

    def is_hazardous(self, claim: int, request: int) -> bool:
        """Return True if the search may find an error in that request."""
        known = self._hazardous.get((claim, request))
        if known is None:
            known = any(self._may_fail(choice) for choice in self._requests[claim][request].choices)
            self._hazardous[claim, request] = known
        return known

    def can_continue(self, claim: int, request: int, state: State) -> bool:
        """Return True if enough candidates are left for each open request alone, and for all of them together."""
        shareable = self._candidates.shareable
        if shareable and not any(map(self._is_closed, range(claim, len(self._requests)))):
            if self._capacity_bound is None:
                self._capacity_bound = CapacityBound(self._candidates, self.is_hazardous)
            if not self._capacity_bound.suffices(claim, request, state):
                return False
        units: list[int] = []
        for index in range(claim, len(self._requests)):
            if index != claim:
                state = state.for_next_claim(len(self._candidates.rules[index]))
            if self._is_closed(index):
                break
            begin = request if index == claim else 0
            for number in range(begin, len(self._requests[index])):
                # The search may end here with an error, and whether it gets here must not depend on later requests. So
                # only what comes before is bounded.
                if self.is_hazardous(index, number):
                    first = self._before_trouble(index, number)
                    option = self._requests[index][number].choices[0].option
                    if first & ~self._candidates.untied(option, state):
                        return False
                    return matchable(units if option.admin else [*units, *bits(first & ~shareable)])
                reach, count = self._reach(self._requests[index][number], state)
                if count < 0:
                    return False
                if reach is not None:
                    free = (reach & shareable).bit_count()
                    # A shareable device may serve several requests, so it takes no part in the matching.
                    units.extend([reach & ~shareable] * (count - free))
        return matchable(units)

    def narrow(self, choice: Choice, needed: int, left: int, state: State) -> int:
        """Return the devices of ``left`` that constraints may let be the next for ``choice``, which needs ``needed``.

        If the requests still open cannot be satisfied together with any of them, return 0.

        Raises:
            BudgetExceeded: the search takes too long.
        """
        if len(self._places) == 1 or not any(self._candidates.rules):
            # `suffice` judges a single request.
            return left
        if self._consistency is None:
            self._consistency = Consistency(self._candidates, self._end_of, self._meter)
        return self._consistency.narrow(choice, needed, left, state)

    def component(self, claim: int, request: int) -> int:
        """Return the component of a request as a bit. Requests of different components share neither devices nor
        constraints nor counters, so a placement for one does not affect the other.

        If components cannot be separated, each request is in all.
        """
        return self._component(claim, request)[0]

    def components_from(self, claim: int, request: int) -> int:
        """Return the components of this request and of all later ones, as a mask."""
        return self._component(claim, request)[1]

    def _component(self, claim: int, request: int) -> tuple[int, int]:
        if len(self._places) == 1:
            return -1, -1
        if not self._components:
            self._components = self._split()
        first = self._places.index((claim, request)) if claim else request
        return self._components[first]

    def _split(self) -> list[tuple[int, int]]:
        """For each request, counted over all claims, its component and the components from there on.

        Components may not be separated where an error could end the search, nor where the devices of one decide
        whether a claim has room for those of another.
        """
        apart = not any(
            self.is_hazardous(claim, number) or self._largest(claim) > CLAIM_LIMIT for claim, number in self._places
        )
        if not apart:
            return [(-1, -1)] * len(self._places)
        parts: list[tuple[int, set[tuple[int, int]], list[int]]] = []
        for first, (claim, number) in enumerate(self._places):
            reach, rules, members = *self._touched(claim, number), [first]
            # Parts with a common device or constraint are joined, as in a union-find over few members.
            for part in [part for part in parts if part[0] & reach or part[1] & rules]:
                parts.remove(part)
                reach, rules, members = reach | part[0], rules | part[1], members + part[2]
            parts.append((reach, rules, members))
        own = [0] * len(self._places)
        for number, (_, _, members) in enumerate(parts):
            for first in members:
                own[first] = 1 << number
        rest = 0
        found = []
        for component in reversed(own):
            rest |= component
            found.append((component, rest))
        return found[::-1]

    def _touched(self, claim: int, request: int) -> tuple[int, set[tuple[int, int]]]:
        """Return the devices that can be given to a request, and its constraints as claim and position."""
        candidates = self._candidates
        reach = 0
        rules = set()
        for choice in self._requests[claim][request].choices:
            reach |= candidates.base(choice.option) | mask_of(choice.devices or ())
            rules.update([(claim, place) for place, _ in candidates.concerning(choice.option)])
        # Devices with counters of one pool affect each other without being the same.
        return reach if candidates.counters is None else candidates.counters.entangled(reach), rules

    def _largest(self, claim: int) -> int:
        """Return the largest number of devices that the claim can get, whichever choices are taken."""
        return sum([max([one.count for one in request.choices], default=0) for request in self._requests[claim]])

    def _end_of(self, first: int) -> int:
        """Return the first request from ``first`` on that cannot be judged beforehand, or the number of all requests.
        Requests are counted over all claims."""
        known = self._ends.get(first)
        if known is None:
            known = len(self._places)
            for number in range(first, len(self._places)):
                claim, request = self._places[number]
                if self._is_closed(claim) or self.is_hazardous(claim, request):
                    known = number
                    break
            self._ends[first] = known
        return known

    def spares_others(self, claim: int, request: int, before: State, after: State) -> bool:
        """Return True if a placement that blocked devices or values leaves enough for each later request of the
        claim."""
        # Fast path: the placement has blocked nothing beside its own device, so later requests are as they were.
        if (_blocked(before) == _blocked(after) and before.constraints == after.constraints) or self._is_closed(claim):
            return True
        for number in range(request + 1, len(self._requests[claim])):
            if self.is_hazardous(claim, number):
                return True
            if self._reach(self._requests[claim][number], after)[1] < 0:
                return False
        return True

    def enough(self, option: RequestOption, left: int, needed: int, state: State) -> bool:
        """Return True if constraints and counters may allow ``needed`` devices of ``left`` together."""
        return self._candidates.suffice(option, state, left, needed)

    def _is_closed(self, claim: int) -> bool:
        """Return True if the requests of that claim cannot be bounded: there the search may backtrack because the claim
        would grow too large, and so skip an error that it would have met otherwise."""
        known = self._closed.get(claim)
        if known is None:
            known = self._closed[claim] = self._largest(claim) > CLAIM_LIMIT and any(
                self.is_hazardous(index, number)
                for index, requests in enumerate(self._requests)
                for number in range(len(requests))
            )
        return known

    def _may_fail(self, choice: Choice) -> bool:
        option = choice.option
        rules = [rule for rule in self._candidates.rules[option.claim] if rule.concerns(option)]
        if choice.devices is not None:
            return bool(choice.devices and rules) and self._harmless(choice) < len(choice.devices)
        return bool(self._candidates.risky(option)) or any(rule.failing(option) for rule in rules)

    def _harmless(self, choice: Choice) -> int:
        """Return the number of devices of mode All that the constraints certainly admit."""
        option = choice.option
        rules = [rule for rule in self._candidates.rules[option.claim] if rule.concerns(option)]
        others = [
            other.option
            for request in self._requests[option.claim]
            for other in request.choices
            if other.option.request != option.request
        ]
        # Values that other requests place are not known here, so no device is certain.
        if any(rule.concerns(other) for rule in rules for other in others):
            return 0
        values: list[Any] = [None] * len(rules)
        for count, position in enumerate(choice.devices or ()):
            if not self._candidates.base(option) >> position & 1:
                # Here it ends quietly.
                return choice.count
            for index, rule in enumerate(rules):
                if not rule.admitted(option, values[index], 1 << position):
                    return count
                values[index] = rule.after(option, values[index], position)
        return choice.count

    def _before_trouble(self, claim: int, request: int) -> int:
        """Return the devices of mode All before the first one on which a constraint may fail with an error. If one of
        them cannot be had, the request fails without an error."""
        current = self._requests[claim][request]
        choice = current.choices[0]
        if current.alternatives or choice.devices is None:
            return 0
        return mask_of(choice.devices[: self._harmless(choice)])

    def _reach(self, request: RequestOnNode, state: State) -> tuple[int | None, int]:
        """Union of candidates and the smallest count; -1 if no choice has enough, None if it does not compete."""
        union = 0
        smallest = -1
        competes = True
        for choice in request.choices:
            left = self._candidates.of(choice.option, state)
            if choice.devices is not None:
                wanted = mask_of(choice.devices)
                # Mode All needs each of its devices.
                if not wanted or wanted & ~left:
                    continue
                left = wanted
            elif left.bit_count() < choice.count or not self.enough(choice.option, left, choice.count, state):
                continue
            union |= left
            # The bound must hold for any choice, so it counts the smallest and the union of all candidates.
            smallest = choice.count if smallest < 0 else min(smallest, choice.count)
            # Admin access leaves devices to other claims.
            competes = competes and not choice.option.admin
        return (union if competes else None), smallest


def _blocked(state: State) -> int:
    return 0 if state.counters is None else state.counters.blocked


# --- capacity


Amounts = dict[str, int]
"""Qualified capacity name → nano-units."""


class CapacityBound:
    """Sums of the capacity that the requests of one search need. ``is_hazardous`` returns the requests at which bounds
    end."""

    __slots__ = ("_candidates", "_demand", "_end", "_first", "_supply")

    def __init__(self, candidates: Candidates, is_hazardous: Callable[[int, int], bool]) -> None:
        self._candidates = candidates
        self._supply: Amounts = {}
        self._first: list[int] = []
        """Claim → number of its first request among all."""
        self._demand: list[Amounts] = [{}]
        """Least amounts of all requests before this one."""
        stops = []
        counted = 0
        for claim, requests in enumerate(candidates.problem.requests):
            self._first.append(len(self._demand) - 1)
            for number, request in enumerate(requests):
                total = dict(self._demand[-1])
                for name, amount in self._least(request).items():
                    total[name] = total.get(name, 0) + amount
                stops.append(is_hazardous(claim, number))
                self._demand.append(total)
                for choice in request.choices:
                    fresh = candidates.base(choice.option) & candidates.shareable & ~counted
                    counted |= fresh
                    self._supplied(choice.option, fresh)
        self._end = [len(stops)] * (len(stops) + 1)
        for number in range(len(stops) - 1, -1, -1):
            self._end[number] = number if stops[number] else self._end[number + 1]

    def suffices(self, claim: int, request: int, state: State) -> bool:
        """Return True if the requests from this one up to the next hazard can fit in sum."""
        number = self._first[claim] + request
        before, after = self._demand[number], self._demand[self._end[number]]
        for name, total in after.items():
            wanted = total - before.get(name, 0)
            if wanted and wanted > self._supply.get(name, 0) - self._placed(name, state):
                return False
        return True

    def _placed(self, name: str, state: State) -> int:
        return sum(
            used.get(name, 0) - self._candidates.shares.used_before(position).get(name, 0)
            for position, used in state.shares.used.items()
        )

    def _least(self, request: RequestOnNode) -> Amounts:
        """Return the least amounts of the request over its choices and devices."""
        least: Amounts | None = None
        for choice in request.choices:
            taken = {name: amount * choice.count for name, amount in self._least_of(choice.option).items()}
            least = taken if least is None else _smaller(least, taken)
        return least or {}

    def _least_of(self, option: RequestOption) -> Amounts:
        base = self._candidates.base(option)
        if base & ~self._candidates.shareable:
            return {}
        least: Amounts | None = None
        for position in positions(base):
            needed = self._usage(option, position)
            taken = dict(zip(needed.full_names, [amount.nanos for amount in needed.amounts], strict=True))
            least = taken if least is None else _smaller(least, taken)
        return least or {}

    def _supplied(self, option: RequestOption, mask: int) -> None:
        for position in positions(mask):
            needed = self._usage(option, position)
            used = self._candidates.shares.used_before(position)
            for name, limit in zip(needed.full_names, needed.limits, strict=True):
                self._supply[name] = self._supply.get(name, 0) + max(0, limit - used.get(name, 0))

    def _usage(self, option: RequestOption, position: int) -> CapacityUsage:
        return self._candidates.shares.usage(option, position)


def _smaller(one: Amounts, other: Amounts) -> Amounts:
    return {name: min(amount, other[name]) for name, amount in one.items() if name in other}
