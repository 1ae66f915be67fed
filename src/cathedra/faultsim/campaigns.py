"""Campaigns: many seeds one after the other, and their figures.

The first failure of a seed is shrunk and reported; the campaign goes on with the next seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from cathedra.faultsim.plan import FaultPlan, Options, draw
from cathedra.faultsim.runs import Outcome, run_plan
from cathedra.faultsim.shrinking import shrink


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
