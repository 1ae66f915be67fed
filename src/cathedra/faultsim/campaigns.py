"""Campaigns: many seeds one after the other, and their figures.

The first failure of a seed is shrunk and reported; the campaign goes on with the next seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from cathedra.faultsim.plan import FaultPlan, Options, PlannedStep, draw
from cathedra.faultsim.runs import Outcome, run_plan


class Campaign(msgspec.Struct):
    """Figures of the runs so far."""

    seeds: int = 0
    hours: float = 0.0
    cpu: float = 0.0
    events: int = 0
    failed: dict[int, str] = {}
    """Seed → invariant that was broken, with its text."""
    faults: dict[str, float] = {}
    """Hours for which each kind of fault was active."""
    messages: dict[str, int] = {}
    """Messages that met each kind of fault."""
    releases: dict[str, int] = {}
    """Seeds of each release."""

    def add(self, plan: FaultPlan, outcome: Outcome) -> None:
        """Add the outcome of a plan to the figures."""
        self.seeds += 1
        self.hours += outcome.hours
        self.cpu += outcome.cpu
        self.events += outcome.events
        if outcome.failed:
            self.failed[plan.seed] = f"{outcome.invariant}: {outcome.text}"
        for kind, seconds in outcome.faults.items():
            self.faults[kind] = self.faults.get(kind, 0.0) + seconds / 3600.0
        for kind, count in outcome.messages.items():
            self.messages[kind] = self.messages.get(kind, 0) + count
        release = plan.setup.release
        self.releases[release] = self.releases.get(release, 0) + 1


def runs(
    seeds: Iterable[int],
    options: Options,
    *,
    seconds: float | None = None,
    run: Callable[[FaultPlan], Outcome] = run_plan,
) -> Iterator[tuple[FaultPlan, Outcome]]:
    """Run the plans of seeds; ``seconds``: begin no further one after so long."""
    end = None if seconds is None else time.monotonic() + seconds
    for seed in seeds:
        if end is not None and time.monotonic() >= end:
            return
        plan = draw(seed, options)
        yield plan, run(plan)


def shortest(plan: FaultPlan, outcome: Outcome, seconds: float) -> tuple[FaultPlan, Outcome]:
    """Return the shortest plan found within ``seconds`` that breaks the same invariant, and its outcome."""
    short = shrink(plan, lambda one: run_plan(one).invariant == outcome.invariant, seconds)
    return (plan, outcome) if short == plan else (short, run_plan(short))


def figures(campaign: Campaign) -> Mapping[str, object]:
    """Return the figures as plain data, for files."""
    data: dict[str, object] = msgspec.to_builtins(campaign)
    return data | {
        "faults": {kind: round(hours, 2) for kind, hours in sorted(campaign.faults.items())},
        "hours": round(campaign.hours, 1),
        "cpu": round(campaign.cpu, 1),
    }


# Shrinking of plans that fail: delta debugging over the steps, then over the cluster and the length.
#
# A plan is data that was drawn before the run, so any part of its steps is a plan too. A shorter one counts if the same
# invariant is broken; the text may differ, since names of objects move.

Fails = Callable[[FaultPlan], bool]
"""Returns True if a plan breaks the invariant in question."""


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
