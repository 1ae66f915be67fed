"""Markdown of generated pages: tables, escaped text, and the anchors that Python-Markdown gives to headings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["anchor", "code", "escaped", "table"]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table and an empty line."""
    yield _row(columns)
    yield _row(["---"] * len(columns))
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[str]) -> str:
    # A bar ends a cell, also inside of code.
    return f"| {' | '.join(cell.replace('|', '&#124;').replace(chr(10), ' ') for cell in cells)} |"


def code(text: str) -> str:
    """Return ``text`` as code within a line; bars and angle brackets keep their meaning as characters."""
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<code>{re.sub(r'([*_`~$|])', lambda found: f'&#{ord(found[1])};', shown)}</code>"


def escaped(text: str) -> str:
    """Return plain text, such as a help text, so that no character of it is markup."""
    return re.sub(r"([\\`*_<\[\]])", r"\\\1", text).replace("\\<", "&lt;")


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as Python-Markdown's extension for tables of contents derives it."""
    plain = unicodedata.normalize("NFKD", re.sub(r"<[^>]*>|[`*]", "", heading)).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
