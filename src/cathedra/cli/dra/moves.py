"""``kubectl dra moves``: what would have to move so that a pod fits."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cathedra.allocation.errors import InvalidInput
from cathedra.cli.dra.live import target_of
from cathedra.cli.dra.source import add_namespace, add_source, add_timeout, namespace_of, read_state
from cathedra.cli.terminal import print_data, print_styled, style, width

if TYPE_CHECKING:
    from cathedra.insight.moving.report import MovePlan
    from cathedra.insight.reading.state import ClusterState

MOST_MOVES = 8
MOST_TRIALS = 5_000


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    many: Any = {"action": "append", "default": []}
    parser.add_argument(
        "--for",
        dest="subject",
        metavar="KIND/NAME",
        help="pod/NAME, claim/NAME, deployment/NAME … (repeatable)",
        **many,
    )
    parser.add_argument(
        "-f", "--filename", metavar="FILE", help="pods, workloads and claims that do not exist yet (repeatable)", **many
    )
    parser.add_argument(
        "--count",
        type=int,
        default=1,
        metavar="N",
        help="number of pods like those of manifests and workloads (default: 1)",
    )
    parser.add_argument(
        "--prefer",
        choices=("fewest", "cheapest"),
        default="fewest",
        help="the fewest claims, or the least disruption: by priority, pods without a controller, and running time "
        "(default: fewest)",
    )
    add_bounds(parser)
    parser.add_argument("--no-evict", action="store_true", help="leave no pod without a node, whatever its priority")
    parser.add_argument(
        "--apply",
        dest="carry_out",
        action="store_true",
        help="carry the plan out, step by step; stop if the cluster differs from it",
    )
    add_namespace(parser, "namespace of names and manifests without one (default: the context's)")
    parser.add_argument(
        "-o", "--output", choices=("text", "json", "yaml"), default="text", help="output format (default text)"
    )
    add_source(parser)
    add_timeout(parser)


def add_bounds(parser: argparse.ArgumentParser) -> None:
    """Add the options that bound the search."""
    parser.add_argument(
        "--most",
        type=int,
        default=MOST_MOVES,
        metavar="N",
        help=f"maximum number of claims to move (default: {MOST_MOVES})",
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=MOST_TRIALS,
        metavar="N",
        help=f"maximum number of trials, of about 3 ms each (default: {MOST_TRIALS})",
    )


def check_bounds(arguments: argparse.Namespace) -> None:
    """Refuse bounds that are out of range.

    Raises:
        InvalidInput: one of them is.
    """
    if arguments.most < 0:
        raise InvalidInput(f"--most must not be negative, got {arguments.most}")
    if arguments.trials < 1:
        raise InvalidInput(f"--trials must be at least 1, got {arguments.trials}")


def run(arguments: argparse.Namespace) -> int:
    """Print the plan; 1 if there is none."""
    if not arguments.subject and not arguments.filename:
        raise InvalidInput("say what needs room: --for pod/NAME, or -f FILE")
    if arguments.carry_out and (arguments.dump or arguments.filename):
        raise InvalidInput("--apply needs a cluster, and pods that wait there: neither --dump nor -f")
    check_bounds(arguments)
    # Imported late: a wrong call need not wait for the whole cluster.
    from cathedra.insight.moving.plan import plan_moves
    from cathedra.insight.moving.report import moves_text
    from cathedra.insight.moving.search import MoveOptions

    logging.getLogger("cathedra").setLevel(logging.CRITICAL)
    state = read_state(arguments)
    plan = plan_moves(
        state,
        arguments.subject,
        namespace=namespace_of(arguments),
        manifests=[Path(name) for name in arguments.filename] or None,
        count=arguments.count,
        options=MoveOptions(arguments.most, arguments.trials, arguments.prefer == "cheapest", not arguments.no_evict),
    )
    if arguments.output == "text":
        print_styled(moves_text(plan, width(), style))
    else:
        print_data(plan.to_dict(), arguments.output)
    if plan.fits and arguments.carry_out and plan.moves:
        return asyncio.run(_carry_out(arguments, plan, state))
    return 0 if plan.fits else 1


async def _carry_out(arguments: argparse.Namespace, plan: MovePlan, state: ClusterState) -> int:
    # start-up time: with the option alone
    from cathedra.client.client import Client
    from cathedra.client.http import HTTPTransport
    from cathedra.clock import SystemClock
    from cathedra.insight.moving.applying import PlanStopped, carry_out

    clock = SystemClock()
    async with await HTTPTransport.open(target_of(arguments)) as transport:
        client = Client(transport, clock=clock)
        try:
            await carry_out(plan, state, client, clock=clock, report=lambda text: print(f"… {text}", flush=True))
        except PlanStopped as stopped:
            print(f"stopped: {stopped}", file=sys.stderr)
            return 1
    return 0
