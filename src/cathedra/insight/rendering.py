"""Layout of reports: amounts, wrapped lines and tables; and the version of the JSON form."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

API_VERSION: Final = "cathedra.dev/v1"
Style = Callable[[str, str], str]
"""A text and its role («title», «good», «bad», «dim») → the styled text."""
_NAMES: Final = 4
"""Names that a list of names has before «and N more»."""
_NO_MARKS: Final[Mapping[str, str]] = {}


def plain(text: str, what: str) -> str:
    """Return the text without any style."""
    return text


def wrapped(text: str, width: int, margin: str = "", following: str | None = None) -> list[str]:
    """``text`` in lines of at most ``width`` columns, if its words are no longer."""
    following = margin if following is None else following
    # Names of devices and expressions contain hyphens; broken there they could not be copied.
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=margin,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )


def names_text(names: Sequence[str]) -> str:
    """Return the first few names, and how many more."""
    shown = ", ".join(names[:_NAMES])
    more = len(names) - _NAMES
    return f"{shown} and {more:,} more" if more > 0 else shown


def amount_text(resource: str, amount: int) -> str:
    """Return an amount as people write it; cpu is counted in thousandths."""
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in ("memory", "ephemeral-storage"):
        for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if amount and amount % size == 0:
                return f"{amount // size}{unit}"
    return str(amount)


def table_lines(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None,
    style: Style,
    marks: Mapping[str, str] = _NO_MARKS,
) -> Iterator[str]:
    """Yield the lines of a table without its empty columns, and without the last ones if ``width`` is too small.

    ``marks`` are the styles of the values in the column STATE.
    """
    kept = [place for place in range(len(head)) if place == 0 or any(row[place] for row in rows)]
    sizes = {place: max(len(head[place]), *(len(row[place]) for row in rows)) for place in kept}
    # The first columns identify a row, so the last ones are dropped first.
    while width is not None and len(kept) > 3 and sum(sizes[place] + 2 for place in kept) - 2 > width:
        kept.pop()
    if width is not None and (over := sum(sizes[place] + 2 for place in kept) - 2 - width) > 0:
        widest = max(kept, key=lambda place: sizes[place])
        sizes[widest] = max(sizes[widest] - over, len(head[widest]), 12)
    yield style("  ".join(head[place].ljust(sizes[place]) for place in kept), "title")
    for row in rows:
        cells = []
        for place in kept:
            cell = _cut(row[place], sizes[place]).ljust(sizes[place])
            cells.append(style(cell, marks.get(row[place], "")) if head[place] == "STATE" and marks else cell)
        yield "  ".join(cells)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"
