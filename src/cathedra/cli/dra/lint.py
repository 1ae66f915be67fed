"""``kubectl dra lint``: what is wrong with manifests."""

from __future__ import annotations

import argparse
from pathlib import Path

from cathedra.allocation.errors import InvalidInput
from cathedra.cli.dra.output import print_data, print_styled, style, width
from cathedra.cli.dra.source import add_source, add_timeout, read_state
from cathedra.releases import parse_overrides

__all__ = ["add", "run"]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="manifests: files, directories, or - for standard input"
    )
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="DUMP",
        help="also check against the devices and classes of this dump (repeatable)",
    )
    parser.add_argument(
        "--cluster", action="store_true", help="also check against the devices and classes of kubectl's current cluster"
    )
    parser.add_argument(
        "--feature-gates",
        default="",
        metavar="GATE=BOOL,…",
        help="feature gates that differ from the release's defaults",
    )
    parser.add_argument(
        "-o", "--output", choices=("text", "json", "yaml", "sarif"), default="text", help="output format (default text)"
    )
    add_source(parser, dump=False)
    add_timeout(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; 1 if there are any."""
    asked = arguments.cluster or arguments.kubeconfig or arguments.context
    if asked and arguments.against:
        raise InvalidInput("use either a dump (--against) or a cluster")
    if [*arguments.files, *arguments.against].count("-") > 1:
        raise InvalidInput("only one of the manifests and --against can be standard input")
    gates = parse_overrides(arguments.feature_gates)
    # Imported late: a wrong call need not wait for CEL.
    from cathedra.insight.linting.lint import lint
    from cathedra.insight.linting.report import lint_text, sarif

    arguments.dump = arguments.against
    state = read_state(arguments) if asked or arguments.against else None
    report = lint(
        [Path(name) for name in arguments.files],
        against=state,
        release=arguments.kubernetes_version,
        feature_gates=gates,
    )
    if arguments.output == "text":
        print_styled(lint_text(report, width(), style))
    elif arguments.output == "sarif":
        print_data(sarif(report), "json")
    else:
        print_data(report.to_dict(), arguments.output)
    return 0 if report.clean else 1
