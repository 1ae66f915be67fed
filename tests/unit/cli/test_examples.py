"""Examples in the help of all commands: each command has two, and its parser takes them."""

from __future__ import annotations

import argparse
import functools
import shlex
from collections.abc import Iterator

import pytest

from cathedra.cli import main as program
from cathedra.cli.dra import main as dra
from cathedra.cli.examples import EXAMPLES, examples
from cathedra.cli.terminal import Parser

# The word is one of two meanings of a positional argument, so that no list of sub-commands has it.
_BESIDE = (("profiles", "import"),)


@functools.cache
def program_for(words: tuple[str, ...]) -> argparse.ArgumentParser:
    """The parser of the program, with the options of the called command loaded."""
    return program._parser(list(words))


def parsers(words: tuple[str, ...] = ()) -> Iterator[Parser]:
    """The parser of a command, and those of its sub-commands."""
    parser = program_for(words)
    for word in words:
        parser = commands(parser)[word]
    assert isinstance(parser, Parser)
    yield parser
    for word in commands(parser):
        yield from parsers((*words, word))


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


PARSERS = [*parsers(), *(one for words in _BESIDE for one in parsers(words))]


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.prog)
def test_the_help_of_each_command_has_two_examples_within_the_width(
    parser: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = parser.format_help().partition("\nexamples:\n")[2].splitlines()
    assert sum(line.startswith(f"  {parser.prog}") for line in shown) >= 2
    assert max(map(len, shown)) <= 80
    assert not any(line.endswith(" ") for line in shown)


@pytest.mark.parametrize("line", [f"{prog} {words}" for prog, known in EXAMPLES.items() for _, words in known])
def test_each_example_is_taken_by_the_parser_of_its_command(line: str) -> None:
    _, *words = before_the_shell(line)
    called = max((prog for prog in EXAMPLES if f"{line} ".startswith(f"{prog} ")), key=len)
    assert vars(program_for(tuple(called.split()[1:])).parse_args(program._words(words)))


def before_the_shell(line: str) -> list[str]:
    """The words up to a redirection, a pipe or another command."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if word[0] in "<>|&;":
            break
        words.append(word)
    return words


def test_the_table_has_no_other_commands() -> None:
    assert set(EXAMPLES) == {parser.prog for parser in PARSERS}


def test_the_plugin_shows_them_under_its_own_name() -> None:
    parser = dra._parser(["explain"])
    assert "\n  kubectl dra explain -A\n" in commands(parser)["explain"].format_help()
    assert "\n  kubectl dra explain -A\n" in parser.format_help()


def test_a_parser_of_another_program_has_none() -> None:
    assert examples("tool") == ""
    assert Parser(prog="tool").format_help().endswith("exit\n")
