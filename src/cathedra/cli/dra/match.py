"""``kubectl dra match``: which devices a selector selects."""

from __future__ import annotations

import argparse

from cathedra.cli.dra.source import add_source, add_timeout, read_state
from cathedra.cli.terminal import print_data, print_styled, style, width


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("expression", metavar="EXPRESSION", help="CEL selector, as in a claim")
    parser.add_argument("--driver", default="", metavar="NAME", help="evaluate on devices of this driver only")
    parser.add_argument(
        "-o", "--output", choices=("text", "wide", "json", "yaml"), default="text", help="output format (default text)"
    )
    add_source(parser)
    add_timeout(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; 1 if no device matches."""
    # Imported late: a wrong call need not wait for CEL.
    from cathedra.insight.matching import match, match_text

    found = match(read_state(arguments), arguments.expression, driver=arguments.driver)
    if arguments.output in ("json", "yaml"):
        print_data(found.to_dict(), arguments.output)
    else:
        print_styled(match_text(found, width(), style, wide=arguments.output == "wide"))
    return 0 if found.matched else 1
