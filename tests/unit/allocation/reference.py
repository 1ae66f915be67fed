"""The exhaustive search, as plain as it can be: every assignment in order, each one judged from scratch.

No state is kept between steps, so nothing can leak; no bound, no memory, no symmetry. It is the measure for the
searches that have them. It shares only what is no search with them: pools, selectors, and the amount of capacity that a
request takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from cathedra.allocation.checks.capacity import Unusable
from cathedra.allocation.checks.values import Value
from cathedra.allocation.claims.problem import Choice, Problem
from cathedra.allocation.errors import FatalError
from cathedra.api.resource import DeviceTaint, DeviceToleration

Step = tuple[Choice, int]


class TooLong(Exception):
    """There are too many assignments."""


def search(problem: Problem, limit: int = 1_000_000) -> list[tuple[str, str]] | None:
    """«request» and device of the first solution, or None.

    Raises:
        TooLong: more than ``limit`` placements would have to be judged.
    """
    for steps in solutions(problem, 0, 0, [], iter(range(limit))):
        return [(choice.option.name, problem.devices[at].name) for choice, at in steps]
    return None


def solutions(
    problem: Problem, claim: int, request: int, before: list[Step], left: Iterator[int]
) -> Iterator[list[Step]]:
    """All solutions in order."""
    if claim == len(problem.requests):
        yield before
        return
    if request == len(problem.requests[claim]):
        yield from solutions(problem, claim + 1, 0, before, left)
        return
    for choice in problem.requests[claim][request].choices:
        if choice.devices is not None and not choice.devices:
            continue
        for steps in placements(problem, choice, choice.count, -1, before, left):
            yield from solutions(problem, claim, request + 1, steps, left)


def placements(
    problem: Problem, choice: Choice, needed: int, last: int, before: list[Step], left: Iterator[int]
) -> Iterator[list[Step]]:
    """All ways to place ``needed`` more devices after position ``last``."""
    if sum(step[0].option.claim == choice.option.claim for step in before) + needed > 32:
        return
    if not needed:
        yield before
        return
    candidates = range(last + 1, len(problem.devices)) if choice.devices is None else choice.devices[-needed:][:1]
    for position in candidates:
        if choice.devices is None and not problem.selectable(choice.option, position):
            continue
        if next(left, None) is None:
            raise TooLong
        steps = [*before, (choice, position)]
        if legal(problem, steps):
            yield from placements(problem, choice, needed - 1, position, steps, left)


def legal(problem: Problem, steps: list[Step]) -> bool:
    """Return True if the last step may follow the others (sections 9 to 12)."""
    (choice, position), earlier = steps[-1], steps[:-1]
    option, record = choice.option, problem.devices[position]
    state, place = problem.state_of(position)
    shareable = record.shareable and problem.features.consumable_capacity
    owners = [step[0].option.claim for step in earlier if step[1] == position and not shareable]
    if option.admin and option.claim in owners:
        return False
    if not option.admin and (owners or state.taken >> place & 1):
        return False
    if not option.admin and not shareable and state.shared >> place & 1:
        return False
    if record.slice.skip_operations and not problem.operations_optional:
        return False
    if record.device.consumes_counters and not problem.features.partitionable_devices:
        return False
    if problem.features.device_taints and not tolerated(record.taints, option.tolerations):
        return False
    return capacity_fits(problem, steps) and counters_fit(problem, steps) and constraints_hold(problem, steps)


def tolerated(taints: tuple[DeviceTaint, ...], tolerations: tuple[DeviceToleration, ...]) -> bool:
    """Section 11.3."""
    blocking = [taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute")]
    return all(
        any(
            one.effect in ("", taint.effect)
            and one.key in ("", taint.key)
            and (one.operator == "Exists" or (one.operator in ("", "Equal") and one.value == taint.value))
            for one in tolerations
        )
        for taint in blocking
    )


def capacity_fits(problem: Problem, steps: list[Step]) -> bool:
    """Section 12.4, for the device of the last step."""
    if not problem.features.consumable_capacity:
        return True
    position = steps[-1][1]
    record = problem.devices[position]
    state, place = problem.state_of(position)
    sharing = steps if record.shareable else steps[-1:]
    total = dict(state.capacity.get(place, {}))
    for choice, at in sharing:
        if at != position:
            continue
        needed = problem.usage(choice.option, record)
        if isinstance(needed, Unusable):
            if needed.error:
                raise FatalError(needed.error)
            return False
        for name, amount in zip(needed.full_names, needed.amounts, strict=True):
            total[name] = total.get(name, 0) + amount.nanos
    limits = {
        name if "/" in name else f"{record.id[0]}/{name}": capacity.value.nanos
        for name, capacity in record.signature.capacity.items()
    }
    return all(total.get(name, 0) <= limit for name, limit in limits.items())


def counters_fit(problem: Problem, steps: list[Step]) -> bool:
    """Section 11.1: charged once per placement, shares of one device once."""
    position = steps[-1][1]
    if not charged(problem, steps, len(steps) - 1):
        return True
    pool = problem.pool_of[position]
    room = dict(problem.states[pool].available)
    for index, (_, at) in enumerate(steps):
        if problem.pool_of[at] == pool and charged(problem, steps, index):
            for consumption in problem.devices[at].device.consumes_counters:
                for name, counter in consumption.counters.items():
                    room[consumption.counter_set, name] -= counter.value.nanos
    return all(amount >= 0 for amount in room.values()) and groups_agree(problem, steps, pool)


def groups_agree(problem: Problem, steps: list[Step], pool: int) -> bool:
    """Section 11.2: all devices on a counter set have a group in common, or none has groups."""
    if not problem.features.compatibility_groups:
        return True
    present = {name: [groups] for name, groups in problem.states[pool].groups.items()}
    for index, (_, at) in enumerate(steps):
        if problem.pool_of[at] == pool and charged(problem, steps, index):
            for consumption in problem.devices[at].device.consumes_counters:
                groups = frozenset(consumption.compatibility_groups or ())
                present.setdefault(consumption.counter_set, []).append(groups)
    return all(not any(of) or bool(frozenset.intersection(*of)) for of in present.values())


def charged(problem: Problem, steps: list[Step], index: int) -> bool:
    """Return True if that step's device consumes counters."""
    at = steps[index][1]
    record = problem.devices[at]
    if not record.device.consumes_counters:
        return False
    state, place = problem.state_of(at)
    shared = state.shared >> place & 1 or any(other == at for _, other in steps[:index])
    return not (record.shareable and problem.features.consumable_capacity and shared)


def constraints_hold(problem: Problem, steps: list[Step]) -> bool:
    """Section 10, for the claim of the last step."""
    claim = steps[-1][0].option.claim
    for constraint in problem.plans[claim].constraints:
        values: list[Value | None] = [
            problem.value(choice.option, problem.devices[at], constraint)
            for choice, at in steps
            if choice.option.claim == claim and constraint.concerns(choice.option)
        ]
        if any(value is None for value in values):
            return False
        known = [value for value in values if value is not None]
        lists = problem.features.list_type_attributes
        if not (distinct(known, lists=lists) if constraint.distinct else match(known, lists=lists)):
            return False
    return True


def match(values: list[Value], *, lists: bool) -> bool:
    """All of one type, and equal or with something in common."""
    if len({kind for kind, _ in values}) > 1:
        return False
    if not lists:
        return len(set(values)) <= 1
    return len(values) < 2 or bool(frozenset.intersection(*(frozenset(of) for _, of in values)))  # type: ignore[call-overload]


def distinct(values: list[Value], *, lists: bool) -> bool:
    """Each value differs from the earlier ones, with the quirk of section 10.4."""
    for index, (kind, value) in enumerate(values):
        for other_kind, other in values[:index]:
            if other_kind != kind:
                if lists:
                    continue
                break
            if (not value.isdisjoint(other)) if lists else value == other:  # type: ignore[attr-defined]
                return False
    return True
