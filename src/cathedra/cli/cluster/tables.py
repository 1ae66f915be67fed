"""An overview drawn for a terminal: tables where they fit, lines where they do not. Words are never broken.

`rich` is imported only when this module is.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from cathedra.cli.terminal import styled
from cathedra.cluster.views.overview import DeviceRow, NodeRow, Overview
from cathedra.printable import counted, printable_values

UNBOUNDED: Final = 240
"""Columns where there is no terminal: in a file or a pipe a row stays on its line."""
INDENT: Final = "    "


def make_console() -> Console:
    """Return the console for tables: as wide as ``COLUMNS`` or the terminal, without colours for numbers."""
    width = None if sys.stdout.isatty() else shutil.get_terminal_size((UNBOUNDED, 24)).columns
    return Console(file=styled(sys.stdout), width=width, highlight=False)


def draw(overview: Overview, console: Console) -> None:
    """Print nodes, devices, claims, pods and totals."""
    overview = printable_values(overview)
    for warning in overview.warnings:
        _print_lines(console, f"warning: {warning}", "", indent="")
    _print(
        console,
        "Nodes",
        ("name", "ready", "devices", "allocated", "blocked", "tainted", "free"),
        ((row.name, "yes" if row.ready else "no", *map(str, _counts(row))) for row in overview.nodes),
        ((_node_line(row), "") for row in overview.nodes),
    )
    _draw_devices(overview, console)
    _draw_claims(overview, console)
    _draw_pods(overview, console)
    _print_lines(console, overview.totals(), "", indent="")


def _draw_devices(overview: Overview, console: Console) -> None:
    _print(
        console,
        "Devices",
        ("node", "driver", "device", "state", "held by", "attributes", "capacity"),
        (
            (
                *(row.node or "–", row.driver, row.name, _state(row), ", ".join(row.claims) or "–"),
                *(_few(row.attributes), _few(row.capacity)),
            )
            for row in overview.devices
        ),
        (
            (f"{row.node or row.pool}/{row.name}: {_state(row)}", _after("held by", row.claims))
            for row in overview.devices
        ),
    )


def _draw_claims(overview: Overview, console: Console) -> None:
    _print(
        console,
        "Claims",
        ("namespace", "name", "state", "devices", "reserved for"),
        (
            (row.namespace, row.name, row.state, ", ".join(row.devices) or "–", ", ".join(row.reserved_for) or "–")
            for row in overview.claims
        ),
        ((f"{row.namespace}/{row.name}: {row.state}", _after("with", row.devices)) for row in overview.claims),
    )


def _draw_pods(overview: Overview, console: Console) -> None:
    """Print the pods, and the reasons of those that wait."""
    _print(
        console,
        "Pods",
        ("namespace", "name", "phase", "node", "claims"),
        ((row.namespace, row.name, row.phase, row.node or "–", ", ".join(row.claims) or "–") for row in overview.pods),
        (
            (f"{row.namespace}/{row.name}: {row.phase}" + (f" on {row.node}" if row.node else ""), "")
            for row in overview.pods
        ),
    )
    waiting = [row for row in overview.pods if row.why]
    if waiting:
        console.print("[bold]Why pods wait[/bold]")
        for row in waiting:
            _print_lines(console, f"{row.namespace}/{row.name}", row.why)
        console.print()


def _counts(row: NodeRow) -> tuple[int, ...]:
    return row.devices, row.allocated, row.blocked, row.tainted, row.free


def _node_line(row: NodeRow) -> str:
    return f"{row.name}: {'ready' if row.ready else 'not ready'}, {counted(row.devices, 'device')}, {row.free} free"


def _state(row: DeviceRow) -> str:
    return f"{row.state}: {', '.join(row.taints)}" if row.taints else row.state


def _after(word: str, names: tuple[str, ...]) -> str:
    return f"{word} {', '.join(names)}" if names else ""


def _few(pairs: dict[str, str]) -> str:
    """Return the pairs with short values and unqualified names; ``kubectl get -o yaml`` shows the others."""
    return " ".join(f"{name}={value}" for name, value in pairs.items() if len(value) <= 20 and "/" not in name)


def _print(
    console: Console,
    title: str,
    columns: Sequence[str],
    rows: Iterable[tuple[str, ...]],
    lines: Iterable[tuple[str, str]],
) -> None:
    """Print a table if it fits without breaking a word, else without its last columns, else one or two lines per
    row."""
    kept = list(rows)
    if not kept:
        console.print(f"[bold]{title}[/bold]\n  none\n")
        return
    for table in _tables(title, columns, kept):
        if Measurement.get(console, console.options.update(max_width=10_000), table).maximum <= console.width:
            _print_table(console, table)
            return
    console.print(f"[bold]{title}[/bold]")
    for first, second in lines:
        both = f"{first}, {second}"
        if second and len(both) <= console.width - 2:
            first, second = both, ""
        _print_lines(console, first, second)
    console.print()


def _print_table(console: Console, table: Table) -> None:
    if console.is_terminal:
        console.print(table)
        return
    # In a file or a pipe the blanks at the ends of lines would stay.
    with console.capture() as drawn:
        console.print(table)
    text = "\n".join(line.rstrip() for line in drawn.get().splitlines())
    console.print(text, markup=False, soft_wrap=True)


def _tables(title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Iterator[Table]:
    for count in range(len(columns), max(len(columns) - 2, 4) - 1, -1):
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
        for column in columns[:count]:
            table.add_column(column, no_wrap=True)
        for row in rows:
            table.add_row(*row[:count])
        yield table


def _print_lines(console: Console, first: str, second: str, indent: str = "  ") -> None:
    for text, margin in ((first, indent), (second, INDENT)):
        if text:
            filled = textwrap.fill(
                text,
                console.width if console.is_terminal or "COLUMNS" in os.environ else sys.maxsize,
                initial_indent=margin,
                subsequent_indent=margin,
                break_long_words=False,
                break_on_hyphens=False,
            )
            console.print(filled, markup=False, soft_wrap=True)
