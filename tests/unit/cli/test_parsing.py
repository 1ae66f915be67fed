"""Wrong calls: one line with the error and the probable intention."""

from __future__ import annotations

import argparse

import pytest

from cathedra.cli.terminal import EXIT_USAGE, Parser, meant


def parser() -> Parser:
    made = Parser(prog="tool")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    run = commands.add_parser("run")
    run.add_argument("--count", type=int)
    run.add_argument("--colour", choices=("red", "green"))
    run.add_argument("--follow", action="store_true")
    for name in ("stop", "list", "show", "wait", "copy", "move"):
        commands.add_parser(name)
    return made


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", "tool: the following arguments are required: COMMAND (see: tool --help)"),
        ("shwo", "tool: COMMAND is unknown: 'shwo'; did you mean 'show'? (see: tool --help)"),
        ("xyzzy", "tool: COMMAND is unknown: 'xyzzy' (see: tool --help)"),
        ("run --count", "tool run: --count needs a value (see: tool run --help)"),
        ("run --count many", "tool run: --count must be a whole number, got 'many' (see: tool run --help)"),
        (
            "run --colour gren",
            "tool run: --colour must be one of red, green: 'gren'; did you mean 'green'? (see: tool run",
        ),
        ("run --folow", "tool run: unrecognized arguments: --folow; did you mean '--follow'? (see: tool run --help)"),
        (
            "run --folow=1",
            "tool run: unrecognized arguments: --folow=1; did you mean '--follow'? (see: tool run --help)",
        ),
        ("run --foll", "tool run: unrecognized arguments: --foll; did you mean '--follow'? (see: tool run --help)"),
        ("run a b", "tool run: unrecognized arguments: a b (see: tool run --help)"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(words: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words.split())
    printed = capsys.readouterr()
    assert ended.value.code == EXIT_USAGE
    assert printed.err.startswith(line)
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_a_right_call_is_read_as_ever() -> None:
    assert parser().parse_args(["run", "--count=2", "--follow"]) == argparse.Namespace(
        count=2, colour=None, follow=True
    )


def test_only_what_is_near_was_meant() -> None:
    assert meant("nodse", ["nodes", "gpus"]) == "; did you mean 'nodes'?"
    assert meant("store", ["nodes", "gpus"]) == ""
