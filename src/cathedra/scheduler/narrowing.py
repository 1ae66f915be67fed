"""Narrowed claims: claims as the allocator gets them in a search that accepts fewer devices than the user does.

JointPlacement searches devices with a common value of an attribute, and devices that satisfy preferred constraints. The
allocator knows neither. A claim is therefore given further selectors and constraints for the search, and the devices
that are found also satisfy the claim as it is stored.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from cathedra.allocation import Budget, SearchAllowance
from cathedra.api.resource import (
    CELDeviceSelector,
    DeviceAttribute,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    ResourceClaim,
)
from cathedra.api.struct import replace
from cathedra.semantics.groupdomains import AttributeValue
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
        return _with_values(with_constraints(claim, mine), self.values)

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


def _with_values(claim: ResourceClaim, values: Sequence[AttributeValue]) -> ResourceClaim:
    if not values:
        return claim
    selectors = tuple([DeviceSelector(cel=CELDeviceSelector(expression=_expression(one))) for one in values])
    devices = claim.spec.devices
    requests = tuple([_selecting(request, selectors) for request in devices.requests or ()])
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, requests=requests)))


def _selecting(request: DeviceRequest, selectors: tuple[DeviceSelector, ...]) -> DeviceRequest:
    """Return the request with further selectors, unless it is for all devices: some of them would not be all."""
    exact = request.exactly
    if exact is not None and exact.allocation_mode != _ALL:
        exact = replace(exact, selectors=(*exact.selectors, *selectors))
    subs = tuple(
        [
            sub if sub.allocation_mode == _ALL else replace(sub, selectors=(*sub.selectors, *selectors))
            for sub in request.first_available
        ]
    )
    return replace(request, exactly=exact, first_available=subs)


def takes_all(claims: Iterable[ResourceClaim]) -> bool:
    """Return True if a request of the claims is for all devices of a node, to which no value can be given."""
    return any(
        one is not None and one.allocation_mode == _ALL
        for claim in claims
        for request in claim.spec.devices.requests or ()
        for one in (request.exactly, *request.first_available)
    )


def _expression(one: AttributeValue) -> str:
    """Return the selector of devices with a value, and of devices of drivers that do not publish the attribute."""
    domain, _, name = one.name.rpartition("/")
    attributes = f"device.attributes[{_literal(domain)}]"
    drivers = ", ".join(map(_literal, one.drivers))
    value = _value(one.value)
    has = f"{_literal(name)} in {attributes}"
    if one.lists:
        return f"!(device.driver in [{drivers}]) || ({has} && {attributes}[{_literal(name)}].includes({value}))"
    return f"!(device.driver in [{drivers}]) || ({has} && {attributes}[{_literal(name)}] == {value})"


def _value(value: DeviceAttribute) -> str:
    if value.version is not None:
        return f"semver({_literal(value.version)})"
    if value.string is not None:
        return _literal(value.string)
    if value.bool_ is not None:
        return "true" if value.bool_ else "false"
    return str(value.int_)


def _literal(text: str) -> str:
    """Return a string of CEL: escapes of JSON are escapes of CEL too."""
    return json.dumps(text, ensure_ascii=False)


_ALL: Final = "All"
