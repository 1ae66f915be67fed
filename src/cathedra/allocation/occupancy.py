"""How many devices of a class a node has, and how many of them are in use: what scores of nodes are made of.

Source: ``pkg/scheduler/framework/plugins/noderesources/resource_allocation.go`` (calculateDRAResourceTotals).
"""

from __future__ import annotations

from typing import NamedTuple

from cathedra.allocation.allocator import Allocator
from cathedra.allocation.checks.selectors import SelectorFailure
from cathedra.allocation.errors import FatalError
from cathedra.allocation.supply.pools import NodeViews
from cathedra.api.core import core_v1
from cathedra.api.resource import DeviceClass

__all__ = ["DeviceUsage", "Occupancy"]


class DeviceUsage(NamedTuple):
    """Devices that are there, and those of them that a claim holds, alone or with others."""

    devices: int
    in_use: int


NONE = DeviceUsage(0, 0)


class Occupancy:
    """Counts for one moment of the cluster, the one that ``allocator`` answers for."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._views = NodeViews(allocator.inventory, allocator.features)

    def of(self, node: core_v1.Node, device_class: DeviceClass) -> DeviceUsage:
        """The class's devices that ``node`` can reach; none if a selector cannot be asked or parsed.

        Devices of pools that are being updated count: they are there.
        """
        try:
            return self._count(node, device_class)
        except FatalError:
            return NONE

    def _count(self, node: core_v1.Node, device_class: DeviceClass) -> DeviceUsage:
        question = self._allocator.selectors_of(device_class)
        devices = in_use = 0
        for pool in self._views.of(node).pools:
            state = pool.state(self._allocator.ledger.pool(pool.id), shares=True)
            held = state.taken | state.shared
            for position, record in enumerate(pool.devices):
                if record.own_target is not None and not record.own_target.matches(node):
                    continue
                verdict = question.verdict(record.signature)
                if isinstance(verdict, SelectorFailure):
                    return NONE
                if verdict:
                    devices += 1
                    in_use += held >> position & 1
        return DeviceUsage(devices, in_use)
