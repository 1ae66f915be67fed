"""The plan of moves, as data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from cathedra.insight.moving.movable import Staying
from cathedra.insight.reading.state import Note
from cathedra.insight.rendering import API_VERSION, Style, names_text, plain, wrapped
from cathedra.insight.simulation.report import PodPlacement
from cathedra.printable import counted, printable_values


class Move(msgspec.Struct, frozen=True, rename={"from_": "from", "devices_before": "devicesBefore"}):
    """One pod that is evicted, and where it has its place afterwards."""

    pod: str
    """The pod as «namespace/name»; the claim if no pod uses it."""
    claims: tuple[str, ...]
    from_: str
    to: str
    """The node in the plan; "" for a pod that is left without a node."""
    devices_before: Mapping[str, tuple[str, ...]] = {}
    """Claim → its devices, as «driver/pool/device»."""
    devices: Mapping[str, tuple[str, ...]] = {}
    bare: bool = False
    """True if no controller creates the pod again."""


class MoveStep(msgspec.Struct, frozen=True):
    """A step of the plan."""

    action: str
    """«cordon», «evict», «recreate», «free» or «uncordon»."""
    subject: str
    """The node, the pod or the claim."""
    text: str
    command: str
    waits: bool = True
    """False if the next step is taken at once: the pods of a gang move to another domain together."""


class MovePlan(msgspec.Struct, frozen=True, rename="camel"):
    """The fewest claims to move so that pods fit, with the steps."""

    subject: str
    verdict: str
    """«fits» without a move, «fits after moves», or «no moves found»."""
    moves: tuple[Move, ...] = ()
    steps: tuple[MoveStep, ...] = ()
    placed: tuple[PodPlacement, ...] = ()
    """Nodes and devices of the pods of the question afterwards."""
    proved: bool | None = None
    """True if a simulation of the steps ended with nodes for all pods; None if none was made."""
    proof: str = ""
    """The end of the simulation, if it did not prove the plan."""
    complete: bool = True
    """True if no plan with fewer claims exists; False if the search ended at its bound."""
    trials: int = 0
    most: int = 0
    """The largest number of claims that the search may move."""
    staying: tuple[Staying, ...] = ()
    """Pods that were not considered for a move."""
    notes: tuple[Note, ...] = ()

    @property
    def fits(self) -> bool:
        """True if the pods fit, now or after the moves."""
        return self.verdict != "no moves found" and self.proved is not False

    @property
    def claims(self) -> tuple[str, ...]:
        """Return the claims that are moved."""
        return tuple(dict.fromkeys(name for move in self.moves for name in move.claims))

    def __repr__(self) -> str:
        return f"MovePlan({self.subject!r}, {self.verdict!r}, {len(self.claims)} claims, proved={self.proved})"

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "MovePlan", "fits": self.fits, **found}


def moves_text(found: MovePlan, width: int = 100, style: Style = plain) -> str:
    """Return the plan as text."""
    found = printable_values(found)
    return "\n".join(line.rstrip() for line in _lines(found, width, style))


def _lines(found: MovePlan, width: int, style: Style) -> Iterator[str]:
    yield style(f"{found.subject}: {_verdict(found)}", "good" if found.fits else "bad")
    for move in found.moves:
        yield from wrapped(move_line(move), width, "  ", "      ")
    if found.steps:
        yield ""
        yield style("Steps", "title")
        yield from step_lines(found.steps, width, style)
    if found.placed:
        yield ""
    for one in found.placed:
        yield from wrapped(f"+ {one.pod} → {one.node}{_names(one.devices)}", width, "", "    ")
    if found.proved is not None:
        text = "a simulation of these steps ends with nodes for all pods" if found.proved else found.proof
        yield from wrapped(text, width, "", "  ")
    if not found.complete:
        less = "fewer moves" if found.moves else "moves that make room"
        yield from wrapped(f"the search ended after {found.trials:,} trials: there may be {less}", width, "", "  ")
    if found.verdict == "no moves found":
        if found.complete:
            yield from wrapped(f"no moves of up to {counted(found.most, 'claim')} make room", width, "", "  ")
        for staying in found.staying:
            yield from wrapped(f"not moved: {names_text(staying.pods)}: {staying.why}", width, "  ", "      ")
    for note in dict.fromkeys(note.text for note in found.notes):
        yield from wrapped(f"! {note}", width, "", "  ")


def step_lines(steps: Iterable[MoveStep], width: int, style: Style) -> Iterator[str]:
    """Yield the numbered steps with their commands."""
    for number, step in enumerate(steps, 1):
        yield from wrapped(f"{number}. {step.text}", width, "  ", "     ")
        yield style(f"     {step.command}", "dim")


def move_line(move: Move) -> str:
    """Return one move as a line."""
    where = f"{move.from_} → {move.to}" if move.to else f"{move.from_} → no node: it stays pending"
    before, after = _names(move.devices_before), _names(move.devices)
    if move.to:
        where = f"{move.from_}{before} → {move.to}{after}"
    bare = "; no controller creates it again" if move.bare else ""
    return f"{move.pod}: {where}{bare}"


def _verdict(found: MovePlan) -> str:
    if found.verdict == "fits":
        return "fits without a move"
    if found.verdict != "fits after moves":
        return found.verdict
    ended = sum(not move.to for move in found.moves)
    moved = len(found.claims)
    evicted = f", {counted(ended, 'pod')} evicted for good" if ended else ""
    what = counted(moved, "claim") if moved else counted(len(found.moves), "pod")
    return f"fits after {what} moved{evicted}"


def _names(devices: Mapping[str, tuple[str, ...]]) -> str:
    names = [device.rpartition("/")[2] for held in devices.values() for device in held]
    return f" ({names_text(names)})" if names else ""
