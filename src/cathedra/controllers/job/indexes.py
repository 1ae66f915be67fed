"""Sets of completion indexes in their short form, as ``0,2-4``."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["format_indexes", "parse_indexes"]


def parse_indexes(text: str, completions: int) -> frozenset[int]:
    """The indexes that ``text`` names, as far as they are below ``completions``; what is malformed is left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first.isdigit() and (not dash or last.isdigit()):
            found.update(range(int(first), min(int(last if dash else first) + 1, completions)))
    return frozenset(found)


def format_indexes(indexes: Iterable[int]) -> str:
    """The short form: three and more neighbours become a range, as do two (``1,2`` stays two numbers)."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(set(indexes)), None]:
        if index is not None and run and index == run[-1] + 1:
            run.append(index)
            continue
        if run:
            parts.append(_run(run))
        run = [index] if index is not None else []
    return ",".join(parts)


def _run(run: list[int]) -> str:
    if len(run) == 1:
        return str(run[0])
    separator = "," if len(run) == 2 else "-"
    return f"{run[0]}{separator}{run[-1]}"
