"""``kubectl dra explain``: the reasons why a pod or claim waits, or its devices."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from cathedra.cli.terminal import print_data, print_styled, style, width

if TYPE_CHECKING:
    from cathedra.insight.explanation.report import Explanation, ExplanationOverview
    from cathedra.insight.reading.state import ClusterState


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "subject",
        nargs="*",
        metavar="KIND/NAME",
        help="pod/NAME, claim/NAME, deployment/NAME, job/NAME …; or KIND NAME …; none: everything that is pending",
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="FILE",
        help="explain these manifests as if they were applied (repeatable)",
    )
    add_namespace(parser, "namespace of the objects (default: the context's)")
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="explain everything that is pending in all namespaces"
    )
    parser.add_argument("--node", default="", metavar="NAME", help="consider this node only")
    parser.add_argument(
        "-o", "--output", choices=("text", "json", "yaml"), default="text", help="output format (default text)"
    )
    add_pod_templates(parser)
    add_validation(parser)
    add_html(parser)
    add_source(parser)
    add_timeout(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer. Return 1 if something does not fit, or waits."""
    _check(arguments)
    manifests: Any = [Path(name) for name in arguments.filename] or None
    # Imported late: a wrong call need not wait for the scheduler.
    from cathedra.insight.explanation.explain import explain, explain_all, subjects_of
    from cathedra.insight.reading.manifests import ManifestOptions, parse_validation

    validate = parse_validation(arguments.validate)

    namespace = "" if arguments.all_namespaces else namespace_of(arguments)
    state = read_state(arguments)
    subjects = subjects_of(arguments.subject, state, namespace)
    several = manifests is None and len(subjects) != 1
    answer = (
        explain_all(state, subjects, namespace=namespace, node=arguments.node)
        if several
        else explain(
            state,
            *subjects,
            namespace=namespace,
            node=arguments.node,
            manifests=manifests,
            reading=ManifestOptions(
                namespace=namespace or "default", templates=pod_templates_of(arguments), validate=validate
            ),
        )
    )
    _print(answer, state, arguments)
    return 0 if answer.fits else 1


def _check(arguments: argparse.Namespace) -> None:
    if arguments.subject and arguments.filename:
        raise InvalidInput("give either names, such as pod/NAME, or -f FILE")
    if arguments.all_namespaces and (arguments.subject or arguments.filename):
        raise InvalidInput("--all-namespaces is for all that waits; choose the namespace of names with -n")
    if arguments.dump and "-" in arguments.dump and "-" in arguments.filename:
        raise InvalidInput("only one of --dump and -f can be standard input")


def _print(answer: Explanation | ExplanationOverview, state: ClusterState, arguments: argparse.Namespace) -> None:
    """Print the answer in the chosen format, or write it as a page."""
    from cathedra.insight.explanation.report import Explanation, explanation_text, overview_text  # as above

    if arguments.html:
        from cathedra.insight.drawing.pages import explanation_html, page  # start-up time: with the option alone
        from cathedra.insight.inventory.listing import devices

        title = answer.subject if isinstance(answer, Explanation) else f"what waits in {answer.where}"
        fragment = explanation_html(answer.to_dict(), devices(state).to_dict())
        write_html(arguments.html, page(title, fragment))
    elif arguments.output != "text":
        print_data(answer.to_dict(), arguments.output)
    elif isinstance(answer, Explanation):
        print_styled(explanation_text(answer, width(), style))
    else:
        print_styled(overview_text(answer, width(), style))
