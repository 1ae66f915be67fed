"""The greedy first attempt: take for each request the first devices that it may have, and look no further.

If that works it is the answer, because nothing comes before it; most pods are served so. It keeps to what needs no
bookkeeping, and leaves everything else to the search.
"""

from __future__ import annotations

from cathedra.allocation.claims.problem import Choice, DevicePlacement, Problem, Solution
from cathedra.allocation.claims.requests import CLAIM_LIMIT
from cathedra.allocation.claims.tables import Bases
from cathedra.allocation.search.masks import mask_of, positions

__all__ = ["greedy"]


def greedy(problem: Problem, bases: Bases) -> tuple[bool, Solution | None]:
    """Whether the matter is decided, and the solution if there is one."""
    if (
        any(bases.risky)
        or any(plan.constraints for plan in problem.plans)
        or problem.view.has_counters
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
    """The devices to be taken of those that are left; -1 if there are not enough."""
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
