"""What a simulation ends with, compared with what it began with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cathedra.insight.explanation.model import API_VERSION
from cathedra.insight.reading.state import Note

__all__ = ["Copies", "NodeChange", "PendingPods", "PodPlacement", "Simulation"]


class PodPlacement(msgspec.Struct, frozen=True, rename="camel"):
    """A pod and where it is."""

    pod: str
    """«namespace/name»."""
    node: str
    devices: Mapping[str, tuple[str, ...]] = {}
    """Claim → «driver/pool/device»."""
    before: str = ""
    """The node on which a pod of that name was before; "" if there was none."""


class PendingPods(msgspec.Struct, frozen=True, rename="camel"):
    """Pods that stay without a node for the same reason."""

    pods: tuple[str, ...]
    why: str


class NodeChange(msgspec.Struct, frozen=True, rename="camel"):
    """A node whose devices are in use otherwise than before."""

    node: str
    devices: int
    held_before: int
    held_after: int


class Copies(msgspec.Struct, frozen=True, rename="camel"):
    """How many more pods of one sort find a place beside all others."""

    of: str
    more: int
    limited: bool
    """Whether no more were tried."""
    nodes: Mapping[str, int] = {}


class Simulation(msgspec.Struct, frozen=True, rename="camel"):
    """The difference between the cluster as it was read and as it would be."""

    placed: tuple[PodPlacement, ...]
    """Pods that have a node and had none, or another one."""
    gone: tuple[PodPlacement, ...]
    """Pods that had a node and are not there any more."""
    pending: tuple[PendingPods, ...]
    nodes: tuple[NodeChange, ...] = ()
    copies: tuple[Copies, ...] = ()
    seconds: float = 0.0
    """Until nothing changed any more, in the time of the cluster."""
    failures: tuple[str, ...] = ()
    """What controllers could not do, as pods that a quota forbids."""
    notes: tuple[Note, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether everything found its place."""
        return not self.pending and not self.failures

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Simulation", "fits": self.fits, **found}
