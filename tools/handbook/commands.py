"""Reference of the commands, from their parsers and examples."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from cathedra.cli import main as program
from cathedra.cli.dra import main as dra
from cathedra.cli.dra.main import COMMANDS
from cathedra.cli.examples import EXAMPLES
from cathedra.cli.terminal import Parser
from tools.handbook.markdown import code, escaped, table

__all__ = ["cathedra_page", "kubectl_dra_page"]


class _Command(NamedTuple):
    words: str
    purpose: str
    parser: argparse.ArgumentParser


def cathedra_page() -> str:
    """Return the page of ``cathedra``, whose tools for questions are on the page of ``kubectl dra``."""
    introduction = (
        "Run clusters with Dynamic Resource Allocation, and single parts of one. `cathedra dra` has the commands of",
        "[`kubectl dra`](kubectl-dra.md). Exit codes: 0 for yes, 1 for no or findings, 2 for a wrong call or an error",
        "of input and output.",
    )
    names = [name for name, _, _ in _children(program._parser(()))]
    # A command loads its options only if it is the first of the words of the call.
    found = [one for name in names if name != "cathedra dra" for one in _loaded(name.split()[1:])]
    return _page("cathedra", introduction, found)


def kubectl_dra_page() -> str:
    """Return the page of ``kubectl dra``."""
    introduction = (
        "Questions about the devices of a cluster or a dump of one; [an introduction](../insight.md). Exit codes:",
        "0 for yes, 1 for no or findings, 2 for a wrong call, input that cannot be read, or no answer in time.",
    )
    root = Parser(prog="kubectl dra")
    # Every command loads its options only if it is among the words of the call.
    dra.add_commands(root, [command.name for command in COMMANDS])
    return _page("kubectl dra", introduction, list(_commands(root)))


def _page(title: str, introduction: tuple[str, ...], commands: list[_Command]) -> str:
    lines = [f"# {title}", "", *introduction, ""]
    for words, purpose, parser in commands:
        lines += _command(words, purpose, parser)
    return "\n".join(lines) + "\n"


def _loaded(words: list[str]) -> Iterator[_Command]:
    """Yield a command of ``cathedra`` and those below it."""
    root = program._parser(words)
    yield from (one for one in _commands(root) if one[0].split()[1 : len(words) + 1] == words)
    if words == ["profiles"]:
        # The word would be taken for the name of a profile, so it has a parser of its own.
        yield from (one for one in _loaded(["profiles", "import"]))


def _commands(parser: argparse.ArgumentParser) -> Iterator[_Command]:
    """Yield each command below ``parser``, depth first."""
    for one in _children(parser):
        yield one
        yield from _commands(one[2])


def _children(parser: argparse.ArgumentParser) -> Iterator[_Command]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            purposes = {one.dest: one.help or "" for one in action._choices_actions}
            # An alias is a second name for the same parser.
            first_names = {id(below): name for name, below in reversed(action.choices.items())}
            for name in reversed(first_names.values()):
                yield _Command(action.choices[name].prog, purposes.get(name, ""), action.choices[name])


def _command(words: str, purpose: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield from (f"## {words}", "")
    described = parser.description or ""
    text = described if described.lower().startswith(purpose.lower()) else f"{_sentence(purpose)} {described}"
    yield from (escaped(text.strip()), "")
    arguments = [one for one in parser._actions if _is_shown(one)]
    # Options are in the table; a usage line with thirty of them is not readable.
    positional = [_placed(one) for one in arguments if not one.option_strings]
    options = ["[OPTIONS]"] if any(one.option_strings for one in arguments) else []
    yield from ("```text", " ".join((words, *options, *positional)), "```", "")
    if arguments:
        yield from table(("argument", "meaning"), ((_names(one), _meaning(one, parser)) for one in arguments))
    examples = EXAMPLES.get(words.replace("kubectl dra", "cathedra dra", 1), ())
    if examples:
        yield "```sh"
        for does, options in examples:
            yield from (f"# {does}", f"{words} {options}".rstrip())
        yield from ("```", "")


def _placed(action: argparse.Action) -> str:
    value = _value(action)
    if action.nargs in ("*", "+"):
        value = f"{value}..."
    return f"[{value}]" if action.nargs in ("?", "*") else value


def _sentence(purpose: str) -> str:
    return f"{purpose[:1].upper()}{purpose[1:]}{'' if purpose.endswith('.') else '.'}" if purpose else ""


def _is_shown(action: argparse.Action) -> bool:
    hidden = (argparse._HelpAction, argparse._SubParsersAction)
    return action.help != argparse.SUPPRESS and not isinstance(action, hidden)


def _names(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return code(value)
    return ", ".join(code(f"{name} {value}".strip()) for name in action.option_strings)


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _meaning(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return escaped(text)
