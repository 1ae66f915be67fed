"""``cathedra simulate-faults``: run clusters with faults in virtual time, and check invariants after each write.

Exit codes: 0 every invariant held, 1 one was broken, 2 a wrong call or an unreadable plan.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from random import SystemRandom

from cathedra.faultsim.campaigns import Campaign, figures, runs, shortest
from cathedra.faultsim.plan import FAULTS, FaultPlan, Options, plan_text, read_plan
from cathedra.faultsim.runs import Outcome, run_plan
from cathedra.files.atomic import write_durable

_SHOWN = 40
"""Lines of history that are printed of a failure."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Run clusters of real parts in virtual time, with faults drawn from a seed, and check invariants after each "
        "write (docs/reliability.md). A failure prints the shortest plan that is found."
    )
    parser.add_argument("--seed", type=int, help="first seed (default: a random one, which is printed)")
    parser.add_argument("--seeds", type=_positive, default=1, metavar="N", help="number of seeds (default 1)")
    parser.add_argument("--hours", type=_hours, default=6.0, help="virtual hours of each seed (default 6)")
    parser.add_argument("--seconds", type=_hours, help="time after which no further seed begins")
    parser.add_argument("--nodes", type=_positive, help="number of nodes (default: drawn from the seed)")
    parser.add_argument("--release", help="Kubernetes release (default: drawn from the seed)")
    parser.add_argument(
        "--gates", default="", metavar="GATES", help="feature gates beside the seed's, as A=true,B=false"
    )
    parser.add_argument(
        "--faults", metavar="KINDS", help=f"comma-separated kinds instead of the seed's, or none: {', '.join(FAULTS)}"
    )
    parser.add_argument(
        "--sqlite",
        action="store_true",
        help="use SQLite on a simulated disk as the store of one server, instead of simulated stores",
    )
    parser.add_argument(
        "--shrink", type=_hours, default=120.0, metavar="SECONDS", help="time to shorten a failing plan"
    )
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run the plan of a file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the plan, shortened if it fails, to a file")
    parser.add_argument(
        "--write-test",
        metavar="NAME",
        help="write the plan to tests/simulation/plans/NAME.json, which the suite replays",
    )
    parser.add_argument("--figures", type=Path, metavar="FILE", help="write the figures of all seeds as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the seeds, or replay a plan."""
    if arguments.replay is not None:
        plan = read_plan(arguments.replay)
        return _end(arguments, plan, run_plan(plan))
    first = SystemRandom().randrange(10**9) if arguments.seed is None else arguments.seed
    faults = arguments.faults
    options = Options(
        hours=arguments.hours,
        nodes=arguments.nodes,
        release=arguments.release,
        gates=arguments.gates,
        sqlite=arguments.sqlite,
        faults=None if faults is None else [kind for kind in faults.split(",") if kind not in ("", "none")],
    )
    campaign = Campaign()
    code = 0
    for plan, outcome in runs(range(first, first + arguments.seeds), options, seconds=arguments.seconds):
        campaign.add(plan, outcome)
        code = max(code, _end(arguments, plan, outcome))
        # After each seed: a long campaign may be interrupted.
        if arguments.figures is not None:
            write_durable(arguments.figures, json.dumps(figures(campaign), indent=1).encode() + b"\n")
    if campaign.seeds > 1:
        print(
            f"{campaign.seeds} seeds from {first}: {campaign.hours:.0f} virtual hours "
            f"in {campaign.cpu:.0f} CPU seconds, {campaign.events} events, {len(campaign.failed)} failed"
        )
    return code


def _end(arguments: argparse.Namespace, plan: FaultPlan, outcome: Outcome) -> int:
    """Print the outcome of a plan, and write the plan where that is wanted. Return the exit code."""
    setup = plan.setup
    print(
        f"seed {plan.seed}: {'FAILED' if outcome.failed else 'ok'}, release {setup.release}, {setup.nodes} nodes, "
        f"{setup.supply}, {len(plan.steps)} steps, {outcome.hours:.1f} h, {outcome.events} events, "
        f"{outcome.cpu:.1f} CPU s, hash {outcome.digest[:16]}",
        flush=True,
    )
    if outcome.failed:
        print(f"{outcome.invariant}: {outcome.text}")
        if arguments.replay is None and arguments.shrink:
            plan, outcome = shortest(plan, outcome, arguments.shrink)
            print(f"shortest plan found: {len(plan.steps)} steps, hash {outcome.digest[:16]}: {outcome.text}")
        sys.stdout.write(plan_text(plan).decode())
        print("\n".join(("the last of its history:", *outcome.lines[-_SHOWN:])))
    for file in _files(arguments):
        write_durable(file, plan_text(plan))
        print(f"wrote {file}; replay it: cathedra simulate-faults --replay {file}")
    return int(outcome.failed)


def _files(arguments: argparse.Namespace) -> list[Path]:
    files = [] if arguments.write is None else [arguments.write]
    if arguments.write_test:
        files.append(Path("tests/simulation/plans") / f"{arguments.write_test}.json")
    return files


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _hours(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 100_000:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100000")
    return value
