"""``kubectl dra repl``: expressions against the devices at hand, line by line.

On a terminal with completion and a history; from a pipe plain lines in and out.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cathedra.cli.dra.source import add_source, read_state
from cathedra.cli.terminal import width
from cathedra.cluster.config import default_data_dir
from cathedra.insight.matching import ReplSession, SessionEnded
from cathedra.printable import printable

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_PROMPT: Final = "device> "
_HISTORY: Final = "repl-history"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--driver", default="", metavar="NAME", help="use devices of this driver only")
    add_source(parser)


def run(arguments: argparse.Namespace) -> int:
    """Answer until the end of the input."""
    session = ReplSession(read_state(arguments), arguments.driver)
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    if interactive:
        print(session.greeting)
    try:
        for line in _typed(session) if interactive else sys.stdin:
            _show(session.answer(line, width()), paged=interactive)
    except SessionEnded:
        pass
    return 0


def _show(lines: Sequence[str], *, paged: bool) -> None:
    """Print an answer; one that is longer than the terminal through the user's pager."""
    if not paged or len(lines) < shutil.get_terminal_size().lines:
        for line in lines:
            print(line, flush=True)
        return
    # start-up time: with long answers alone
    import pydoc

    pydoc.pager("\n".join(map(printable, lines)))


def _typed(session: ReplSession) -> Iterator[str]:
    """Lines from a terminal, until Ctrl-D; Ctrl-C drops the line that was begun."""
    prompt = _prompt(session)
    while True:
        try:
            yield prompt.prompt(_PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def _prompt(session: ReplSession) -> PromptSession[str]:
    # start-up time: with a terminal alone
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class AttributeCompleter(Completer):
        """Completes the attributes of the present devices."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
            for text, replaced in session.completions(document.text_before_cursor):
                yield Completion(text, start_position=-replaced)

    path = _history_file()
    history: Any = FileHistory(str(path)) if path is not None else InMemoryHistory()
    return PromptSession(history=history, completer=AttributeCompleter(), complete_while_typing=False)


def _history_file() -> Path | None:
    """Return the file of the history; None if it cannot be written."""
    folder = default_data_dir().expanduser()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / _HISTORY).open("a"):
            return folder / _HISTORY
    except OSError:
        return None
