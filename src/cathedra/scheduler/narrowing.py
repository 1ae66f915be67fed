"""Narrowed claims: claims as the allocator gets them in a search that accepts fewer devices than the user does.

JointPlacement searches devices with a common value of an attribute, and devices that satisfy preferred constraints. The
allocator knows neither. A claim is therefore given further selectors and constraints for the search, and the devices
that are found also satisfy the claim as it is stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from cathedra.allocation import Budget, SearchAllowance
from cathedra.api.resource import DeviceConstraint, ResourceClaim
from cathedra.semantics.groupdomains import AttributeValue, with_values
from cathedra.semantics.preferredconstraints import preferences_of, with_constraints

_STATES: Final = 10_000
"""Largest number of states of one search with preferred constraints."""
_LOOKS: Final = 5_000
"""Largest number of readings of the budget in all such searches for one pod; a search reads it every few states."""

Wish = tuple[str, DeviceConstraint]
"""UID of a claim, and one of its preferred constraints."""
R = TypeVar("R")


class Narrowing(msgspec.Struct, frozen=True):
    """Demands of a search beyond those of the claims."""

    values: tuple[AttributeValue, ...] = ()
    """Values that the devices must have in common with those of other pods."""
    wishes: tuple[Wish, ...] = ()
    """Preferred constraints that this search treats as required."""
    allowance: SearchAllowance | None = None
    """Allowance of searches with ``wishes``. It is not the attempt's: a preference must not use up the time in which
    the claim is allocated without it."""

    def claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim as it is searched."""
        mine = [constraint for uid, constraint in self.wishes if uid == claim.metadata.uid]
        return with_values(with_constraints(claim, mine), self.values)

    def required(self) -> Narrowing:
        """Return the demands that are not preferences."""
        return Narrowing(self.values)


def wishes_of(claims: Iterable[ResourceClaim]) -> tuple[Wish, ...]:
    """Return the preferred constraints of the claims that have no devices yet."""
    return tuple(
        (claim.metadata.uid, constraint)
        for claim in claims
        if claim.status.allocation is None
        for constraint in preferences_of(claim).constraints
    )


def preference_allowance() -> SearchAllowance:
    """Return the allowance of all searches with preferred constraints for one pod."""
    left = _LOOKS

    def interrupted() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return SearchAllowance(Budget(states=_STATES), interrupted)


async def with_most_wishes(
    wishes: Sequence[Wish],
    search: Callable[[tuple[Wish, ...], SearchAllowance], Awaitable[R]],
    found: Callable[[R], bool],
) -> R | None:
    """Return the result of the search with all ``wishes``; without one, of that with the most important ones that can
    be had together; None if none can be had."""
    if not wishes:
        return None
    allowance = preference_allowance()
    best = await search(tuple(wishes), allowance)
    if found(best):
        return best
    kept: tuple[Wish, ...] = ()
    result: R | None = None
    for wish in wishes if len(wishes) > 1 else ():
        tried = (*kept, wish)
        # All of them together have failed already.
        if len(tried) == len(wishes):
            break
        one = await search(tried, allowance)
        if found(one):
            kept, result = tried, one
    return result
