"""The nodes as one scheduling cycle sees them.

A cycle runs without giving way, so the snapshot shares the cache's node infos instead of copying them; only the order
of the nodes is kept, and it is built anew only when nodes come or go. Nodes are ordered zone by zone, one of each in
turn, so that the first nodes looked at are spread (docs/spec/scheduling.md §1).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import Any, Final, TypeVar

import msgspec

from cathedra.allocation.supply.changelog import Changelog
from cathedra.api.core.core_v1 import Node
from cathedra.scheduler.state.followed import ApiNodes, Followed, NodesThat, Resources, ValueOfEach
from cathedra.scheduler.state.node_info import NodeInfo

__all__ = ["Snapshot", "zone_by_zone"]

F = TypeVar("F", bound=Followed)

MOST_FOLLOWED: Final = 64
"""So much is kept about nodes; pods of more shapes than that in turn begin anew."""


class Snapshot(msgspec.Struct, frozen=True):
    """All nodes in the order of search."""

    nodes: Sequence[NodeInfo]
    by_name: Mapping[str, NodeInfo]
    with_affinity: Mapping[str, int]
    """Nodes that have pods with pod affinity or anti-affinity, and how many."""
    places: Mapping[str, int]
    """Node → where it stands in ``nodes``."""
    all_nodes: frozenset[NodeInfo]
    """The same as ``nodes``, in no order."""
    changes: Changelog[NodeInfo] | None = None
    """What tells of every change of a node or its pods, if anything does."""
    object_changes: Changelog[NodeInfo] | None = None
    """What tells of every change of a node's object, which are rare."""
    followed: dict[Hashable, Any] = msgspec.field(default_factory=dict)
    """What is kept about nodes from pod to pod: a `Followed` of the sort that goes with its key."""

    @classmethod
    def of(
        cls,
        nodes: Sequence[NodeInfo],
        with_affinity: Mapping[str, int],
        changes: Changelog[NodeInfo] | None = None,
        object_changes: Changelog[NodeInfo] | None = None,
    ) -> Snapshot:
        """A snapshot of ``nodes``, which are in the order of search already."""
        by_name = {info.name: info for info in nodes}
        places = {info.name: place for place, info in enumerate(nodes)}
        return cls(nodes, by_name, with_affinity, places, frozenset(nodes), changes, object_changes)

    def nodes_that(self, key: Hashable, holds: Callable[[NodeInfo], bool], nodes: Sequence[NodeInfo]) -> set[NodeInfo]:
        """Those of ``nodes`` for which ``holds`` does, and perhaps others; ``holds`` asks for nothing but the node's
        generation and ``key`` tells."""
        # Keys of predicates and scores are chosen apart from each other.
        key = NodesThat, "any change", key
        found: NodesThat | None = self.followed.get(key)
        if found is None:
            found = self._follow(key, NodesThat(self.changes, holds, len(self.nodes)))
        found.follow_up()
        return found.among(nodes)

    def all_are(self, key: Hashable, holds: Callable[[NodeInfo], bool], nodes: Sequence[NodeInfo]) -> bool:
        """Whether ``holds`` does for all of ``nodes``; it asks for nothing but what the node's object and ``key``
        tell."""
        key = NodesThat, "object changes", key
        found: NodesThat | None = self.followed.get(key)
        if found is None:
            found = self._follow(key, NodesThat(self.object_changes, holds, len(self.nodes)))
        found.follow_up()
        holding = found.among(nodes)
        return len(holding) == len(self.nodes) or holding.issuperset(nodes)

    def values_of(self, key: Hashable, value: Callable[[NodeInfo], int], nodes: Sequence[NodeInfo]) -> list[int]:
        """The value of each of ``nodes``, under the same condition."""
        key = ValueOfEach, key
        found: ValueOfEach[int] | None = self.followed.get(key)
        if found is None:
            found = self._follow(key, ValueOfEach(self.changes, value, self.nodes, self.places))
        found.follow_up()
        return found.of(nodes)

    def api_nodes(self) -> tuple[Node, ...]:
        """The nodes as API objects, in the order of ``nodes``: the same tuple as long as none of them changes."""
        found: ApiNodes | None = self.followed.get(ApiNodes)
        if found is None:
            found = self._follow(ApiNodes, ApiNodes(self.object_changes, self.nodes, self.places))
        found.follow_up()
        return found.objects

    def resources(self) -> Set[str]:
        """What nodes have of their own: all names of resources that some node says it has, and perhaps others."""
        found: Resources | None = self.followed.get(Resources)
        if found is None:
            found = self._follow(Resources, Resources(self.object_changes, self.nodes))
        found.follow_up()
        return found.names

    def _follow(self, key: Hashable, what: F) -> F:
        if len(self.followed) >= MOST_FOLLOWED:
            self.followed.clear()
        self.followed[key] = what
        return what

    def with_node(self, node: NodeInfo) -> Snapshot:
        """The same with another state of one node."""
        nodes = [node if known.name == node.name else known for known in self.nodes]
        with_affinity = dict(self.with_affinity)
        with_affinity[node.name] = sum(pod.has_affinity for pod in node.pods.values())
        return Snapshot.of(nodes, {k: v for k, v in with_affinity.items() if v})

    def nodes_with_affinity(self) -> Iterable[NodeInfo]:
        """Nodes on which some pod says something about other pods."""
        return [self.by_name[name] for name in self.with_affinity if name in self.by_name]


def zone_by_zone(nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    """One node of every zone in turn, zones and nodes in the order in which they came."""
    zones: dict[str, list[NodeInfo]] = {}
    for info in nodes:
        zones.setdefault(info.zone, []).append(info)
    if len(zones) == 1:
        return next(iter(zones.values()))
    ordered: list[NodeInfo] = []
    for turn in range(max(map(len, zones.values()), default=0)):
        ordered += [members[turn] for members in zones.values() if turn < len(members)]
    return ordered
