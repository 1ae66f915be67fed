"""Snapshot of the nodes for one scheduling cycle.

A cycle runs without yielding, so the snapshot shares the cache's node infos instead of copying them. Only the order of
the nodes is kept, and it is rebuilt only when nodes are added or removed. Nodes are ordered zone by zone, one of each
in turn, so that the first nodes filtered are spread (docs/spec/scheduling.md §1).

Results that depend on single nodes are cached from cycle to cycle and updated by the list of changed nodes. A result is
that of a function whose last argument is the node. The function and its other arguments are the key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from cathedra.allocation.supply.snapshots import Changelog
from cathedra.api.core.core_v1 import Node
from cathedra.scheduler.state.node_info import NodeInfo

V = TypeVar("V")

MOST_NAMES: Final = 1024
"""With more names of resources than that, those that no node has any more are looked for at each change."""


class IncrementalResult(ABC):
    """A result about nodes that is updated incrementally. A node's part is recomputed when its `generation` changes."""

    def __init__(self, changes: Changelog[NodeInfo] | None) -> None:
        """``changes`` has the nodes that changed; None: nothing is kept between two calls."""
        self._changes = changes
        self._position = -1
        """That of the first change that was not followed."""

    def follow_up(self) -> None:
        """Forget what was found out about nodes that have changed since the last time."""
        changes, before = self._changes, self._position
        if changes is None:
            self._forget_all()
            return
        # Fast path for a cycle before which nothing has changed; it is called several times per pod.
        if changes.end == before:
            return
        self._position = changes.end
        changed = changes.since(before)
        # The changelog no longer has all entries since the last call, so every node may have changed.
        if changed is None:
            self._forget_all()
        elif changed:
            self._forget(changed)

    @abstractmethod
    def _forget(self, nodes: Set[NodeInfo]) -> None:
        """Forget what was found out about these nodes, which have changed."""

    @abstractmethod
    def _forget_all(self) -> None:
        """Forget what was found out about every node: each may have changed."""


class MatchingNodes(IncrementalResult):
    """The nodes that satisfy a predicate, as far as it has been evaluated."""

    def __init__(self, changes: Changelog[NodeInfo] | None, holds: Callable[[NodeInfo], bool], nodes: int) -> None:
        """``nodes``: how many there are in all."""
        super().__init__(changes)
        self._holds = holds
        self._nodes = nodes
        self._holding: set[NodeInfo] = set()
        self._others: set[NodeInfo] = set()

    def among(self, nodes: Sequence[NodeInfo]) -> set[NodeInfo]:
        """Return those of ``nodes`` that satisfy it, and possibly others that do; valid until the next change."""
        holding, others = self._holding, self._others
        # Fast path: if all nodes satisfy the predicate, no set of the requested nodes is built.
        if len(holding) < self._nodes and not holding.issuperset(nodes):
            for node in set(nodes).difference(holding).difference(others):
                (holding if self._holds(node) else others).add(node)
        return holding

    def _forget(self, nodes: Set[NodeInfo]) -> None:
        # Nodes that were requested once are requested again. As long as all of them satisfy it, comparing their number
        # suffices.
        for node in nodes:
            if node in self._holding:
                if not self._holds(node):
                    self._holding.remove(node)
                    self._others.add(node)
            elif node in self._others and self._holds(node):
                self._others.remove(node)
                self._holding.add(node)

    def _forget_all(self) -> None:
        self._holding.clear()
        self._others.clear()


class NodeValues(IncrementalResult, Generic[V]):
    """A value for every node, worked out when it is first read and after each change of the node."""

    def __init__(
        self,
        changes: Changelog[NodeInfo] | None,
        value: Callable[[NodeInfo], V],
        nodes: Sequence[NodeInfo],
        places: Mapping[str, int],
    ) -> None:
        super().__init__(changes)
        self._value = value
        self._nodes = nodes
        self._places = places
        # Twice, so that a piece that goes around lies in one.
        self._values: list[Any] = [None] * (2 * len(nodes))
        self._unknown = set(range(len(nodes)))

    def of(self, nodes: Sequence[NodeInfo]) -> list[V]:
        """Return the value of each of ``nodes``, valid until the next change.

        They are in the order of all nodes, from any of these on and around. Mostly none is left out between the first
        and the last; then no node is looked up.
        """
        if not nodes:
            return []
        start, last = self._places[nodes[0].name], self._places[nodes[-1].name]
        stop, around = start + len(nodes), start + len(nodes) - len(self._nodes)
        if last in (stop - 1, around - 1):
            if self._unknown:
                self._work_out([place for place in self._unknown if start <= place < stop or place < around])
            return self._values[start:stop]
        places = [self._places[node.name] for node in nodes]
        self._work_out(self._unknown.intersection(places))
        return [self._values[place] for place in places]

    def _work_out(self, places: Iterable[int]) -> None:
        for place in places:
            self._set(place, self._value(self._nodes[place]))
        # A new set: one that was large stays as slow to read as it was.
        self._unknown = self._unknown.difference(places)

    def _set(self, place: int, value: V) -> None:
        self._values[place] = self._values[place + len(self._nodes)] = value

    def _forget(self, nodes: Set[NodeInfo]) -> None:
        # Nodes that were requested once are requested again.
        for node in nodes:
            place = self._places.get(node.name)
            if place is not None and place not in self._unknown:
                self._set(place, self._value(self._nodes[place]))

    def _forget_all(self) -> None:
        self._unknown.update(range(len(self._nodes)))


class NodeTotals(NodeValues[int]):
    """A number for every node, and a bound of all of them."""

    def __init__(
        self,
        changes: Changelog[NodeInfo] | None,
        value: Callable[[NodeInfo], int],
        nodes: Sequence[NodeInfo],
        places: Mapping[str, int],
    ) -> None:
        super().__init__(changes, value, nodes, places)
        self._times: dict[int, int] = {}
        """Number → how many nodes have it, or had it before all were forgotten."""

    def bound(self) -> int:
        """Return the largest number. Nodes that were forgotten and not read since count with their former number."""
        return max(self._times) if self._times else 0

    def _set(self, place: int, value: int) -> None:
        times, known = self._times, self._values[place]
        if value == known:
            return
        super()._set(place, value)
        times[value] = times.get(value, 0) + 1
        if known is not None:
            times[known] -= 1
            if not times[known]:
                del times[known]


class DomainCounts(IncrementalResult):
    """Sums of numbers of nodes by topology domain."""

    def __init__(
        self,
        changes: Changelog[NodeInfo] | None,
        count: Callable[[NodeInfo], tuple[str, int] | None],
        nodes: Sequence[NodeInfo],
        places: Mapping[str, int],
    ) -> None:
        """``count`` returns the domain of a node and its number; None for a node that does not count."""
        super().__init__(changes)
        self._count = count
        self._nodes = nodes
        self._places = places
        self._of_node: list[tuple[str, int] | None] = []
        self._members: dict[str, int] = {}
        """Domain → the number of nodes that count in it. A domain without any must not appear, not even with 0."""
        self.sums: dict[str, int] = {}

    def _forget(self, nodes: Set[NodeInfo]) -> None:
        for node in nodes:
            place = self._places.get(node.name)
            # A node that was deleted and created again has another NodeInfo, which is not part of this snapshot.
            if place is None or self._nodes[place] is not node:
                continue
            before, now = self._of_node[place], self._count(node)
            if before != now:
                self._of_node[place] = now
                self._enter(before, -1)
                self._enter(now, 1)

    def _forget_all(self) -> None:
        self.sums, self._members = {}, {}
        self._of_node = list(map(self._count, self._nodes))
        for found in self._of_node:
            self._enter(found, 1)

    def _enter(self, found: tuple[str, int] | None, sign: int) -> None:
        if found is None:
            return
        domain, number = found
        self._members[domain] = self._members.get(domain, 0) + sign
        self.sums[domain] = self.sums.get(domain, 0) + sign * number
        if not self._members[domain]:
            del self._members[domain], self.sums[domain]


class ApiNodes(IncrementalResult):
    """The nodes of a snapshot as API objects, in its order: the same tuple as long as none of them changes."""

    def __init__(
        self, changes: Changelog[NodeInfo] | None, nodes: Sequence[NodeInfo], places: Mapping[str, int]
    ) -> None:
        super().__init__(changes)
        self._nodes = nodes
        self._places = places
        self.objects: tuple[Node, ...] = ()

    def _forget(self, nodes: Set[NodeInfo]) -> None:
        others = {
            place: node.node
            for node in nodes
            if (place := self._places.get(node.name)) is not None
            # A node that was deleted and created again has another NodeInfo; its change does not concern this snapshot.
            and self._nodes[place] is node
            and self.objects[place] is not node.node
        }
        if others:
            objects = list(self.objects)
            for place, node in others.items():
                objects[place] = node
            self.objects = tuple(objects)

    def _forget_all(self) -> None:
        self.objects = tuple([info.node for info in self._nodes])


class Resources(IncrementalResult):
    """The names of all resources that nodes have, and perhaps of some that a node has had."""

    def __init__(self, changes: Changelog[NodeInfo] | None, nodes: Sequence[NodeInfo]) -> None:
        super().__init__(changes)
        self._nodes = nodes
        self.names: set[str] = set()

    def _forget(self, nodes: Set[NodeInfo]) -> None:
        for node in nodes:
            self.names.update(node.allocatable)
        # Names are only added, because a removal would have to read all nodes. Names that are too many are harmless:
        # callers then test each node.
        if len(self.names) > MOST_NAMES:
            self._forget_all()

    def _forget_all(self) -> None:
        self.names = {name for node in self._nodes for name in node.allocatable}


class EachNode(dict[NodeInfo, V]):
    """All nodes of a snapshot, each with the same ``value``; not to be changed."""

    def __init__(self, nodes: Iterable[NodeInfo], value: V) -> None:
        super().__init__(dict.fromkeys(nodes, value))
        self.value = value


F = TypeVar("F", bound=IncrementalResult | EachNode[Any])

Given = tuple[Hashable, ...]
"""Arguments of a function of nodes, before the node itself."""
MOST_RESULTS: Final = 64
"""Largest number of cached results. When it is exceeded, the cache is cleared."""


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
    """Changes of nodes or their pods, if they are recorded."""
    object_changes: Changelog[NodeInfo] | None = None
    """Changes of node objects, which are rare."""
    incremental: dict[Hashable, Any] = msgspec.field(default_factory=dict)
    """Results that are kept from cycle to cycle, by key."""

    @classmethod
    def of(
        cls,
        nodes: Sequence[NodeInfo],
        with_affinity: Mapping[str, int],
        changes: Changelog[NodeInfo] | None = None,
        object_changes: Changelog[NodeInfo] | None = None,
    ) -> Snapshot:
        """Return a snapshot of ``nodes``, which are in the order of search already."""
        by_name = {info.name: info for info in nodes}
        places = {info.name: place for place, info in enumerate(nodes)}
        return cls(nodes, by_name, with_affinity, places, frozenset(nodes), changes, object_changes)

    def nodes_that(self, holds: Callable[..., bool], given: Given, nodes: Sequence[NodeInfo]) -> set[NodeInfo]:
        """Return those of ``nodes`` for which ``holds`` is true, and possibly others. It is called with what is
        ``given`` and the node, and may depend on nothing but that and the node's generation."""
        key = MatchingNodes, "any change", holds, given
        found: MatchingNodes | None = self.incremental.get(key)
        if found is None:
            found = self._keep(key, MatchingNodes(self.changes, partial(holds, *given), len(self.nodes)))
        found.follow_up()
        return found.among(nodes)

    def all_are(self, holds: Callable[..., bool], given: Given, nodes: Sequence[NodeInfo]) -> bool:
        """Return True if ``holds`` is true for all of ``nodes``. It may depend on nothing but what is ``given`` and the
        node's object."""
        key = MatchingNodes, "object changes", holds, given
        found: MatchingNodes | None = self.incremental.get(key)
        if found is None:
            found = self._keep(key, MatchingNodes(self.object_changes, partial(holds, *given), len(self.nodes)))
        found.follow_up()
        holding = found.among(nodes)
        return len(holding) == len(self.nodes) or holding.issuperset(nodes)

    def values_of(self, value: Callable[..., V], given: Given, nodes: Sequence[NodeInfo]) -> list[V]:
        """Return ``value`` of each of ``nodes``, which are in the order of the search, from any of all nodes on and
        around. It is called as in `nodes_that`."""
        key = NodeValues, value, given
        found: NodeValues[V] | None = self.incremental.get(key)
        if found is None:
            found = self._keep(key, NodeValues(self.changes, partial(value, *given), self.nodes, self.places))
        found.follow_up()
        return found.of(nodes)

    def totals_of(self, value: Callable[..., int], given: Given, nodes: Sequence[NodeInfo]) -> tuple[list[int], int]:
        """Return the same for numbers, and a bound of them: none of them is larger."""
        key = NodeTotals, value, given
        found: NodeTotals | None = self.incremental.get(key)
        if found is None:
            found = self._keep(key, NodeTotals(self.changes, partial(value, *given), self.nodes, self.places))
        found.follow_up()
        return found.of(nodes), found.bound()

    def sums_of(self, count: Callable[..., tuple[str, int] | None], given: Given) -> Mapping[str, int]:
        """Return the sums of `DomainCounts`, valid until the next change. ``count`` is called as in `nodes_that`."""
        key = DomainCounts, count, given
        found: DomainCounts | None = self.incremental.get(key)
        if found is None:
            found = self._keep(key, DomainCounts(self.changes, partial(count, *given), self.nodes, self.places))
        found.follow_up()
        return found.sums

    def each(self, value: V) -> EachNode[V]:
        """Return a mapping from every node to ``value``, which can be hashed."""
        key = EachNode, value
        found: EachNode[V] | None = self.incremental.get(key)
        return self._keep(key, EachNode(self.nodes, value)) if found is None else found

    def api_nodes(self) -> tuple[Node, ...]:
        """Return the nodes as API objects, in the order of ``nodes``: the same tuple as long as none of them
        changes."""
        found: ApiNodes | None = self.incremental.get(ApiNodes)
        if found is None:
            found = self._keep(ApiNodes, ApiNodes(self.object_changes, self.nodes, self.places))
        found.follow_up()
        return found.objects

    def resources(self) -> Set[str]:
        """Return the names of all resources that some node has, and possibly others."""
        found: Resources | None = self.incremental.get(Resources)
        if found is None:
            found = self._keep(Resources, Resources(self.object_changes, self.nodes))
        found.follow_up()
        return found.names

    def _keep(self, key: Hashable, what: F) -> F:
        # Pods of ever new shapes would fill the memory. Clearing everything is rare and costs one cycle over all nodes.
        if len(self.incremental) >= MOST_RESULTS:
            self.incremental.clear()
        self.incremental[key] = what
        return what

    def with_node(self, node: NodeInfo) -> Snapshot:
        """Return a snapshot that differs in the state of one node."""
        # A snapshot of its own without changes and cached results: a trial must not leave anything in the results of
        # the real nodes.
        nodes = [node if known.name == node.name else known for known in self.nodes]
        with_affinity = dict(self.with_affinity)
        with_affinity[node.name] = sum(pod.has_affinity for pod in node.pods.values())
        return Snapshot.of(nodes, {k: v for k, v in with_affinity.items() if v})

    def within(self, names: Set[str]) -> Snapshot:
        """Return a snapshot of some of the nodes. It keeps no results: those of all nodes must stay complete."""
        with_affinity = {name: count for name, count in self.with_affinity.items() if name in names}
        return Snapshot.of([node for node in self.nodes if node.name in names], with_affinity)

    def nodes_with_affinity(self) -> Iterable[NodeInfo]:
        """Return the nodes on which some pod has terms about other pods."""
        return [self.by_name[name] for name in self.with_affinity if name in self.by_name]


def zone_by_zone(nodes: Iterable[NodeInfo]) -> list[NodeInfo]:
    """Return one node of every zone in turn, zones and nodes in the order in which they came."""
    zones: dict[str, list[NodeInfo]] = {}
    for info in nodes:
        zones.setdefault(info.zone, []).append(info)
    if len(zones) == 1:
        return next(iter(zones.values()))
    ordered: list[NodeInfo] = []
    for turn in range(max(map(len, zones.values()), default=0)):
        ordered += [members[turn] for members in zones.values() if turn < len(members)]
    return ordered
