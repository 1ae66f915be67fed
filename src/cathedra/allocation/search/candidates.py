"""Candidates: the devices that an option can be given in a state, and the state after a placement.

All tests that no placement can change are made before the search and stored in `Bases`. Here are those that placements
change: devices in use, and restrictions.

What placements consume has one protocol, `Restriction`: constraints, counters and capacity. The state of a restriction
is immutable, and a placement returns a new one. Nothing has to be undone when the search backtracks, and a state that
failed can be cached.
"""

from __future__ import annotations

from typing import Any, Protocol

from cathedra.allocation.claims.problem import Choice, DevicePlacement, Problem
from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.claims.tables import Bases
from cathedra.allocation.search.constraints import NodeConstraint, Spreads
from cathedra.allocation.search.counters import Counters
from cathedra.allocation.search.state import Shares, State


class Candidates:
    """The devices of one node, as the claims of one pod may have them."""

    __slots__ = ("_bases", "_concerning", "counters", "first", "problem", "rules", "shareable", "shares")

    def __init__(self, problem: Problem, bases: Bases) -> None:
        self.problem = problem
        self._bases = bases
        self.shareable = bases.shareable
        spreads = Spreads(problem)
        self.rules: list[list[NodeConstraint]] = [
            [NodeConstraint(one, problem, _options(problem, index), bases.masks, spreads) for one in plan.constraints]
            for index, plan in enumerate(problem.plans)
        ]
        self._concerning: dict[int, tuple[tuple[int, NodeConstraint], ...]] = {}
        self.counters = Counters(problem, self.shareable, bases.shared) if problem.supply.has_counters else None
        self.shares = Shares(problem, self.shareable, bases.shared)
        self.first = State(
            0,
            0,
            0,
            tuple([rule.first for rule in self.rules[0]]) if self.rules else (),
            self.counters.first if self.counters is not None else None,
            self.shares.first,
        )
        """The state before any placement."""

    def base(self, option: RequestOption) -> int:
        """Return the devices that pass all fixed tests for ``option`` and are not in use by others."""
        return self._bases.masks[option.number]

    def risky(self, option: RequestOption) -> int:
        """Return the devices on which a fixed test may fail with an error when the search reaches them."""
        return self._bases.risky[option.number]

    def concerning(self, option: RequestOption) -> tuple[tuple[int, NodeConstraint], ...]:
        """Return the constraints to which ``option`` is subject, each with its place among the constraints of the
        claim.

        A claim may have a constraint for each pair of its requests, so that few of many concern one request.
        """
        # Computed on demand: most options of a claim are never reached.
        known = self._concerning.get(option.number)
        if known is None:
            rules = enumerate(self.rules[option.claim])
            known = self._concerning[option.number] = tuple([one for one in rules if one[1].concerns(option)])
        return known

    def of(self, option: RequestOption, state: State) -> int:
        """Return the devices that can be placed for ``option``."""
        left = self.untied(option, state)
        for place, rule in self.concerning(option):
            left = rule.admitted(option, state.constraints[place], left)
        return left

    def untied(self, option: RequestOption, state: State) -> int:
        """Return the devices that could be placed for ``option`` if there were no constraints."""
        # Admin access may use devices that others hold, but no device twice within the pod.
        left = self._bases.masks[option.number] & ~(state.mine if option.admin else state.used)
        if self.counters is not None and state.counters is not None:
            left = self.counters.admitted(option, state.counters, left)
        return self.shares.admitted(option, state.shares, left)

    def hazards(self, option: RequestOption, state: State) -> int:
        """Return the devices on which the walk would or might fail with an error if it reached them for ``option``."""
        danger = self._bases.risky[option.number] & ~(state.mine if option.admin else state.used)
        if not option.derived:
            return danger
        left = self.untied(option, state)
        for place, rule in self.concerning(option):
            danger |= left & rule.failing(option)
            left = rule.admitted(option, state.constraints[place], left)
        return danger

    def consumption(self, position: int) -> object:
        """Return the counters that the device consumes, if any."""
        if self.counters is None or not self.problem.devices[position].device.consumes_counters:
            return None
        return self.counters.consumption(position)

    def suffice(self, option: RequestOption, state: State, left: int, needed: int) -> bool:
        """Return False if the restrictions cannot allow ``needed`` devices of ``left`` together; True may be wrong."""
        for place, rule in self.concerning(option):
            if not rule.suffices(option, state.constraints[place], left, needed):
                return False
        if self.counters is None or state.counters is None:
            return True
        return self.counters.suffices(option, state.counters, left, needed)

    def place(self, choice: Choice, position: int, state: State) -> tuple[State, DevicePlacement]:
        """Return the state after the candidate at ``position`` is given to ``choice``, and the placement."""
        option = choice.option
        constraints, counters = state.constraints, state.counters
        concerning = self.concerning(option)
        if concerning:
            # A copy: the former state is still needed when the search backtracks to it.
            changed = list(constraints)
            for place, rule in concerning:
                changed[place] = rule.after(option, changed[place], position)
            constraints = tuple(changed)
        if self.counters is not None and counters is not None:
            counters = self.counters.after(option, counters, position)
        shares = self.shares.after(option, state.shares, position)
        placed = state.placed + 1
        bit = 1 << position
        # A device that may be shared stays available. What is left of its capacity is tested by `shares`.
        if self.shareable & bit:
            after = State(state.used, state.mine, placed, constraints, counters, shares)
            return after, DevicePlacement(choice, position, self.shares.usage(option, position))
        after = State(state.used | bit, state.mine | bit, placed, constraints, counters, shares)
        return after, DevicePlacement(choice, position, None)


def _options(problem: Problem, claim: int) -> list[RequestOption]:
    return [choice.option for request in problem.requests[claim] for choice in request.choices]


class Restriction(Protocol):
    """Limits which devices may still be placed, given those that are.

    A device is given by its position among the devices of the node, sets of devices are masks over positions. States
    are opaque to all but their restriction.
    """

    @property
    def first(self) -> Any:
        """The state before any placement."""

    def admitted(self, option: RequestOption, state: Any, left: int) -> int:
        """Return those devices of ``left`` that can still be placed for ``option``."""

    def after(self, option: RequestOption, state: Any, position: int) -> Any:
        """Return the state after the device at ``position``, which must be admitted, is placed for ``option``."""

    def suffices(self, option: RequestOption, state: Any, left: int, needed: int) -> bool:
        """Return False if ``needed`` of the admitted devices ``left`` cannot be placed together; True may be wrong."""
