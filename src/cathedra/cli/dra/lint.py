"""``kubectl dra lint``: errors in manifests."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from cathedra.allocation.errors import InvalidInput
from cathedra.cli.dra.source import add_pod_templates, add_source, add_timeout, pod_templates_of, read_state
from cathedra.cli.terminal import print_data, print_styled, style, width
from cathedra.releases import parse_overrides


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="manifests: files, directories, or - for standard input"
    )
    parser.add_argument(
        "--dump",
        action="append",
        default=[],
        metavar="PATH",
        help="also check against the devices and classes of this dump (repeatable)",
    )
    parser.add_argument("--against", action=_FormerDump, dest="dump", help=argparse.SUPPRESS)
    parser.add_argument(
        "--cluster", action="store_true", help="also check against the devices and classes of kubectl's current cluster"
    )
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "never"),
        default="error",
        help="findings for which the exit code is 1 (default error: warnings alone are exit code 0)",
    )
    parser.add_argument(
        "--allow-empty", action="store_true", help="exit code 0 although no file has an object that can be checked"
    )
    add_pod_templates(parser)
    parser.add_argument(
        "-o", "--output", choices=("text", "json", "yaml", "sarif"), default="text", help="output format (default text)"
    )
    add_source(parser, dump=False)
    add_timeout(parser)


class _FormerDump(argparse.Action):
    """``--against``, the name that ``--dump`` had before."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Warn, and add the dump."""
        print(f"{parser.prog}: warning: {option} is called --dump now", file=sys.stderr)
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), values])


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; 1 if there are errors, or nothing was checked."""
    asked = arguments.cluster or arguments.kubeconfig or arguments.context
    if asked and arguments.dump:
        raise InvalidInput("use either a dump (--dump) or a cluster")
    if [*arguments.files, *arguments.dump].count("-") > 1:
        raise InvalidInput("only one of the manifests and --dump can be standard input")
    gates = parse_overrides(arguments.feature_gates)
    # Imported late: a wrong call need not wait for CEL.
    from cathedra.insight.linting.lint import lint
    from cathedra.insight.linting.report import lint_text, sarif

    state = read_state(arguments) if asked or arguments.dump else None
    report = lint(
        [Path(name) for name in arguments.files],
        against=state,
        release=arguments.kubernetes_version,
        feature_gates=gates,
        templates=pod_templates_of(arguments),
    )
    if arguments.output == "text":
        print_styled(lint_text(report, width(), style))
    elif arguments.output == "sarif":
        print_data(sarif(report), "json")
    else:
        print_data(report.to_dict(), arguments.output)
    if report.fails(arguments.fail_on):
        return 1
    nothing = report.clean and not report.objects and not arguments.allow_empty
    return 1 if nothing else 0
