"""Report of a simulation: the differences between its end and its beginning, as data and as text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.insight.drawing.pages import simulation_html
from cathedra.insight.inventory.report import DeviceEntry
from cathedra.insight.reading.state import Note
from cathedra.insight.rendering import API_VERSION, Style, names_text, plain, wrapped
from cathedra.printable import counted, printable_values


class PodPlacement(msgspec.Struct, frozen=True, rename="camel"):
    """A pod and where it is."""

    pod: str
    """The pod as «namespace/name»."""
    node: str
    devices: Mapping[str, tuple[str, ...]] = {}
    """Devices of each claim, as «driver/pool/device»."""
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


class CopyRoom(msgspec.Struct, frozen=True, rename="camel"):
    """Copies of a gang, or of a pod, whose devices are of the same classes, in one topology domain."""

    device_classes: tuple[str, ...]
    """Classes of the devices, in order; of a prioritized list that of the alternative which was chosen."""
    domain: str
    """Value of the label or attribute that its pods have in common; "" if there is no such constraint."""
    copies: int


class Copies(msgspec.Struct, frozen=True, rename="camel"):
    """Number of further pods of one kind that fit beside all others."""

    of: str
    more: int
    limited: bool
    """True if the number is the limit of the copies that were tried."""
    is_gang: bool = False
    """True if a copy is a whole gang."""
    nodes: Mapping[str, int] = {}
    """Node → the pods of the copies there."""
    domains: Mapping[str, int] = {}
    """Of a gang whose pods are to be in one topology domain: domain → the copies there."""
    rooms: tuple[CopyRoom, ...] = ()
    """The copies by device classes and domain."""


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
    added: tuple[DeviceEntry, ...] = ()
    """Devices of nodes that the cluster does not have, as they would be; empty if there are more than 20,000."""

    @property
    def fits(self) -> bool:
        """True if every pod that the change is about has a node."""
        return all(group.before for group in self.pending) and not self.failures

    def __repr__(self) -> str:
        pending = sum(len(one.pods) for one in self.pending)
        return f"Simulation({len(self.placed)} placed, {len(self.gone)} gone, {pending} pending, fits={self.fits})"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Simulation", "fits": self.fits, **found}

    def _repr_html_(self) -> str:
        return simulation_html(self.to_dict())


# --- text


LISTED: Final = 20
"""Largest number of pods, and of nodes, that are listed one by one in a text that is not wide."""


def simulation_text(found: Simulation, width: int = 100, style: Style = plain, *, wide: bool = False) -> str:
    """Return the report as text. Many pods and nodes are summed up by workloads and equal nodes, unless it is
    ``wide``."""
    found = printable_values(found)
    return "\n".join(line.rstrip() for line in _lines(found, width, style, LISTED if not wide else sys.maxsize))


def _lines(found: Simulation, width: int, style: Style, listed: int) -> Iterator[str]:
    for one in found.gone if len(found.gone) <= listed else ():
        yield from wrapped(f"- {one.pod} on {one.node}{_devices(one.devices)}", width, "", "    ")
    if len(found.gone) > listed:
        yield from _grouped_pods("-", found.gone, width)
    if len(found.placed) > listed:
        yield from _grouped_pods("+", [one for one in found.placed if not one.before], width)
        yield from _grouped_pods("~", [one for one in found.placed if one.before], width)
    for one in found.placed if len(found.placed) <= listed else ():
        sign, moved = ("~", f", before on {one.before}{_devices(one.devices_before)}") if one.before else ("+", "")
        yield from wrapped(f"{sign} {one.pod} → {one.node}{_devices(one.devices)}{moved}", width, "", "    ")
    for group in found.pending:
        waited = " (waited before)" if group.before else ""
        yield from wrapped(f"? {names_text(group.pods)}{waited}: {group.why}", width, "", "    ")
    for text in found.failures:
        yield from wrapped(f"! {text}", width, "", "    ")
    if found.placed or found.gone or found.pending or found.failures:
        yield ""
    for change, nodes in _equal_nodes(found.nodes, alone=len(found.nodes) <= listed):
        where = nodes[0] if len(nodes) == 1 else f"{len(nodes):,} nodes ({names_text(nodes)})"
        used = f"{change.held_before} → {change.held_after} of {counted(change.devices, 'device')} in use"
        each = " on each" if len(nodes) > 1 else ""
        yield from wrapped(f"{where}: {used}{each}", width, "", "    ")
    for copies in found.copies:
        more = f"at least {copies.more}" if copies.limited else str(copies.more)
        unit = " pods on" if copies.is_gang else " on"
        several = len({one.device_classes for one in copies.rooms}) > 1
        places = [_room_text(one, with_classes=several) for one in copies.rooms if one.domain or several]
        places = places or [f"{number}{unit} {node}" for node, number in copies.nodes.items()]
        some = ", ".join(places[:6])
        yield from wrapped(f"{copies.of}: {more} more would fit" + (f" ({some})" if some else ""), width, "", "    ")
    waiting = sum(len(group.pods) for group in found.pending)
    parts = [f"{counted(len(found.placed), 'pod')} placed"]
    parts += [f"{len(found.gone):,} gone"] if found.gone else []
    parts += [f"{waiting:,} pending"] if waiting else []
    yield style(", ".join(parts), "good" if found.fits else "bad") + f", settled after {found.seconds:g} s"
    for note in dict.fromkeys(note.text for note in found.notes):
        yield from wrapped(f"! {note}", width, "", "  ")


def _room_text(room: CopyRoom, *, with_classes: bool) -> str:
    classes = f" with {' and '.join(room.device_classes)}" if with_classes and room.device_classes else ""
    return f"{room.copies}{classes}" + (f" in {room.domain}" if room.domain else "")


def _grouped_pods(sign: str, pods: Sequence[PodPlacement], width: int) -> Iterator[str]:
    """Yield one line for the pods of each workload that have equal numbers of devices."""
    groups: dict[tuple[str, int], list[PodPlacement]] = {}
    for one in pods:
        held = sum(map(len, one.devices.values()))
        groups.setdefault((one.owner or f"pod {one.pod}", held), []).append(one)
    for (owner, held), members in groups.items():
        nodes = list(dict.fromkeys(one.node for one in members))
        each = f", {counted(held, 'device')} each" if held else ""
        text = f"{sign} {counted(len(members), 'pod')} of {owner}" if len(members) > 1 else f"{sign} {owner}"
        where = f"on {counted(len(nodes), 'node')} ({names_text(nodes)}{each})"
        yield from wrapped(f"{text} {where}", width, "", "    ")


def _equal_nodes(nodes: Iterable[NodeChange], *, alone: bool) -> Iterator[tuple[NodeChange, tuple[str, ...]]]:
    """Yield the changes of nodes with the names of all nodes that have the same; ``alone`` leaves each by itself."""
    groups: dict[object, list[NodeChange]] = {}
    for one in nodes:
        groups.setdefault(one if alone else (one.devices, one.held_before, one.held_after), []).append(one)
    for members in groups.values():
        yield members[0], tuple(one.node for one in members)


def _devices(claims: Mapping[str, tuple[str, ...]]) -> str:
    names = [device for devices in claims.values() for device in devices]
    short = [name.rpartition("/")[2] for name in names]
    return f" ({names_text(short)})" if short else ""
