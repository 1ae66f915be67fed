"""Placements of pod groups: sets of nodes that share the value of a topology label, and their score (KEP-5732)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.podgroups import GroupKey

PlacedPods = Callable[[GroupKey], Sequence[str]]
"""Return the nodes of the pods of a PodGroup that have one."""

_RESOURCES: Final = ("cpu", "memory")


def domains(
    snapshot: Snapshot, key: str, within: frozenset[str] | None, placed: Collection[str]
) -> list[frozenset[str]]:
    """Return the sets of nodes with equal values of label ``key``, in the order of the nodes. Nodes without the label
    are in none.

    ``within`` has the nodes of the parent's placement. If pods of the group are ``placed`` already, only a domain with
    all of their nodes will do.
    """
    found: dict[str, set[str]] = {}
    for info in snapshot.nodes:
        value = info.node.metadata.labels.get(key)
        if value is not None and (within is None or info.name in within):
            found.setdefault(value, set()).add(info.name)
    return [frozenset(names) for names in found.values() if names.issuperset(placed)]


def utilisation(snapshot: Snapshot, names: frozenset[str]) -> float:
    """Return the used share of the nodes' cpu and memory, between 0 and 1: the fuller of two placements is better,
    because the emptier one stays whole for larger groups."""
    shares: list[float] = []
    for resource in _RESOURCES:
        nodes = [snapshot.by_name[name] for name in names]
        there = sum(node.allocatable.get(resource, 0) for node in nodes)
        if there:
            shares.append(sum(node.requested.get(resource, 0) for node in nodes) / there)
    return sum(shares) / len(shares) if shares else 0.0
