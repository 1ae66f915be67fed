"""Whether all shares that are still asked for could have room, however they were packed.

Packing shares into devices is hard, but that they are too many in sum is seen at once. What each request takes at least
is known before the search, and what there is in all devices together; only what this call has placed changes.
"""

from __future__ import annotations

from collections.abc import Callable

from cathedra.allocation.checks.capacity import CapacityUsage
from cathedra.allocation.claims.problem import RequestOnNode
from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.masks import positions
from cathedra.allocation.search.state import State

__all__ = ["CapacityBound"]

Amounts = dict[str, int]
"""Qualified capacity name → nano-units."""


class CapacityBound:
    """Sums of one search. ``is_hazardous`` tells at which requests looking ahead must end."""

    __slots__ = ("_candidates", "_demand", "_end", "_first", "_supply")

    def __init__(self, candidates: Candidates, is_hazardous: Callable[[int, int], bool]) -> None:
        self._candidates = candidates
        self._supply: Amounts = {}
        self._first: list[int] = []
        """Claim → number of its first request among all."""
        self._demand: list[Amounts] = [{}]
        """What all requests before this one take at least."""
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
        """Whether the requests from this one on, up to the next hazard, could have room in sum."""
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
        """What the request takes at least, whichever choice and devices it gets."""
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
