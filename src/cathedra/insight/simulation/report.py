"""Report of a simulation: the differences between its end and its beginning, as data and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from cathedra.insight.reading.state import Note
from cathedra.insight.rendering import API_VERSION, Style, counted, names_text, plain, wrapped
from cathedra.printable import printable_values

__all__ = ["Copies", "NodeChange", "PendingPods", "PodPlacement", "Simulation", "simulation_text"]


class PodPlacement(msgspec.Struct, frozen=True, rename="camel"):
    """A pod and where it is."""

    pod: str
    """«namespace/name»."""
    node: str
    devices: Mapping[str, tuple[str, ...]] = {}
    """Claim → «driver/pool/device»."""
    before: str = ""
    """The node of an earlier pod of that name, which was evicted or deleted; "" if there was none."""
    devices_before: Mapping[str, tuple[str, ...]] = {}
    """The devices of that pod."""
    owner: str = ""
    """«kind namespace/name» of the controller; "" for pods without one."""


class PendingPods(msgspec.Struct, frozen=True, rename="camel"):
    """Pods that stay without a node for the same reason."""

    pods: tuple[str, ...]
    why: str
    before: bool = False
    """True if the pods waited before the change, and the change is not about them."""


class NodeChange(msgspec.Struct, frozen=True, rename="camel"):
    """A node with a different number of devices in use."""

    node: str
    devices: int
    held_before: int
    held_after: int


class Copies(msgspec.Struct, frozen=True, rename="camel"):
    """Number of further pods of one kind that fit beside all others."""

    of: str
    more: int
    limited: bool
    """True if the number is the limit of the copies that were tried."""
    nodes: Mapping[str, int] = {}


class Simulation(msgspec.Struct, frozen=True, rename="camel"):
    """The difference between the cluster as it was read and as it would be."""

    placed: tuple[PodPlacement, ...]
    """Pods that have a node and had none, or were created again."""
    gone: tuple[PodPlacement, ...]
    """Pods that had a node and do not have another one."""
    pending: tuple[PendingPods, ...]
    nodes: tuple[NodeChange, ...] = ()
    copies: tuple[Copies, ...] = ()
    seconds: float = 0.0
    """Until nothing changed any more, in the time of the cluster."""
    failures: tuple[str, ...] = ()
    """Failures of controllers, such as pods that a quota forbids."""
    notes: tuple[Note, ...] = ()

    @property
    def fits(self) -> bool:
        """True if every pod that the change is about has a node."""
        return all(group.before for group in self.pending) and not self.failures

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Simulation", "fits": self.fits, **found}


# --- text


def simulation_text(found: Simulation, width: int = 100, style: Style = plain) -> str:
    """Return the report as text."""
    found = printable_values(found)
    return "\n".join(line.rstrip() for line in _lines(found, width, style))


def _lines(found: Simulation, width: int, style: Style) -> Iterator[str]:
    for one in found.gone:
        yield from wrapped(f"- {one.pod} on {one.node}{_devices(one.devices)}", width, "", "    ")
    for one in found.placed:
        sign, moved = ("~", f", before on {one.before}{_devices(one.devices_before)}") if one.before else ("+", "")
        yield from wrapped(f"{sign} {one.pod} → {one.node}{_devices(one.devices)}{moved}", width, "", "    ")
    for group in found.pending:
        waited = " (waited before)" if group.before else ""
        yield from wrapped(f"? {names_text(group.pods)}{waited}: {group.why}", width, "", "    ")
    for text in found.failures:
        yield from wrapped(f"! {text}", width, "", "    ")
    if found.placed or found.gone or found.pending or found.failures:
        yield ""
    for change in found.nodes:
        yield (
            f"{change.node}: {change.held_before} → {change.held_after} of {counted(change.devices, 'device')} in use"
        )
    for copies in found.copies:
        more = f"at least {copies.more}" if copies.limited else str(copies.more)
        nodes = ", ".join(f"{number} on {node}" for node, number in list(copies.nodes.items())[:6])
        yield from wrapped(f"{copies.of}: {more} more would fit" + (f" ({nodes})" if nodes else ""), width, "", "    ")
    waiting = sum(len(group.pods) for group in found.pending)
    parts = [f"{counted(len(found.placed), 'pod')} placed"]
    parts += [f"{len(found.gone):,} gone"] if found.gone else []
    parts += [f"{waiting:,} pending"] if waiting else []
    yield style(", ".join(parts), "good" if found.fits else "bad") + f", settled after {found.seconds:g} s"
    for note in dict.fromkeys(note.text for note in found.notes):
        yield from wrapped(f"! {note}", width, "", "  ")


def _devices(claims: Mapping[str, tuple[str, ...]]) -> str:
    names = [device for devices in claims.values() for device in devices]
    short = [name.rpartition("/")[2] for name in names]
    return f" ({names_text(short)})" if short else ""
