"""Shrinking of plans that fail: delta debugging over the steps, then over the cluster and the length.

A plan is data that was drawn before the run, so any part of its steps is a plan too. A shorter one counts if the same
invariant is broken; the text may differ, since names of objects move.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from cathedra.faultsim.plan import FaultPlan, PlannedStep

Fails = Callable[[FaultPlan], bool]
"""Returns True if a plan breaks the invariant that is looked for."""


def shrink(plan: FaultPlan, fails: Fails, seconds: float = 120.0) -> FaultPlan:
    """Return the shortest failing plan that is found within ``seconds`` of the machine's time."""
    end = time.monotonic() + seconds

    def tried(candidate: FaultPlan) -> bool:
        return time.monotonic() < end and fails(candidate)

    plan = _with_fewer_steps(plan, tried)
    for simplify in _SIMPLIFICATIONS:
        simpler = simplify(plan)
        if simpler != plan and tried(simpler):
            plan = simpler
    return _with_fewer_steps(plan, tried)


def _with_fewer_steps(plan: FaultPlan, tried: Fails) -> FaultPlan:
    """Remove halves of the steps, then quarters, down to single steps (Zeller's ddmin, complements only)."""
    size = max(len(plan.steps) // 2, 1)
    while plan.steps:
        removed = False
        start = 0
        while start < len(plan.steps):
            candidate = _without(plan, start, start + size)
            if tried(candidate):
                plan, removed = candidate, True
            else:
                start += size
        if size == 1 and not removed:
            break
        size = max(size // 2, 1)
    return plan


def _without(plan: FaultPlan, start: int, end: int) -> FaultPlan:
    steps: tuple[PlannedStep, ...] = plan.steps[:start] + plan.steps[end:]
    return replace(plan, steps=steps)


def _shorter(plan: FaultPlan) -> FaultPlan:
    last = max((step.at + step.seconds for step in plan.steps), default=0.0)
    return replace(plan, hours=min(plan.hours, round(last / 3600.0 + 0.01, 2)))


def _setup(**change: Any) -> Callable[[FaultPlan], FaultPlan]:
    return lambda plan: replace(plan, setup=replace(plan.setup, **change))


_SIMPLIFICATIONS: Final[tuple[Callable[[FaultPlan], FaultPlan], ...]] = (
    _shorter,
    _setup(servers=1),
    _setup(sqlite=False),
    _setup(advisor=False),
    _setup(schedulers=1, elected=True, named=False),
    _setup(gates={}),
    _setup(nodes=1),
    _setup(devices=1),
)
"""Each leaves out one thing, in the order in which they are tried."""
