"""Output of commands: text of the terminal's width with colours on terminals, JSON and YAML for programs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any, Final

from cathedra.cli.terminal import exact, styled

__all__ = ["print_data", "print_styled", "style", "width"]

PIPED: Final = 160
"""Columns where there is no terminal."""
_CODES: Final = {"title": "1", "good": "1;32", "bad": "1;31", "dim": "2"}


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
