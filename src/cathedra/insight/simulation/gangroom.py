"""Room for further gangs, counted with the allocator alone: by device class and topology domain.

`copies` creates copies and has the scheduler place them, which takes seconds. The advisor counts the gangs of a whole
cluster again and again. It therefore takes nodes that pass the scheduler's other filters for a pod of the gang, and
places copies pod by pod on the fullest of these nodes, by devices and by the resources that pods request. What depends
on other pods, such as affinity among pods of the same gang, is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from cathedra.allocation import Allocation, AllocationError, Allocator, Cluster, LedgerSnapshot
from cathedra.api.core.core_v1 import Node
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import AllocationResult, ResourceClaim, ResourceSlice
from cathedra.api.struct import replace
from cathedra.insight.simulation.report import CopyRoom
from cathedra.kinds.resource.claims.usage import classes_by_request
from cathedra.semantics.groupdomains import (
    SAME_ATTRIBUTE,
    SAME_LABEL,
    AttributeValue,
    DomainRules,
    Members,
    domains_by_label,
    with_values,
)
from cathedra.semantics.podgroups import topology_key

MOST_COPIES: Final = 100
"""Largest number of copies that are placed."""
MOST_TRIALS: Final = 1_000
"""Largest number of allocations that are tried for a gang."""


class GangMember(msgspec.Struct, frozen=True):
    """A pod of a gang, as a copy of it would be placed."""

    claims: tuple[ResourceClaim, ...]
    """Claims of its own. Claims that it shares with others are allocated already, or once for all copies."""
    requests: Mapping[str, int]
    """Resources, each in its smallest unit."""
    nodes: frozenset[str]
    """Nodes that pass all filters but those for devices and resources."""


class FreeResources(Protocol):
    """Returns the free resources of a node, each in its smallest unit."""

    def __call__(self, node: str) -> Mapping[str, int]: ...


class _Domain(msgspec.Struct, frozen=True):
    name: str
    nodes: frozenset[str] | None
    values: tuple[AttributeValue, ...] = ()


class GangRooms(msgspec.Struct, frozen=True):
    """Number of further copies of a gang."""

    rooms: tuple[CopyRoom, ...]
    complete: bool
    """False if a bound ended the count: there may be more."""


def further_gangs(
    group: PodGroup,
    members: Sequence[GangMember],
    cluster: Cluster,
    free: FreeResources,
    slices: Sequence[ResourceSlice],
) -> GangRooms:
    """Count the copies of a gang that fit at once beside all that is allocated."""
    counting = _Copies(members, cluster, free)
    found: Counter[tuple[tuple[str, ...], str]] = Counter()
    # Further gangs hold no devices, so nothing that is allocated binds them to a value.
    rules = DomainRules(list(cluster.nodes.values()), slices, lambda claim: None, lambda result: None)
    for domain in _domains(group, rules, [claim for member in members for claim in member.claims]):
        found.update(counting.copies(domain))
    rooms = [CopyRoom(classes, domain, number) for (classes, domain), number in sorted(found.items())]
    return GangRooms(tuple(rooms), counting.complete)


def domain_names(group: PodGroup, nodes: Iterable[Node]) -> Mapping[str, str]:
    """Return the topology domain of each node by the group's constraint on labels; nothing without one."""
    key = topology_key(group) or group.metadata.annotations.get(SAME_LABEL, "")
    labels = ((node.metadata.name, node.metadata.labels) for node in nodes)
    return {name: found[key] for name, found in labels if key in found} if key else {}


def _domains(group: PodGroup, rules: DomainRules, claims: Sequence[ResourceClaim]) -> Iterator[_Domain]:
    name_of = domain_names(group, rules.nodes)
    key = topology_key(group) or group.metadata.annotations.get(SAME_LABEL, "")
    labelled = [_Domain(name_of[min(names)], names) for names in domains_by_label(key, rules.nodes)] if key else []
    attribute = group.metadata.annotations.get(SAME_ATTRIBUTE, "")
    if not attribute:
        yield from labelled if key else [_Domain("", None)]
        return
    for found in rules.valued(attribute, Members(claims=tuple(claims))):
        text = str(next(iter(msgspec.to_builtins(found.values[0].value).values()), ""))
        for one in labelled if key else [_Domain("", None)]:
            both = found.nodes if one.nodes is None else found.nodes & one.nodes
            if both:
                yield _Domain(f"{one.name}/{text}" if one.name else text, both, found.values)


class _Copies:
    """Places copies; devices and resources that one copy takes are gone for the next."""

    def __init__(self, members: Sequence[GangMember], cluster: Cluster, free: FreeResources) -> None:
        # The member with most claims has the fewest nodes.
        self._members = sorted(members, key=lambda one: -len(one.claims))
        self._cluster, self._inventory = cluster, cluster.inventory.snapshot()
        self._ledger = cluster.ledger.copy()
        self._free: dict[str, dict[str, int]] = {}
        self._free_of = free
        self._placed = self._trials = 0
        self._number = 0
        self.complete = True

    def copies(self, domain: _Domain) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the device classes, and the name of the domain, of each copy that fits there."""
        # Equal members share their candidates: a node that is full for one of them is full for all.
        known = {
            id(member): self._candidates(member, domain) for member in {id(one): one for one in self._members}.values()
        }
        nodes = [known[id(member)] for member in self._members]
        while all(nodes):
            if self._placed >= MOST_COPIES or self._trials >= MOST_TRIALS:
                self.complete = False
                return
            classes = self._copy(nodes, domain)
            if classes is None:
                return
            self._placed += 1
            yield classes, domain.name

    def _candidates(self, member: GangMember, domain: _Domain) -> dict[str, None]:
        """Return the nodes that have the devices for a member now, those with the fewest free devices first."""
        known = self._cluster.nodes
        nodes = [
            known[name] for name in known if name in member.nodes and (domain.nodes is None or name in domain.nodes)
        ]
        claims = [with_values(claim, domain.values) for claim in member.claims]
        if claims:
            try:
                fitting = self._allocator().prepare(claims).on_each(nodes).fitting()
            except AllocationError:
                return {}
            nodes = [nodes[place] for place in sorted(fitting)]
        snapshot, bound = self._ledger.snapshot(), self._inventory.bound

        def devices(node: Node) -> int:
            pieces = bound.get(node.metadata.name, ())
            return sum(len(one.devices) for one in pieces) - _held(snapshot, {one.pool for one in pieces})

        return dict.fromkeys(node.metadata.name for node in sorted(nodes, key=devices))

    def _copy(self, nodes: Sequence[dict[str, None]], domain: _Domain) -> tuple[str, ...] | None:
        """Place one copy, and return its device classes; None if it does not fit, and then nothing is taken."""
        classes: set[str] = set()
        placed: list[tuple[GangMember, str, list[ResourceClaim]]] = []
        for member, candidates in zip(self._members, nodes, strict=True):
            found = self._place(member, candidates, domain, classes)
            if found is None:
                for one, name, claims in placed:
                    self._take(name, one.requests, -1)
                    for claim in claims:
                        self._ledger.remove(claim)
                return None
            self._take(found[0], member.requests, 1)
            placed.append((member, *found))
        return tuple(sorted(classes))

    def _place(
        self, member: GangMember, candidates: dict[str, None], domain: _Domain, classes: set[str]
    ) -> tuple[str, list[ResourceClaim]] | None:
        for name in list(candidates):
            free = self._resources(name)
            if any(free.get(one, 0) < amount for one, amount in member.requests.items()):
                del candidates[name]
                continue
            if not member.claims:
                return name, []
            self._trials += 1
            searched = [with_values(claim, domain.values) for claim in member.claims]
            try:
                answer = self._allocator().allocate(self._cluster.nodes[name], searched)
            except AllocationError:
                answer = None
            if isinstance(answer, Allocation):
                classes.update(*(classes_of(*both) for both in zip(member.claims, answer.results, strict=True)))
                return name, [self._hold(*both) for both in zip(member.claims, answer.results, strict=True)]
            # Copies only take, so a node that is full stays so.
            del candidates[name]
        return None

    def _hold(self, claim: ResourceClaim, result: AllocationResult) -> ResourceClaim:
        self._number += 1
        name = f"{claim.metadata.name}#{self._number}"
        copy = replace(claim, metadata=replace(claim.metadata, name=name, uid=name))
        self._ledger.hold(copy, result)
        return copy

    def _allocator(self) -> Allocator:
        cluster = self._cluster
        ledger = self._ledger.snapshot()
        return Allocator(cluster.features, cluster.classes, self._inventory, ledger, budget=cluster.budget)

    def _resources(self, node: str) -> dict[str, int]:
        if node not in self._free:
            self._free[node] = dict(self._free_of(node))
        return self._free[node]

    def _take(self, node: str, requests: Mapping[str, int], sign: int) -> None:
        free = self._resources(node)
        for name, amount in requests.items():
            free[name] = free.get(name, 0) - sign * amount


def _held(ledger: LedgerSnapshot, pools: Iterable[tuple[str, str]]) -> int:
    return sum(len(ledger.pool(pool).holdings) for pool in pools)


def classes_of(claim: ResourceClaim, allocation: AllocationResult) -> frozenset[str]:
    """Return the classes of the devices that a claim has, of the alternatives that were chosen."""
    classes = classes_by_request(claim)
    return frozenset(classes.get(one.request, "") for one in allocation.devices.results)
