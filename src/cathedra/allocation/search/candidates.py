"""Who may be placed next: candidates of an option in a state, and the state after a placement.

All tests that nothing in the call can change are made before the search and stand in `Bases`; here is what placements
change: devices in use, constraints, counters, capacity.
"""

from __future__ import annotations

from cathedra.allocation.checks.capacity import CapacityUsage
from cathedra.allocation.claims.problem import Choice, DevicePlacement, Problem
from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.claims.tables import Bases
from cathedra.allocation.search.constraints import NodeConstraint
from cathedra.allocation.search.counters import Counters
from cathedra.allocation.search.state import State

__all__ = ["Candidates"]


class Candidates:
    """The devices of one node, as the claims of one pod may have them."""

    __slots__ = ("_bases", "_counters", "first", "problem", "rules", "shareable")

    def __init__(self, problem: Problem, bases: Bases) -> None:
        self.problem = problem
        self._bases = bases
        self.shareable = bases.shareable
        self.rules: list[list[NodeConstraint]] = [
            [NodeConstraint(one, problem, _options(problem, index), bases.masks) for one in plan.constraints]
            for index, plan in enumerate(problem.plans)
        ]
        self._counters = Counters(problem) if any(pool.counters for pool in problem.view.usable) else None
        counters = self._counters
        sharing = 0
        for pool, offset in zip(problem.states, problem.view.offsets, strict=True):
            sharing |= pool.shared << offset
        self.first = State(
            0,
            0,
            0,
            (None,) * len(self.rules[0]) if self.rules else (),
            counters.start if counters else None,
            counters.blocked_at_first & ~sharing if counters else 0,
            {},
            sharing & bases.shareable,
        )
        """The state before any placement."""

    def base(self, option: RequestOption) -> int:
        """The devices that pass all fixed tests for ``option`` and are not in use by others."""
        return self._bases.masks[option.number]

    def risky(self, option: RequestOption) -> int:
        """The devices on which a fixed test may fail with an error, when the search reaches them."""
        return self._bases.risky[option.number]

    def of(self, option: RequestOption, state: State) -> int:
        """The devices that can be placed for ``option``."""
        left = self.untied(option, state)
        for rule, value in zip(self.rules[option.claim], state.values, strict=True):
            if rule.concerns(option):
                left &= rule.admitted(option, value)
        return left

    def untied(self, option: RequestOption, state: State) -> int:
        """The same, but for constraints."""
        left = self._bases.masks[option.number] & ~state.blocked & ~(state.mine if option.admin else state.used)
        if not option.checks_capacity_last:
            for position, used in state.capacity.items():
                if left >> position & 1 and not self.fits(option, position, used):
                    left &= ~(1 << position)
        return left

    def hazards(self, option: RequestOption, state: State) -> int:
        """The devices on which the walk would fail, or might, if it reached them for ``option``."""
        danger = self._bases.risky[option.number] & ~(state.mine if option.admin else state.used)
        if not option.derived:
            return danger
        left = self.untied(option, state)
        for rule, value in zip(self.rules[option.claim], state.values, strict=True):
            if rule.concerns(option):
                danger |= left & rule.failing(option)
                left &= rule.admitted(option, value)
        return danger

    def fits(self, option: RequestOption, position: int, used: dict[str, int]) -> bool:
        """Whether the device's capacity serves ``option`` beside what is ``used``."""
        needed = self.problem.usage(option, self.problem.devices[position])
        assert isinstance(needed, CapacityUsage)
        return needed.fits(used)

    def used_before(self, position: int) -> dict[str, int]:
        """Capacity in use by earlier allocations."""
        pool, place = self.problem.state_of(position)
        return pool.capacity.get(place, {})

    def consumption(self, position: int) -> object:
        """What the device takes of counters, if it takes any."""
        if self._counters is None or not self.problem.devices[position].device.consumes_counters:
            return None
        return self._counters.consumption(position)

    def counters_suffice(self, state: State, left: int, needed: int) -> bool:
        """Whether the counters might serve ``needed`` devices of ``left``."""
        if self._counters is None:
            return True
        return self._counters.suffice(state.counters, left & ~state.sharing, left, needed)

    def place(self, choice: Choice, position: int, state: State) -> tuple[State, DevicePlacement]:
        """The state after the candidate at ``position`` is given to ``choice``."""
        option = choice.option
        bit = 1 << position
        rules = self.rules[option.claim]
        values = state.values
        if rules:
            values = tuple(
                [
                    rule.joined(option, value, position) if rule.concerns(option) else value
                    for rule, value in zip(rules, values, strict=True)
                ]
            )
        counters, blocked = state.counters, state.blocked
        if self._counters is not None and not state.sharing & bit:
            counters, blocked = self._counters.charged(counters, blocked, position)
            blocked &= ~state.sharing
        placed = state.placed + 1
        if not self.shareable & bit:
            after = State(
                state.used | bit, state.mine | bit, placed, values, counters, blocked, state.capacity, state.sharing
            )
            return after, DevicePlacement(choice, position, None)
        needed = self.problem.usage(option, self.problem.devices[position])
        assert isinstance(needed, CapacityUsage)
        capacity = state.capacity
        if needed.names:
            used = dict(capacity.get(position) or self.used_before(position))
            for name, amount in zip(needed.full_names, needed.amounts, strict=True):
                used[name] = used.get(name, 0) + amount.nanos
            capacity = {**capacity, position: used}
        after = State(state.used, state.mine, placed, values, counters, blocked & ~bit, capacity, state.sharing | bit)
        return after, DevicePlacement(choice, position, needed)


def _options(problem: Problem, claim: int) -> list[RequestOption]:
    return [choice.option for request in problem.requests[claim] for choice in request.choices]
