"""Devices as people read them: a table that drops its last columns where the terminal is narrow, and totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cathedra.insight.explanation.funnels import counted
from cathedra.insight.explanation.text import Style, filled, plain
from cathedra.insight.inventory.model import DeviceEntry, DeviceHolder, DeviceList, Total
from cathedra.printable import printable_values

__all__ = ["devices_text", "table_lines"]

_SHORT: Final = 20
"""Attributes with longer values are told in the wide form only."""
_NODES: Final = 12
"""Totals by node are told for so many nodes; more are left to the wide form."""
_MARKS: Final = {"free": "good", "shared": "good", "held": "", "blocked": "bad", "tainted": "bad"}


def devices_text(found: DeviceList, width: int = 100, style: Style = plain, *, wide: bool = False) -> str:
    """Rows, then totals."""
    found = printable_values(found)
    lines = list(_lines(found, width, style, wide=wide))
    return "\n".join(line.rstrip() for line in lines)


def _lines(found: DeviceList, width: int, style: Style, *, wide: bool) -> Iterator[str]:
    if found.devices:
        name = "DRIVER/POOL/DEVICE" if wide else "DEVICE"
        head = ["NODE", name, "STATE", "HELD BY", "LEFT", "TAINTS", "ATTRIBUTES"]
        if wide:
            head += ["CLASSES", "HEALTH"]
        rows = [_cells(row, wide=wide) for row in found.devices]
        yield from table_lines(head, rows, None if wide else width, style, state=2)
        yield ""
    else:
        yield "no device matches"
        yield ""
    for title, totals in (
        ("driver", found.drivers),
        ("class", found.classes),
        ("node", found.nodes if len(found.nodes) <= _NODES or wide else ()),
    ):
        if totals:
            yield from table_lines(_head(title), [_total_cells(one) for one in totals], width, style)
            yield ""
    if found.namespaces:
        yield from table_lines(
            ("NAMESPACE", "DEVICES HELD"), [(one.name, str(one.held)) for one in found.namespaces], width, style
        )
        yield ""
    yield from filled(_sentence(found.total), width)
    for text in found.pools:
        yield from filled(f"! {text}", width, "", "  ")
    for note in found.notes:
        yield from filled(f"! {note.text}", width, "", "  ")


def _head(title: str) -> tuple[str, ...]:
    return (title.upper(), "DEVICES", "FREE", "HELD", "BLOCKED", "TAINTED", "UNUSABLE")


def _total_cells(one: Total) -> tuple[str, ...]:
    return (one.name, *map(str, (one.devices, one.free, one.held, one.blocked, one.tainted, one.unusable)))


def _sentence(total: Total) -> str:
    parts = [f"{getattr(total, name):,} {name}" for name in ("free", "held", "blocked", "tainted", "unusable")]
    return f"{counted(total.devices, 'device')}: {', '.join(part for part in parts if not part.startswith('0 '))}"


def _cells(row: DeviceEntry, *, wide: bool) -> tuple[str, ...]:
    attributes = {
        name: text for name, text in row.attributes.items() if wide or (len(text) <= _SHORT and "/" not in name)
    }
    name = "/".join((row.driver, row.pool, row.device)) if wide else row.device
    if not wide and row.pool not in (row.node, ""):
        name = f"{row.pool}/{row.device}"
    left = {**row.left, **(row.counters if row.state == "blocked" or wide else {})}
    shared = row.left or row.counters
    cells = (
        row.node or "–",
        name,
        row.state + ("" if row.health in ("", "Healthy") else f" {row.health.lower()}"),
        ", ".join(_holder(one) for one in row.holders) or "–",
        " ".join(f"{key}={text}" for key, text in left.items()) if shared else "",
        ",".join(row.taints),
        " ".join(f"{key}={text}" for key, text in {**attributes, **row.capacity}.items()),
    )
    return (*cells, ",".join(row.classes), row.health) if wide else cells


def _holder(one: DeviceHolder) -> str:
    pods = f" ({', '.join(one.pods[:2])}{' …' if len(one.pods) > 2 else ''})" if one.pods else ""
    consumed = " " + " ".join(f"{name}={amount}" for name, amount in one.consumed.items()) if one.consumed else ""
    return f"{one.claim}{consumed}{pods}" + (" admin" if one.admin_access else "")


def table_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, style: Style, state: int = -1
) -> Iterator[str]:
    """A table; empty columns are left out, and the last ones where ``width`` is too small for them."""
    kept = [place for place in range(len(head)) if place == 0 or any(row[place] for row in rows)]
    sizes = {place: max(len(head[place]), *(len(row[place]) for row in rows)) for place in kept}
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
            cells.append(style(cell, _MARKS.get(row[place], "")) if place == state else cell)
        yield "  ".join(cells)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"
