"""Matches as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cathedra.insight.explanation.funnels import counted
from cathedra.insight.explanation.text import Style, filled, plain
from cathedra.insight.inventory.text import table_lines
from cathedra.insight.matching.model import SelectorMatch
from cathedra.printable import printable_values

__all__ = ["devices_named", "match_text"]

_NAMED: Final = 8
"""Devices that are named; more are counted."""


def match_text(found: SelectorMatch, width: int = 100, style: Style = plain, *, wide: bool = False) -> str:
    """Totals first, then devices, errors, and what nearly matches; ``wide`` names every device."""
    found = printable_values(found)
    return "\n".join(line.rstrip() for line in _lines(found, width, style, named=10**9 if wide else _NAMED))


def _lines(found: SelectorMatch, width: int, style: Style, named: int) -> Iterator[str]:
    failed = sum(len(one.devices) for one in found.failures)
    total = f"matches {len(found.matched)} of {counted(found.devices, 'device')}"
    rest = f"; fails on {failed}" if failed else ""
    yield style(total, "good" if found.matched else "bad") + style(rest, "bad")
    if found.matched:
        yield from filled(devices_named(found.matched, named), width, "  ", "  ")
    if len(found.nodes) > 1:
        shown = [f"{name or 'several nodes'} {number}" for name, number in list(found.nodes.items())[:named]]
        more = f" and {len(found.nodes) - len(shown)} more" if len(found.nodes) > len(shown) else ""
        yield from filled(f"by node: {', '.join(shown)}{more}", width, "  ", "    ")
    for failure in found.failures:
        yield ""
        yield from filled(f"Fails on {counted(len(failure.devices), 'device')}: {failure.error}", width, "", "  ")
        yield from filled(devices_named(failure.devices, named), width, "  ", "  ")
    if len(found.conditions) > 1:
        yield ""
        head = ("MET", "UNMET", "FAILS", "ONLY THIS", "CONDITION")
        rows = [
            (str(c.met), str(c.unmet), str(c.failed), str(c.alone), " ".join(c.text.split())) for c in found.conditions
        ]
        yield from table_lines(head, rows, width, style)
    if found.near_misses:
        yield ""
        yield style("Near misses: one condition alone keeps them out", "title")
        for miss in found.near_misses:
            why = miss.error or ", ".join(
                f"{' '.join(source.split())} is {value}" for source, value in miss.values.items()
            )
            yield from filled(f"- {' '.join(miss.condition.split())}{f': {why}' if why else ''}", width, "  ", "    ")
            yield from filled(devices_named(miss.devices, named), width, "      ", "      ")
    for note in found.notes:
        yield from filled(f"! {note.text}", width, "", "  ")


def devices_named(names: Sequence[str], number: int = _NAMED) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - number} more" if len(names) > number else ""
    return f"{', '.join(names[:number])}{more}"
