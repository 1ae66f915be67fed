"""Room for new claims: the largest request of each class, the number of claims that fit, and stranded devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from cathedra.advisor.devices import DeviceFigures
from cathedra.advisor.model import ClusterModel
from cathedra.allocation import AllocationError
from cathedra.api.core.core_v1 import Node
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict
from cathedra.semantics.nodes import is_node_ready

MOST_DEVICES: Final = 32
"""Largest number of devices that a claim can have."""
MOST_CLASSES: Final = 100
"""Classes that are tried."""
SIZES: Final = (1, 2, 4, 8)
"""Numbers of devices of which the further claims are counted."""
_TRIED: Final = 8
"""Nodes that are tried for a class: those with most free devices of it."""
_ROOM: Final = ("cpu", "memory", "pods")
STRANDED: Final = {"blocked": "counters", "tainted": "taint", "unhealthy": "health", "incomplete_pool": "pool"}
"""State of a device that no claim holds and none can get → the reason."""


class ClassCapacity:
    """Figures that are searched, renewed when the model has changed."""

    def __init__(self, model: ClusterModel, figures: DeviceFigures) -> None:
        self._model, self._figures = model, figures
        self._version = -1
        self.largest: Mapping[str, int] = {}
        """Class → the largest number of its devices that one claim can get on one node."""
        self.further: Mapping[tuple[str, str], int] = {}
        """(Class, number of devices) → claims for that number on one node which fit at once."""
        self.stranded: Counter[tuple[str, str]] = Counter()
        """(Driver, reason) → devices that no claim holds and none can get."""

    def renew(self) -> None:
        """Repeat the search if something has changed."""
        if self._version == self._model.version:
            return
        self._version = self._model.version
        classes = sorted(self._model.cluster.classes)[:MOST_CLASSES]
        self.largest = {name: self._largest(name) for name in classes}
        self.stranded = self._stranded()
        self.further = self._further(classes)

    def _largest(self, name: str) -> int:
        nodes = self._candidates(name)
        fits, too_many = 0, MOST_DEVICES + 1
        while nodes and too_many - fits > 1:
            # The first trial is one device: nearly always nothing or a little is left of a full class.
            count = 1 if fits == 0 and too_many > MOST_DEVICES else (fits + too_many) // 2
            if self._fits(name, count, nodes):
                fits = count
            else:
                too_many = count
        return fits

    def _further(self, classes: Sequence[str]) -> Mapping[tuple[str, str], int]:
        """Count by the free devices of each node; partitions of one device may exclude each other."""
        free: dict[str, Counter[str]] = {}
        for figures in self._figures.pools.values():
            for (node, names, state), number in figures.devices.items():
                if state == "free":
                    for name in names:
                        free.setdefault(name, Counter())[node] += number
        usable = {node for nodes in free.values() for node in nodes if not node or not self._obstacle(node)}
        return {
            (name, str(size)): sum(
                number // size for node, number in free.get(name, Counter()).items() if node in usable
            )
            for name in classes
            for size in SIZES
        }

    def _candidates(self, name: str) -> Sequence[Node]:
        free: Counter[str] = Counter()
        everywhere = False
        for figures in self._figures.pools.values():
            for (node, classes, state), number in figures.devices.items():
                if name in classes and state in ("free", "shared"):
                    free[node] += number
                    everywhere |= not node
        known = self._model.cluster.nodes
        found = [known[node] for node, _ in free.most_common(_TRIED + 1) if node in known][:_TRIED]
        if everywhere:
            found += list(known.values())[:_TRIED]
        return found

    def _fits(self, name: str, count: int, nodes: Sequence[Node]) -> bool:
        exactly = {"deviceClassName": name, "allocationMode": "ExactCount", "count": count}
        claim = from_dict(
            ResourceClaim,
            {
                "metadata": {"name": "largest", "namespace": "default", "uid": "largest"},
                "spec": {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}},
            },
        )
        try:
            return bool(self._model.cluster.allocator().prepare([claim]).on_each(nodes).fitting())
        except AllocationError:
            return False

    def _stranded(self) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        reasons: dict[str, str] = {}
        for (driver, _), figures in self._figures.pools.items():
            for (node, classes, state), number in figures.devices.items():
                reason = STRANDED.get(state, "")
                if state == "free":
                    if node not in reasons:
                        reasons[node] = self._obstacle(node)
                    reason = reasons[node] or ("" if classes else "class")
                if reason:
                    found[driver, reason] += number
        return found

    def _obstacle(self, name: str) -> str:
        """Return why no pod can come to a node; "" if pods can."""
        node = self._model.cluster.nodes.get(name)
        if node is None:
            return "node missing" if name else ""
        if node.spec.unschedulable:
            return "node cordoned"
        if node.status.conditions and not is_node_ready(node):
            return "node not ready"
        full = (one for one in _ROOM if one in node.status.allocatable)
        return "node full" if any(self._model.filters.most_free(one, (name,)) <= 0 for one in full) else ""
