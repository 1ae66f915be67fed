"""An overview drawn for a terminal. `rich` is imported only when this module is."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from cathedra.cluster.overview import Overview

__all__ = ["draw", "make_console"]

UNBOUNDED: Final = 240
"""Columns where there is no terminal: in a file or a pipe a row stays on its line."""


def make_console() -> Console:
    """Where tables are drawn: as wide as the terminal, if it is one."""
    return Console(width=None if sys.stdout.isatty() else UNBOUNDED)


def draw(overview: Overview, console: Console) -> None:
    """Print nodes, devices, claims and pods."""
    _print(
        console,
        "Nodes",
        ("name", "ready", "devices", "allocated"),
        ((row.name, "yes" if row.ready else "no", str(row.devices), str(row.allocated)) for row in overview.nodes),
    )
    _print(
        console,
        "Devices",
        ("node", "driver", "device", "attributes", "capacity", "held by"),
        (
            (row.node, row.driver, row.name, _few(row.attributes), _few(row.capacity), ", ".join(row.claims) or "–")
            for row in overview.devices
        ),
    )
    _print(
        console,
        "Claims",
        ("namespace", "name", "state", "devices", "reserved for"),
        (
            (row.namespace, row.name, row.state, ", ".join(row.devices) or "–", ", ".join(row.reserved_for) or "–")
            for row in overview.claims
        ),
    )
    _print(
        console,
        "Pods",
        ("namespace", "name", "phase", "node", "claims", "why"),
        (
            (row.namespace, row.name, row.phase, row.node or "–", ", ".join(row.claims) or "–", row.why)
            for row in overview.pods
        ),
    )


def _few(pairs: dict[str, str]) -> str:
    """The short ones of the driver itself; uuids and bus addresses are what ``kubectl get -o yaml`` is for."""
    return " ".join(f"{name}={value}" for name, value in pairs.items() if len(value) <= 20 and "/" not in name)


def _print(console: Console, title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table if table.row_count else f"[bold]{title}[/bold]\n  none\n")
