"""Commands at a terminal: the parser of their words, safe output streams, JSON and YAML for programs.

The parser prints each error in one line, with the probable intention.

Everything that a command prints passes `PrintableOutput`: an attribute or error of a driver must not control the user's
terminal. Output that needs the stream itself is written to `styled` (text with the program's own colours, whose parts
were made printable before) or to `exact` (data for a file or another program).
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, TextIO, cast

from cathedra.printable import printable

PIPED: Final = 160
"""Columns where there is no terminal."""
_CODES: Final = {"title": "1", "good": "1;32", "bad": "1;31", "dim": "2"}


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Make what is printed to standard output and standard error printable within the block."""
    out, err = cast("TextIO", PrintableOutput(sys.stdout)), cast("TextIO", PrintableOutput(sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def styled(stream: TextIO) -> TextIO:
    """Return the stream below ``stream``, for text with escape sequences of the program's own."""
    return stream.stream if isinstance(stream, PrintableOutput) else stream


def exact(stream: TextIO) -> TextIO:
    """Return the stream below ``stream`` unless it is a terminal: files and pipes get data as it is."""
    return stream if stream.isatty() else styled(stream)


def print_progress(line: str) -> None:
    """Print a line at once. If its reader has closed the pipe, as ``head`` does, drop it and all later output.

    The work whose progress is shown goes on: a start must not fail because its first lines were enough for the reader.
    """
    try:
        print(line, flush=True)
    except BrokenPipeError:
        # The interpreter flushes standard output at its end, and would complain about the pipe once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class PrintableOutput(io.TextIOBase):
    """A text stream over ``stream`` that makes all that is written to it printable.

    What the program styles itself is written to ``stream`` directly, after its texts were made printable.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str, /) -> int:
        """Write ``text``, made printable. Return its number of characters."""
        self.stream.write(printable(text))
        return len(text)

    def writable(self) -> bool:
        """Return True: a stream of output."""
        return True

    def flush(self) -> None:
        """Flush the stream below."""
        self.stream.flush()

    def close(self) -> None:
        """Leave the stream below open. The garbage collector closes this one, perhaps after the one below."""

    def isatty(self) -> bool:
        """Return whether the stream below is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor of the stream below."""
        return self.stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a property in typeshed's TextIO, an attribute in TextIOBase
        """The encoding of the stream below."""
        return self.stream.encoding


# --- reports


def width() -> int:
    """Return the number of columns; ``COLUMNS`` takes precedence."""
    return shutil.get_terminal_size((PIPED, 24)).columns


def style(text: str, what: str) -> str:
    """Return ``text`` in its colour, on terminals without NO_COLOR."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or what not in _CODES:
        return text
    return f"\x1b[{_CODES[what]}m{text}\x1b[0m"


def print_styled(text: str) -> None:
    """Print ``text``, which may have escape sequences of `style`; its other parts are printable already."""
    print(text, file=styled(sys.stdout), flush=True)


def print_data(data: Mapping[str, Any], form: str) -> None:
    """Print as ``json`` or ``yaml``."""
    output = exact(sys.stdout)
    if form == "json":
        print(json.dumps(data, indent=2, ensure_ascii=False), file=output)
        return
    # start-up time: only for YAML
    from cathedra.api.decoding import write_yaml

    output.write(write_yaml(data, sort_keys=False).decode())


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
        # From Python 3.15 on, argparse makes suggestions of its own, in other words than for options.
        self.suggest_on_error = False

    def format_help(self) -> str:
        """Return the help, with the examples of the command below it."""
        from cathedra.cli.examples import examples  # start-up time: for a help alone

        return super().format_help() + examples(self.prog)

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
