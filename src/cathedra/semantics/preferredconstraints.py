"""Preferred constraints of a claim: rules for its devices that hold if possible, and never prevent its allocation.

The API has required constraints only. An annotation of the claim, which Kubernetes ignores, has a JSON list of further
ones, in the form of ``spec.devices.constraints``. The scheduler's plugin JointPlacement acts on them. A template passes
the annotation on from ``spec.metadata``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from cathedra.api.resource import (
    AllocationResult,
    DeviceAttribute,
    DeviceConstraint,
    ResourceClaim,
)
from cathedra.api.struct import replace
from cathedra.remembering import IDENTITY, remembered
from cathedra.semantics.groupdomains import FindDevice, attribute_of, single_values

PREFERRED: Final = "scheduling.cathedra.dev/preferred-constraints"
"""The annotation of a claim."""
MOST: Final = 8
"""Largest number of preferred constraints of a claim: the search tries each of them."""


class _PreferredConstraint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An entry of the annotation."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class Preferences(msgspec.Struct, frozen=True):
    """The preferred constraints of a claim, the most important first."""

    constraints: tuple[DeviceConstraint, ...] = ()
    problem: str = ""
    """The reason why the annotation cannot be used; "" if it can, or if there is none."""


_NONE: Final = Preferences()


def preferences_of(claim: ResourceClaim) -> Preferences:
    """Return the preferred constraints of ``claim``. An annotation that cannot be used counts as none."""
    # Fast path: nearly no claim has the annotation, and the scheduler reads this for every pod.
    if PREFERRED not in claim.metadata.annotations:
        return _NONE
    return _read(claim)


@remembered("preferred constraints of claims", key=IDENTITY, size=4096)
def _read(claim: ResourceClaim) -> Preferences:
    try:
        entries = msgspec.json.decode(claim.metadata.annotations[PREFERRED], type=list[_PreferredConstraint])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        return Preferences(problem=f"{PREFERRED} is not a JSON list of constraints: {problem}")
    if len(entries) > MOST:
        return Preferences(problem=f"{PREFERRED} has {len(entries)} constraints, and may have {MOST}")
    names = set(_names(claim))
    for place, entry in enumerate(entries):
        where = f"{PREFERRED}[{place}]"
        if bool(entry.match_attribute) is bool(entry.distinct_attribute):
            return Preferences(problem=f"{where} must have one of matchAttribute and distinctAttribute")
        name = entry.match_attribute or entry.distinct_attribute
        if not all(name.partition("/")[::2]):
            return Preferences(problem=f"{where}: {name!r} must be a qualified name, as gpu.example.com/numa")
        unknown = [request for request in entry.requests if request not in names]
        if unknown:
            return Preferences(problem=f"{where}: the claim has no request {unknown[0]!r}")
    return Preferences(
        tuple(
            DeviceConstraint(
                requests=entry.requests,
                match_attribute=entry.match_attribute or None,
                distinct_attribute=entry.distinct_attribute or None,
            )
            for entry in entries
        )
    )


def _names(claim: ResourceClaim) -> Iterator[str]:
    for request in claim.spec.devices.requests or ():
        yield request.name
        yield from (f"{request.name}/{sub.name}" for sub in request.first_available)


def with_constraints(claim: ResourceClaim, more: Sequence[DeviceConstraint]) -> ResourceClaim:
    """Return the claim with ``more`` constraints, as it is given to the allocator."""
    if not more:
        return claim
    devices = claim.spec.devices
    constraints = (*(devices.constraints or ()), *more)
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, constraints=constraints)))


def constraint_text(constraint: DeviceConstraint) -> str:
    """Return a constraint in words, as «the same gpu.example.com/numa for gpu and nic»."""
    name = constraint.match_attribute or constraint.distinct_attribute
    kind = "the same" if constraint.match_attribute is not None else "different"
    return f"{kind} {name}" + (f" for {' and '.join(constraint.requests)}" if constraint.requests else "")


def holds(constraint: DeviceConstraint, allocation: AllocationResult, device_of: FindDevice) -> bool:
    """Return True if the allocated devices satisfy a constraint, as the allocator would decide it."""
    concerned = [one for one in allocation.devices.results if _concerns(constraint, one.request)]
    name = constraint.match_attribute or constraint.distinct_attribute or ""
    found: list[frozenset[DeviceAttribute]] = []
    for result in concerned:
        device = device_of(result)
        attribute = attribute_of(device, result.driver, name) if device is not None else None
        if attribute is None:
            return False
        found.append(frozenset(single_values(attribute)))
    if constraint.match_attribute is not None:
        return not found or bool(frozenset.intersection(*found))
    return sum(map(len, found)) == len(frozenset[DeviceAttribute]().union(*found))


def _concerns(constraint: DeviceConstraint, request: str) -> bool:
    return not constraint.requests or request in constraint.requests or request.partition("/")[0] in constraint.requests
