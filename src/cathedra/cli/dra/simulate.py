"""``kubectl dra simulate``: what would happen."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cathedra.allocation.errors import InvalidInput
from cathedra.cli.dra.source import (
    add_html,
    add_namespace,
    add_pod_templates,
    add_source,
    add_timeout,
    add_validation,
    namespace_of,
    pod_templates_of,
    read_state,
    write_html,
)
from cathedra.cli.terminal import print_data, print_styled, style, styled, width

if TYPE_CHECKING:
    from cathedra.insight.reading.state import ClusterState
    from cathedra.insight.simulation.report import Simulation

_REDRAWN: Final = 0.2
"""Seconds between two states of the progress bar."""
_BAR: Final = 30


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    many: Any = {"action": "append", "default": []}
    parser.add_argument(
        "-f", "--apply", metavar="FILE", help="apply these manifests, such as a DeviceTaintRule (repeatable)", **many
    )
    parser.add_argument(
        "--delete", metavar="KIND/NAME", help="delete an object: pod/NAME, job/NAME, node/NAME …", **many
    )
    parser.add_argument("--replicas", metavar="KIND/NAME=N", help="scale a workload", **many)
    parser.add_argument(
        "--add-nodes",
        metavar="N=NODE|PROFILE",
        help="add nodes like an existing one, or of a profile (cathedra profiles)",
        **many,
    )
    parser.add_argument(
        "--drain",
        metavar="NODE",
        help="cordon a node and evict its pods, as kubectl drain --ignore-daemonsets --delete-emptydir-data",
        **many,
    )
    parser.add_argument(
        "--force", action="store_true", help="with --drain: delete pods without a controller too, as kubectl drain"
    )
    parser.add_argument(
        "--taint",
        metavar="WHAT=KEY[=VALUE]:EFFECT",
        help="taint a NODE, or devices: DRIVER/POOL or DRIVER/POOL/DEVICE; with - at the end remove the taint",
        **many,
    )
    parser.add_argument(
        "--copies",
        type=int,
        default=100,
        metavar="N",
        help="count how many more copies of the applied manifests fit, up to N (default: 100; 0: none)",
    )
    parser.add_argument(
        "--scheduler-config",
        type=Path,
        metavar="FILE",
        help="KubeSchedulerConfiguration of the simulated scheduler (default: Kubernetes' default profile)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the random generator (default: 0)")
    add_namespace(parser, "namespace of names and manifests without one (default: the context's)")
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "wide", "json", "yaml"),
        default="text",
        help="output format (default text, with a summary of many pods and nodes; wide lists each)",
    )
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="simulate a question that cathedra advisor has logged, instead of a cluster: the log, or a line of it",
    )
    add_pod_templates(parser)
    add_validation(parser)
    add_html(parser)
    add_source(parser)
    add_timeout(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the differences; return 1 if something finds no place."""
    _check(arguments)
    # Imported late: a wrong call need not wait for the whole cluster.
    from cathedra.insight.reading.manifests import parse_validation
    from cathedra.insight.reading.questions import read_question
    from cathedra.insight.simulation.run import PlannedChanges, simulate

    validate = parse_validation(arguments.validate)

    # The result contains what scheduler and controllers would log.
    logging.getLogger("cathedra").setLevel(logging.CRITICAL)
    manifests: Any = [Path(name) for name in arguments.apply] or None
    state = read_state(arguments) if arguments.replay is None else read_question(arguments.replay).state
    found = simulate(
        state,
        PlannedChanges(
            apply=manifests,
            delete=arguments.delete,
            add_nodes=arguments.add_nodes,
            drain=arguments.drain,
            force=arguments.force,
            taint=arguments.taint,
            replicas=arguments.replicas,
            namespace=namespace_of(arguments),
            templates=pod_templates_of(arguments),
            validate=validate,
            scheduler=_text_of(arguments.scheduler_config),
        ),
        copies=arguments.copies,
        seed=arguments.seed,
        progress=_bar() if sys.stderr.isatty() else None,
    )
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=styled(sys.stderr))
    _print(found, state, arguments)
    return 0 if found.fits else 1


def _check(arguments: argparse.Namespace) -> None:
    if arguments.copies < 0:
        raise InvalidInput(f"--copies must not be negative, got {arguments.copies}")
    if arguments.replay is not None and arguments.dump:
        raise InvalidInput("only one of --replay and --dump can be given")
    if "-" in arguments.apply and "-" in arguments.dump:
        raise InvalidInput("only one of --dump and --apply can be standard input")


def _print(found: Simulation, state: ClusterState, arguments: argparse.Namespace) -> None:
    """Print the result in the chosen format, or write it as a page."""
    if arguments.html:
        from cathedra.insight.drawing.pages import page, simulation_html  # start-up time: with the option alone
        from cathedra.insight.inventory.listing import devices

        fragment = simulation_html(found.to_dict(), devices(state).to_dict())
        write_html(arguments.html, page(f"simulation on {state.source}", fragment))
    elif arguments.output in ("text", "wide"):
        from cathedra.insight.simulation.report import simulation_text  # start-up time: with these formats alone

        print_styled(simulation_text(found, width(), style, wide=arguments.output == "wide"))
    else:
        print_data(found.to_dict(), arguments.output)


def _text_of(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"--scheduler-config {path}: {problem}") from problem


def _bar() -> Callable[[int, int], None]:
    """Draws how many pods have a node, from time to time."""
    drawn = 0.0

    def show(placed: int, pods: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn < _REDRAWN:
            return
        drawn = now
        full = _BAR * placed // pods if pods else 0
        bar = "█" * full + "░" * (_BAR - full)
        print(f"\r\x1b[K{bar} {placed:,} of {pods:,} pods have a node", end="", file=styled(sys.stderr), flush=True)

    return show
