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
        )
        one.set_defaults(module=f"dra.{command.name}", dra=True)
        if command.name in words:
            importlib.import_module(f"cathedra.cli.dra.{command.name}").add(one)


def run(arguments: argparse.Namespace, program: str) -> int:
    """Run the command of ``arguments``; errors of input are printed in one line."""
    module = importlib.import_module(f"cathedra.cli.{arguments.module}")
    # A watch goes on until it is interrupted. A plan that is carried out limits each step: the end of the whole at some
    # moment could leave nodes cordoned.
    unlimited = getattr(arguments, "watch", False) or getattr(arguments, "carry_out", False)
    timeout: float = 0.0 if unlimited else getattr(arguments, "timeout", 0.0)
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
        # Loaded here: a call that works out does not need it.
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


def _dump_command() -> str:
    kinds = "nodes,pods,resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates,devicetaintrules"
    return f"kubectl get {kinds} -A -o json > dump.json"


class DraCommand(NamedTuple):
    """A command: its name, which is also its module's, and its purpose."""

    name: str
    purpose: str


COMMANDS: Final = (
    DraCommand("explain", "explain why a pod, claim or workload is pending, or show what it has"),
    DraCommand("devices", "list devices, the claims that hold them, and totals"),
    DraCommand("usage", "sum the devices in use by namespace, class, driver or node"),
    DraCommand("map", "show devices, claims and reasons as a map in the browser"),
    DraCommand("simulate", "simulate changes on a copy: apply, scale, add nodes, drain, taint"),
    DraCommand("moves", "plan the fewest moves of pods that make room for another one"),
    DraCommand("defrag", "plan moves after which larger requests fit"),
    DraCommand("lint", "check manifests before a server or a device refuses them"),
    DraCommand("match", "show which devices a selector selects, fails on, or nearly selects"),
    DraCommand("repl", "evaluate expressions on devices interactively, with completion"),
    DraCommand("convert", "convert manifests to another API version, or from device plugins to claims"),
    DraCommand("rights", "print the ClusterRole that reading a cluster needs"),
)


if __name__ == "__main__":
    sys.exit(main())
