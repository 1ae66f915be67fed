"""An invariant of a cluster, and its violation.

The classes are in `cathedra.faultsim.invariants` and `cathedra.faultsim.advisorinvariants`.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.status import StatusError
from cathedra.client.transport import APICall, WatchEvent
from cathedra.faultsim.network import ObservedWatch
from cathedra.faultsim.observation import Chronicle, NodeView, RecordedWrite
from cathedra.node.runtime.runtime import ContainerSpec

CALM_SECONDS: Final = 60.0
"""Seconds without a fault after which its direct effects have ended."""
LONG_CALM_SECONDS: Final = 600.0
"""Seconds without a fault after which its late effects have ended, too: leases, back-offs, evictions."""


class BrokenInvariant(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, text: str) -> None:
        self.invariant = invariant
        self.text = text
        super().__init__(f"{invariant}: {text}")


class Invariant:
    """Base: checks nothing. ``sentence`` states what always holds."""

    sentence = ""

    def __init__(self, chronicle: Chronicle) -> None:
        self.chronicle = chronicle
        self.state = chronicle.state

    def written(self, change: RecordedWrite) -> None:
        """Check a durable write."""

    def acknowledged(self, call: APICall, result: Any) -> None:
        """Check a write whose answer a part has received."""

    def refused(self, call: APICall, error: StatusError) -> None:
        """Check an allocation that a server has refused because another claim holds the devices."""

    def watched(self, stream: ObservedWatch, event: WatchEvent[Any]) -> None:
        """Check an event that a part has received."""

    def preparing(self, node: NodeView, driver: str, claim: str, recorded: frozenset[str]) -> None:
        """Check a call to a driver; ``recorded``: UIDs of claims in the agent's checkpoint."""

    def prepared(self, node: NodeView, driver: str, claim: str) -> None:
        """Check the devices that a driver has prepared."""

    def unprepared(self, node: NodeView, driver: str, claim: str) -> None:
        """Check the claims that a driver has unprepared."""

    def started(self, node: NodeView, container: ContainerSpec) -> None:
        """Check a container that has started."""

    def ended(self, part: str, error: BaseException) -> None:
        """Check a part that has ended by itself."""

    def settled(self) -> None:
        """Check the cluster after the last fault, when it had time."""

    def emptied(self) -> None:
        """Check the cluster after all its pods were deleted, when it had time."""

    def broken(self, text: str) -> BrokenInvariant:
        """Return the violation of this invariant."""
        return BrokenInvariant(type(self).__name__, text)
