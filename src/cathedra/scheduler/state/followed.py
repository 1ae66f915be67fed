"""What is worked out for every node, and followed up for those that have changed.

Between two pods one node changes, or a few: the one that got the last pod. So what a plugin finds out about all nodes
(which have room for so much, what each scores) is kept with the snapshot and costs the changed nodes alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from cathedra.allocation.supply.changelog import Changelog, Mark
from cathedra.scheduler.state.node_info import NodeInfo

__all__ = ["Followed", "NodesThat", "ValueOfEach"]

V = TypeVar("V")


class Followed(ABC):
    """Something about every node. What it depends on is told by the node's `generation` when it changes."""

    def __init__(self, nodes: Mapping[str, NodeInfo], changes: Changelog[NodeInfo] | None) -> None:
        """``changes`` tells of every change of one of ``nodes``; None: each time, all are looked at."""
        self._nodes = nodes
        self._changes = changes
        self._mark: Mark[NodeInfo] | None = None

    def follow_up(self) -> None:
        """Look at the nodes that have changed since the last time."""
        mark = None if self._changes is None else self._changes.mark()
        changed = mark.since(self._mark) if mark is not None and self._mark is not None else None
        self._mark = mark
        for node in self._nodes.values() if changed is None else changed:
            # Pods that outlive their node change one that is no more in the snapshot.
            if self._nodes.get(node.name) is node:
                self._look(node)

    @abstractmethod
    def _look(self, node: NodeInfo) -> None:
        """Take over what holds for ``node`` now."""


class NodesThat(Followed):
    """The names of the nodes for which something holds."""

    def __init__(
        self, nodes: Mapping[str, NodeInfo], changes: Changelog[NodeInfo] | None, holds: Callable[[NodeInfo], bool]
    ) -> None:
        super().__init__(nodes, changes)
        self._holds = holds
        self.names: set[str] = set()

    def _look(self, node: NodeInfo) -> None:
        if self._holds(node):
            self.names.add(node.name)
        else:
            self.names.discard(node.name)


class ValueOfEach(Followed, Generic[V]):
    """A value for every node."""

    def __init__(
        self, nodes: Mapping[str, NodeInfo], changes: Changelog[NodeInfo] | None, value: Callable[[NodeInfo], V]
    ) -> None:
        super().__init__(nodes, changes)
        self._value = value
        self.values: dict[NodeInfo, V] = {}

    def _look(self, node: NodeInfo) -> None:
        self.values[node] = self._value(node)
