"""How well an allocation meets the wishes of prioritised lists (docs/spec/scheduling.md §7)."""

from __future__ import annotations

from cathedra.api.resource import AllocationResult, ResourceClaim

__all__ = ["preference"]

LONGEST_LIST = 8
"""A request may list so many alternatives; the first is worth so much."""


def preference(claim: ResourceClaim, allocation: AllocationResult | None) -> int:
    """8 for every list whose first alternative was taken, 7 for the second, and so on."""
    if allocation is None:
        return 0
    taken = {result.request for result in allocation.devices.results}
    worth = 0
    for request in claim.spec.devices.requests or ():
        for index, sub in enumerate(request.first_available):
            if f"{request.name}/{sub.name}" in taken:
                worth += LONGEST_LIST - index
                break
    return worth
