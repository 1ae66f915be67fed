"""A parser of command lines whose errors are one line, with the probable intention."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

__all__ = ["EXIT_USAGE", "Parser", "meant"]

EXIT_USAGE: Final = 2
"""Exit code of a wrong call."""
_CHOICE: Final = re.compile(r"argument (?P<what>[^:]*): invalid choice: '(?P<given>.*)' \(choose from (?P<known>.*)\)")
_NUMBER: Final = re.compile(r"argument (?P<what>[^:]*): invalid int value: (?P<given>.*)")
_SHOWN: Final = 6
"""Maximum number of choices that are listed; of more only the nearest is named."""


def meant(given: str, known: Sequence[str]) -> str:
    """``; did you mean 'status'?``, or nothing if no name is near."""
    near = difflib.get_close_matches(given, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


class Parser(argparse.ArgumentParser):
    """As argparse's, with one line for an error instead of the whole usage. Options are not abbreviated."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        super().__init__(*arguments, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse; here a command refuses what it does not know, so that the error is its own."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._meant(rest[0])}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Print the error in one line and exit."""
        if choice := _CHOICE.fullmatch(message):
            known = re.findall(r"'([^']*)'", choice["known"])
            listed = f" must be one of {', '.join(known)}" if len(known) <= _SHOWN else ""
            message = f"{choice['what']}{listed or ' is unknown'}: {choice['given']!r}{meant(choice['given'], known)}"
        elif number := _NUMBER.fullmatch(message):
            message = f"{number['what']} must be a whole number, got {number['given']}"
        elif message.startswith("argument "):
            message = message.removeprefix("argument ").replace(": expected one argument", " needs a value")
        print(f"{self.prog}: {message} (see: {self.prog} --help)", file=sys.stderr)
        sys.exit(EXIT_USAGE)

    def _meant(self, given: str) -> str:
        options = [name for action in self._actions for name in action.option_strings]
        return meant(given.partition("=")[0], options) if given.startswith("-") else ""
