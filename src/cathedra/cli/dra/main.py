"""``kubectl dra``: parser, dispatch, and errors in one line.

Exit codes: 0 yes, 1 no or findings, 2 a usage error, or unreadable input.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from cathedra import __version__
from cathedra.cli.terminal import EXIT_USAGE, Parser, printable_output

_PROGRAM: Final = "kubectl dra"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of ``kubectl dra``. Return its exit code."""
    with printable_output():
        return _main(argv)


def complete(argv: Sequence[str] | None = None) -> int:
    """Print candidates for the last word, as kubectl requests them of ``kubectl_complete-dra``."""
    from cathedra.cli.completion import print_candidates  # start-up time: for shells alone

    words = sys.argv[1:] if argv is None else list(argv)
    return print_candidates(_parser(words), words)


def _main(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    parser = _parser(words)
    if not words:
        parser.print_help()
        return 0
    arguments = parser.parse_args(words)
    return run(arguments, _PROGRAM)


def _parser(words: Sequence[str]) -> Parser:
    parser = Parser(
        prog=_PROGRAM,
        description="Inspect the devices and claims (DRA) of a cluster, or of a dump of one. Read-only.",
        epilog=f"To make a dump: {_dump_command()}",
    )
    parser.add_argument("--version", action="version", version=f"cathedra {__version__}")
    add_commands(parser, words)
    return parser


def add_commands(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the commands to a parser. Only the called one, according to ``words``, loads its module for its options."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        one = commands.add_parser(
            command.name,
            help=command.purpose,
            description=f"{command.purpose[0].upper()}{command.purpose[1:]}.",
            epilog=_examples(command),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.set_defaults(module=f"dra.{command.name}", dra=True)
        if command.name in words:
            importlib.import_module(f"cathedra.cli.dra.{command.name}").add(one)


def run(arguments: argparse.Namespace, program: str) -> int:
    """Run the command of ``arguments``; errors of input are printed in one line."""
    module = importlib.import_module(f"cathedra.cli.{arguments.module}")
    # A watch goes on until it is interrupted.
    timeout: float = 0.0 if getattr(arguments, "watch", False) else getattr(arguments, "timeout", 0.0)
    try:
        with _time_limit(timeout):
            return int(module.run(arguments))
    except _TimedOut:
        print(f"{program}: no answer after {timeout:g} s; --timeout sets another limit (0: none)", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has closed the pipe; Python would complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        # The module knows every part's errors; a call that works out need not load them.
        from cathedra.cli.errors import error_line

        line = error_line(error)
        if line is None:
            raise
        print(f"{program}: {line}", file=sys.stderr)
        return EXIT_USAGE


class _TimedOut(KeyboardInterrupt):
    """Time is up. As a `KeyboardInterrupt` it ends event loops and passes handlers of errors, as Ctrl-C does."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise `_TimedOut` in the main thread after ``seconds``, wherever it is; 0 is no limit."""

    def end(*_: object) -> None:
        raise _TimedOut

    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _examples(command: DraCommand) -> str:
    lines = ["examples:"]
    for question, words in command.examples:
        lines += [f"  # {question}", f"  {_PROGRAM} {words}"]
    return "\n".join(lines)


def _dump_command() -> str:
    kinds = "nodes,pods,resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates,devicetaintrules"
    return f"kubectl get {kinds} -A -o json > dump.json"


class DraCommand(NamedTuple):
    """A command: its name, which is also its module's, what it is for, and examples."""

    name: str
    purpose: str
    examples: tuple[tuple[str, str], ...]
    """Purpose and arguments of each example."""


COMMANDS: Final = (
    DraCommand(
        "explain",
        "explain why a pod, claim or workload is pending, or show what it has",
        (
            ("what waits, and why?", "explain -A"),
            ("why is this pod pending?", "explain pod/train-0 -n team-a"),
            ("why does this deployment not come up?", "explain deployment/inference"),
            ("would this manifest fit, and where?", "explain -f train.yaml"),
            ("why not on that node?", "explain pod/train-0 --node node-3"),
            ("the same, from a dump of the cluster", "explain pod/train-0 --dump dump.json"),
        ),
    ),
    DraCommand(
        "devices",
        "list devices, the claims that hold them, and totals",
        (
            ("all devices, with totals by driver, class, node and namespace", "devices"),
            ("which devices of a class are free?", "devices --class gpu.example.com --free"),
            ("one node, with all attributes", "devices --node node-3 -o wide"),
            ("keep looking", "devices -w"),
            ("for programs", "devices -o json"),
        ),
    ),
    DraCommand(
        "simulate",
        "simulate changes on a copy: apply, scale, add nodes, drain, taint",
        (
            ("would these pods be placed, where, and how many more?", "simulate -f train.yaml"),
            ("can this node be drained?", "simulate --drain node-3"),
            ("what do four more nodes bring?", "simulate --replicas deployment/web=40 --add-nodes 4=node-0"),
            ("would it fit on hardware that we do not have?", "simulate -f train.yaml --add-nodes 4=h100-8"),
            (
                "which pods does a broken device evict?",
                "simulate --taint gpu.example.com/node-0/gpu-1=broken:NoExecute",
            ),
            ("which pods would a taint rule evict, before it is applied?", "simulate -f rule.yaml"),
            ("in CI: exit code 1 if something stays pending", "simulate -f k8s/ --dump cluster.yaml -o json"),
        ),
    ),
    DraCommand(
        "lint",
        "check manifests before a server or a device refuses them",
        (
            ("all manifests of a directory", "lint k8s/"),
            ("the output of Helm or kustomize", "lint - < <(helm template chart)"),
            ("does it fit the devices of my cluster?", "lint k8s/ --cluster"),
            ("the same, from a dump of the cluster", "lint k8s/ --dump dump.json"),
            ("as SARIF, for a code host", "lint k8s/ -o sarif > lint.sarif"),
        ),
    ),
    DraCommand(
        "match",
        "show which devices a selector selects, fails on, or nearly selects",
        (
            ("all devices of the cluster", "match 'device.driver == \"gpu.example.com\"'"),
            ("from a dump, of one driver", "match 'EXPRESSION' --dump dump.json --driver gpu.example.com"),
            ("for programs", "match 'EXPRESSION' -o json"),
        ),
    ),
    DraCommand(
        "repl",
        "evaluate expressions on devices interactively, with completion",
        (
            ("on the devices of the cluster", "repl"),
            ("on the devices of a dump", "repl --dump dump.json"),
            ("from a script", "repl --dump dump.json < expressions.txt"),
        ),
    ),
    DraCommand(
        "convert",
        "convert manifests to another API version, or from device plugins to claims",
        (
            ("to v1, for Kubernetes 1.34 and later", "convert claims.yaml"),
            ("all files of a directory, in place, for 1.33", "convert k8s/ --to v1beta2 -i"),
            ("from nvidia.com/gpu: 2 to claims", "convert deployment.yaml --from-device-plugin"),
        ),
    ),
    DraCommand(
        "rights",
        "print the ClusterRole that reading a cluster needs",
        (("create it", "rights | kubectl apply -f -"),),
    ),
)


if __name__ == "__main__":
    sys.exit(main())
