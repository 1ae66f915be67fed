"""``kubectl dra explain``: why it waits, or what it has."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cathedra.allocation.errors import InvalidInput
from cathedra.cli.dra.output import print_data, print_styled, style, width
from cathedra.cli.dra.source import add_namespace, add_source, add_timeout, namespace_of, read_state

__all__ = ["add", "run"]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "subject",
        nargs="*",
        metavar="KIND/NAME",
        help="pod/NAME, claim/NAME, deployment/NAME, job/NAME …; or KIND NAME",
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="FILE",
        help="explain these manifests as if they were applied (repeatable)",
    )
    add_namespace(parser, "namespace of the object (default: the context's)")
    parser.add_argument("--node", default="", metavar="NAME", help="consider this node only")
    parser.add_argument(
        "-o", "--output", choices=("text", "json", "yaml"), default="text", help="output format (default text)"
    )
    add_source(parser)
    add_timeout(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; 1 if it does not fit."""
    subject = "/".join(arguments.subject)
    if bool(subject) == bool(arguments.filename) or len(arguments.subject) > 2:
        raise InvalidInput("name what to explain, such as pod/NAME, or give -f FILE")
    manifests: Any = [Path(name) for name in arguments.filename] or None
    if arguments.dump and "-" in arguments.dump and "-" in arguments.filename:
        raise InvalidInput("only one of --dump and -f can be standard input")
    # Imported late: a wrong call need not wait for the scheduler.
    from cathedra.insight.explanation.explain import explain
    from cathedra.insight.explanation.report import explanation_text

    state = read_state(arguments)
    answer = explain(state, subject, namespace=namespace_of(arguments), node=arguments.node, manifests=manifests)
    if arguments.output == "text":
        print_styled(explanation_text(answer, width(), style))
    else:
        print_data(answer.to_dict(), arguments.output)
    return 0 if answer.fits else 1
