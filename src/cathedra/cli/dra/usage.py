"""``kubectl dra usage``: which namespace, class, driver or node holds how many devices."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from cathedra.allocation.errors import InvalidInput
from cathedra.cli.dra.source import add_namespace, add_source, add_timeout, namespace_of, read_state
from cathedra.cli.terminal import print_data, print_styled, style, width
from cathedra.insight.inventory.usage import GROUPS, UsagePeriod, usage, usage_csv, usage_text


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--by", choices=tuple(GROUPS), default="namespace", help="sum by this (default: namespace)")
    add_namespace(parser, "namespace of the claims (default: the context's)")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="claims of all namespaces")
    parser.add_argument(
        "--history",
        default="",
        metavar="FILE",
        help="history of an advisor (cathedra advisor --history): add device-hours",
    )
    parser.add_argument(
        "--since",
        type=UsagePeriod.seconds,
        default=86400.0,
        metavar="TIME",
        help="with --history: 90m, 24h, 7d (default: 24h)",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "csv", "json", "yaml"),
        default="table",
        help="output format (default table)",
    )
    add_source(parser)
    add_timeout(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the use of devices."""
    if arguments.all_namespaces and arguments.namespace:
        raise InvalidInput("give either --all-namespaces or --namespace")
    namespace = "" if arguments.all_namespaces else namespace_of(arguments)
    period = None
    if arguments.history:
        now = time.time()
        period = UsagePeriod(Path(arguments.history), now - arguments.since, now)
    found = usage(read_state(arguments), by=arguments.by, namespace=namespace, period=period)
    if arguments.output == "csv":
        print(usage_csv(found))
    elif arguments.output == "table":
        print_styled(usage_text(found, width(), style))
    else:
        print_data(found.to_dict(), arguments.output)
    return 0
