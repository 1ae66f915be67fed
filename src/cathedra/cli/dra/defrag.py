"""``kubectl dra defrag``: moves after which larger requests fit."""

from __future__ import annotations

import argparse
import logging

from cathedra.cli.dra.moves import add_bounds, check_bounds
from cathedra.cli.dra.source import add_source, add_timeout, read_state
from cathedra.cli.terminal import print_data, print_styled, style, width


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--class", dest="device_class", default="", metavar="NAME", help="plan for this class (default: for all)"
    )
    parser.add_argument(
        "--max-priority",
        type=int,
        default=2_000_000_000,
        metavar="N",
        help="leave pods of a higher priority where they are",
    )
    add_bounds(parser)
    parser.add_argument(
        "-o", "--output", choices=("text", "json", "yaml"), default="text", help="output format (default text)"
    )
    add_source(parser)
    add_timeout(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the plan; 1 if no moves enlarge a request."""
    check_bounds(arguments)
    # Imported late: a wrong call need not wait for the whole cluster.
    from cathedra.insight.moving.defrag import defrag, defrag_text
    from cathedra.insight.moving.search import MoveOptions

    logging.getLogger("cathedra").setLevel(logging.CRITICAL)
    found = defrag(
        read_state(arguments),
        arguments.device_class,
        options=MoveOptions(arguments.most, arguments.trials),
        priority=arguments.max_priority,
    )
    if arguments.output == "text":
        print_styled(defrag_text(found, width(), style))
    else:
        print_data(found.to_dict(), arguments.output)
    return 0 if found.better else 1
