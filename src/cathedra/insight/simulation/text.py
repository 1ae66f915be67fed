"""A simulation as people read it: a diff of placements, and what stays pending."""

from __future__ import annotations

from collections.abc import Iterator

from cathedra.insight.explanation.funnels import counted
from cathedra.insight.explanation.text import Style, filled, names_text, plain
from cathedra.insight.simulation.model import PodPlacement, Simulation
from cathedra.printable import printable_values

__all__ = ["simulation_text"]


def simulation_text(found: Simulation, width: int = 100, style: Style = plain) -> str:
    """The whole answer."""
    found = printable_values(found)
    return "\n".join(line.rstrip() for line in _lines(found, width, style))


def _lines(found: Simulation, width: int, style: Style) -> Iterator[str]:
    for one in found.gone:
        yield from filled(f"- {one.pod} on {one.node}{_devices(one)}", width, "", "    ")
    for one in found.placed:
        sign, moved = ("~", f", before on {one.before}") if one.before else ("+", "")
        yield from filled(f"{sign} {one.pod} → {one.node}{_devices(one)}{moved}", width, "", "    ")
    for group in found.pending:
        yield from filled(f"? {names_text(group.pods)}: {group.why}", width, "", "    ")
    for text in found.failures:
        yield from filled(f"! {text}", width, "", "    ")
    if found.placed or found.gone or found.pending or found.failures:
        yield ""
    for change in found.nodes:
        yield (
            f"{change.node}: {change.held_before} → {change.held_after} of {counted(change.devices, 'device')} in use"
        )
    for copies in found.copies:
        more = f"at least {copies.more}" if copies.limited else str(copies.more)
        nodes = ", ".join(f"{number} on {node}" for node, number in list(copies.nodes.items())[:6])
        yield from filled(f"{copies.of}: {more} more would fit" + (f" ({nodes})" if nodes else ""), width, "", "    ")
    waiting = sum(len(group.pods) for group in found.pending)
    parts = [f"{counted(len(found.placed), 'pod')} placed"]
    parts += [f"{len(found.gone):,} gone"] if found.gone else []
    parts += [f"{waiting:,} pending"] if waiting else []
    yield style(", ".join(parts), "good" if found.fits else "bad") + f", settled after {found.seconds:g} s"
    for note in dict.fromkeys(note.text for note in found.notes):
        yield from filled(f"! {note}", width, "", "  ")


def _devices(one: PodPlacement) -> str:
    names = [device for devices in one.devices.values() for device in devices]
    short = [name.rpartition("/")[2] for name in names]
    return f" ({names_text(short)})" if short else ""
