"""Facts about the node that its pods need."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cathedra.api.quantity import Quantity
from cathedra.releases import FeatureGates


class NodeFacts(msgspec.Struct, frozen=True):
    """The node's address, and what pods may have of it."""

    address: str
    allocatable: Mapping[str, Quantity]
    gates: FeatureGates
    capacity: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    """Total capacity of the node; {}: equal to ``allocatable``."""
    pod_address: str = ""
    """The pod's own address; "" for one in the node's network."""

    @property
    def memory(self) -> int:
        """Bytes of memory that the machine has."""
        found = (self.capacity or self.allocatable).get("memory")
        return found.value() if found is not None else 0
