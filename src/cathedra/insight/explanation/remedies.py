"""Remedies: the smallest changes with which it fits. Every proposal is tried, and only those that work are reported.

A change of claims is tried with the allocator, on nodes that no other filter refuses; a change of the pod with all
filters. If no single change helps, pairs are tried, then the claims that would have to be freed together on one node,
and a new node like an existing one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

import msgspec
from msgspec import structs

from cathedra.allocation import AllocationError, Allocator, Budget, Inventory, LedgerSnapshot
from cathedra.allocation.claims.requests import ClassLookup
from cathedra.allocation.supply.ledger import Ledger
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import replace
from cathedra.insight.explanation.analysis import Analysis, analyse_pod
from cathedra.insight.explanation.candidates import Candidate, claim_candidates, freeing, pools_in_reach
from cathedra.insight.explanation.podcandidates import pod_candidates
from cathedra.insight.explanation.question import PodSubject
from cathedra.insight.explanation.report import Remedy
from cathedra.insight.reading.state import ClusterState
from cathedra.scheduler.judging import Filters

__all__ = ["find_remedies"]

SHOWN: Final = 6
"""Largest number of reported changes."""
_OF_A_KIND: Final = 2
"""Largest number of reported changes of one kind: enough to choose from."""
_NODES: Final = 12
"""Nodes on which proposals are tried: one of each of the groups that come nearest."""
_TRIED: Final = 500
"""Proposals that are tried, the smallest first: a claim of many requests with many alternatives has thousands."""
_PAIRS: Final = 250
"""Pairs that are tried."""
_TOGETHER: Final = 16
"""Claims that are freed together at most."""
_STATES: Final = 5_000
"""States of the search for one proposal: one that takes longer is not reported."""
_IMMUTABLE_IN_PODS: Final = frozenset(("drop node selector", "drop node affinity", "lower request"))
"""Changes of fields that the API server refuses in an existing pod."""
_EVERYWHERE: Final = 200
"""Largest number of nodes on which a change that works is tried again, to report where."""


def find_remedies(analysis: Analysis, subject: PodSubject | None) -> tuple[Remedy, ...]:
    """The changes with which it fits, the smallest first; none if it fits already, or if nothing helps."""
    if analysis.fitting or (analysis.prepared is not None and analysis.prepared.allowance.exhausted):
        # A search that was stopped for time would be stopped with other claims as well.
        return ()
    finder = _RemedySearch(analysis, subject)
    return tuple(finder.find())


class _TriedChange(msgspec.Struct, frozen=True):
    parts: tuple[Candidate, ...]
    nodes: tuple[str, ...]

    @property
    def rank(self) -> tuple[int, int, int]:
        return len(self.parts), sum(one.rank for one in self.parts), -len(self.nodes)


class _RemedySearch:
    def __init__(self, analysis: Analysis, subject: PodSubject | None) -> None:
        self.analysis, self.subject = analysis, subject
        self.state = analysis.state
        prepared = analysis.prepared
        self.allocator = prepared.allocator if prepared is not None else self.state.cluster.allocator()
        self.claims = analysis.claims or self._unallocated()
        # States, not seconds: the proposals that are found must not depend on the speed of the machine.
        self.budget = Budget(states=_STATES)
        self._ledger: Ledger | None = None
        near = analysis.representatives or self.state.nodes
        asked = set(analysis.judgement.nodes)
        self.near = [node for node in near if node.metadata.name in asked][:_NODES]

    def _unallocated(self) -> tuple[ResourceClaim, ...]:
        """The pod's claims that need devices, where the scheduler did not get so far."""
        if self.subject is None:
            return ()
        namespace = self.subject.pod.metadata.namespace
        found = (self.state.get(ResourceClaim, name, namespace) for name in self.subject.origins)
        return tuple(claim for claim in found if claim is not None and claim.status.allocation is None)

    def find(self) -> Iterator[Remedy]:
        if self.subject is not None and self.subject.faults:
            return
        candidates = _smallest(self._candidates())
        works = [_TriedChange((one,), nodes) for one in candidates if (nodes := self._nodes((one,)))]
        # Pairs are quadratic, and a single change is always the smaller remedy.
        if not works:
            works = list(self._pairs(candidates))
        works += self._freed_together() if not any(one.parts[0].free for one in works) else []
        works.sort(key=lambda one: one.rank)
        told: dict[str, int] = {}
        touched: set[tuple[str, ...]] = set()
        number = 0
        for one in works:
            kind = "+".join(part.kind for part in one.parts)
            target = tuple(part.target for part in one.parts)
            # Of several values for one field the nearest one is reported.
            if told.get(kind, 0) >= _OF_A_KIND or target in touched or number >= SHOWN:
                continue
            nodes = self._everywhere(one)
            if not nodes:
                continue
            told[kind] = told.get(kind, 0) + 1
            touched.add(target)
            number += 1
            yield self._change(one.parts, nodes)
        yield from self._new_nodes()

    def _candidates(self) -> Iterator[Candidate]:
        if self.claims:
            yield from claim_candidates(self.analysis, self.claims, self.allocator)
        yield from pod_candidates(self.analysis)

    def _pairs(self, candidates: Sequence[Candidate]) -> Iterator[_TriedChange]:
        ordered = sorted(candidates, key=lambda one: one.rank)
        pairs = sorted(
            (pair for pair in combinations(ordered, 2) if pair[0].target != pair[1].target),
            key=lambda pair: pair[0].rank + pair[1].rank,
        )
        found = 0
        for pair in pairs[:_PAIRS]:
            nodes = self._nodes(pair)
            if nodes:
                yield _TriedChange(pair, nodes)
                found += 1
                if found >= SHOWN:
                    return

    # --- trying

    def _nodes(self, parts: tuple[Candidate, ...], nodes: Sequence[Node] | None = None) -> tuple[str, ...]:
        """The nodes on which it fits with these changes."""
        tried = self.near if nodes is None else nodes
        left = self._outside(parts, tried)
        return self._allocated(parts, left) if left else ()

    def _outside(self, parts: tuple[Candidate, ...], nodes: Sequence[Node]) -> Sequence[Node]:
        """The nodes that no filter but that for devices refuses."""
        analysis = self.analysis
        pod = merged_pod(parts, analysis.pod)
        judgement = analysis.judgement
        if analysis.filters is None or pod is None:
            return nodes
        waiting = judgement.waiting.plugin if judgement.waiting is not None else ""
        if waiting and (waiting != "SchedulingGates" or pod.spec.scheduling_gates):
            return ()
        if pod is not analysis.pod:
            names = frozenset(node.metadata.name for node in nodes)
            judgement = analysis.filters.judge(pod, only=names, devices=False)
            if judgement.ended is not None:
                return ()
        elif judgement.ended is not None and judgement.ended.plugin != "DynamicResources":
            return ()
        return [node for node in nodes if not judgement.outside.get(node.metadata.name)]

    def _allocated(self, parts: tuple[Candidate, ...], nodes: Sequence[Node]) -> tuple[str, ...]:
        cycle = self.analysis.judgement.cycle
        placed = list(cycle.placements.values()) if cycle is not None else []
        # Claims that are already allocated restrict the nodes on which the pod can run.
        nodes = [node for node in nodes if all(place.allows(node) for place in placed)]
        changed = {index: claim for part in parts for index, claim in part.claims.items()}
        if len(parts) > 1 and sum(len(part.claims) for part in parts) > len(changed):
            return ()  # Two versions of one claim do not add up.
        claims = [changed.get(index, claim) for index, claim in enumerate(self.claims)]
        if not claims:
            return tuple(node.metadata.name for node in nodes)
        classes = {name: one for part in parts for name, one in part.classes.items()}
        allocator = Allocator(
            self.allocator.features,
            _with_classes(self.allocator, classes),
            self.allocator.inventory,
            self._without(tuple(claim for part in parts for claim in part.free)),
            budget=self.budget,
        )
        prepared = allocator.prepare(claims)
        try:
            answers = prepared.on_each(nodes)
        except AllocationError:
            return ()
        return tuple(nodes[place].metadata.name for place in answers.fitting())

    def _without(self, freed: Sequence[ResourceClaim]) -> LedgerSnapshot:
        if not freed:
            return self.allocator.ledger
        if self._ledger is None:
            self._ledger = Ledger()
            for claim in self.state.all(ResourceClaim):
                self._ledger.add(claim)
        ledger = self._ledger
        for claim in freed:
            # The ledger is changed and restored, because a copy of all holdings for each proposal would cost more than
            # the trial.
            ledger.remove(claim)
        snapshot = ledger.snapshot()
        for claim in freed:
            ledger.add(claim)
        return snapshot

    # --- what single changes do not do

    def _freed_together(self) -> list[_TriedChange]:
        """The fewest claims of one node that have to go together."""
        if not self.claims:
            return []
        best: _TriedChange | None = None
        claims = {one.metadata.uid: one for one in self.state.all(ResourceClaim)}
        for node in self.near[:6]:
            held: dict[str, int] = {}
            for pool in pools_in_reach(self.analysis.prepared, node):
                for holdings in self.allocator.ledger.pool(pool).holdings.values():
                    for holding in holdings:
                        held[holding.uid] = held.get(holding.uid, 0) + 1
            ordered = sorted((uid for uid in held if uid in claims), key=lambda uid: (-held[uid], uid))
            chosen = [freeing(claims[uid]) for uid in ordered[:_TOGETHER]]
            # Fewer than two claims cannot be enough: single claims were tried before.
            if best is not None and len(best.parts) <= 2:
                break
            if not chosen or not self._nodes(tuple(chosen), [node]):
                continue
            # Claims are left out one by one, the one with fewest devices first, as long as the rest suffices.
            for one in reversed(tuple(chosen)):
                fewer = [other for other in chosen if other is not one]
                if self._nodes(tuple(fewer), [node]):
                    chosen = fewer
            if best is None or len(chosen) < len(best.parts):
                best = _TriedChange(tuple(chosen), (node.metadata.name,))
        return [best] if best is not None and len(best.parts) > 1 else []

    def _new_nodes(self) -> Iterator[Remedy]:
        """A node more, like one that is there, as it would be if nothing ran on it."""
        if self._search_fails():
            return
        seen: set[tuple[tuple[int, ...], ...]] = set()
        for node in self.state.nodes:
            bound = self.allocator.inventory.bound.get(node.metadata.name, ())
            # Nodes with equal devices would give the same remedy.
            shape = tuple(record.kinds for record in bound)
            if not bound or shape in seen:
                continue
            if len(seen) >= 4:
                return
            seen.add(shape)
            new, pieces = node_like(node, [record.source for record in bound])
            if self._fits_alone(new, pieces):
                devices = sum(len(record.devices) for record in bound)
                text = (
                    f"add a node like {node.metadata.name} ({devices} {'device' if devices == 1 else 'devices'} of "
                    f"{', '.join(sorted({record.pool[0] for record in bound}))})"
                )
                yield Remedy("add node", text, (new.metadata.name,), (), set=(new, *pieces))
                return

    def _search_fails(self) -> bool:
        """Return True if an existing node makes the search fail, which no further node would mend."""
        if not self.claims:
            return False
        try:
            self.allocator.prepare(self.claims).on_each(self._outside((), self.state.nodes))
        except AllocationError:
            return True
        return False

    def _fits_alone(self, node: Node, pieces: Sequence[ResourceSlice]) -> bool:
        classes = self.state.all(DeviceClass)
        if self.subject is None:
            needed = self.allocator.features.behaviour.rules_need_selector
            inventory = Inventory(pieces, self.state.all(DeviceTaintRule), rules_need_selector=needed)
            allocator = Allocator(
                self.allocator.features,
                {one.metadata.name: one for one in classes},
                inventory.snapshot(),
                Ledger().snapshot(),
                budget=self.budget,
            )
            try:
                return bool(self.claims) and bool(allocator.prepare(self.claims).on_each([node]).fitting())
            except AllocationError:
                return False
        mine = [
            claim
            for name in self.subject.origins
            if (claim := self.state.get(ResourceClaim, name, self.subject.pod.metadata.namespace)) is not None
        ]
        small = ClusterState.of(
            [node, *pieces, *classes, *self.state.all(DeviceTaintRule), *mine, self.subject.pod],
            "a new node",
            gates=self.state.gates,
        )
        return bool(analyse_pod(small, self.subject.pod, Filters(small)).fitting)

    # --- telling

    def _everywhere(self, works: _TriedChange) -> tuple[str, ...]:
        """All nodes on which it fits then; none if some node would make the search fail. In large clusters those that
        were tried."""
        asked = set(self.analysis.judgement.nodes)
        if len(asked) > _EVERYWHERE:
            return works.nodes
        return self._nodes(works.parts, [node for node in self.state.nodes if node.metadata.name in asked])

    def _change(self, parts: tuple[Candidate, ...], nodes: tuple[str, ...]) -> Remedy:
        changed: list[ResourceClaim | ResourceClaimTemplate | DeviceClass | Pod] = []
        for part in parts:
            changed.extend(part.classes.values())
            for claim in part.claims.values():
                changed.append(claim)
                template = self._template_of(claim)
                if template is not None:
                    changed.append(template)
        pod = merged_pod(parts, self.analysis.pod)
        if pod is not None and pod is not self.analysis.pod:
            changed.append(self._as_it_is(pod))
        freed = tuple(_freed(claim) for part in parts for claim in part.free)
        text = _together(parts)
        edits = [edit for part in parts for edit in part.edits]
        for made, source in self._sources.items():
            # A claim's spec is immutable, and the next claim is generated from the template: it is changed there.
            text = text.replace(made, source)
            edits = [
                structs.replace(edit, object=source, path=f"spec.{edit.path}") if edit.object == made else edit
                for edit in edits
            ]
        return Remedy(
            kind=" and ".join(dict.fromkeys(part.kind for part in parts)),
            text=text + self._created_again(parts, pod),
            fits_on=nodes,
            edits=tuple(edits),
            set=(*changed, *freed),
        )

    def _as_it_is(self, pod: Pod) -> Pod:
        """The pod without the names of claims that do not exist."""
        made = self.subject.made if self.subject is not None else frozenset()
        statuses = tuple(one for one in pod.status.resource_claim_statuses if one.resource_claim_name not in made)
        return replace(pod, status=replace(pod.status, resource_claim_statuses=statuses))

    def _created_again(self, parts: Sequence[Candidate], pod: Pod | None) -> str:
        """Return the objects that must be created again for the change, because their specs are immutable."""
        named, subject = [], self.subject
        of_templates = False
        for claim in (claim for part in parts for claim in part.claims.values()):
            if self._template_name(claim):
                of_templates = True
            elif claim.metadata.resource_version:
                named.append(f"claim {claim.metadata.namespace}/{claim.metadata.name}")
        changed = any(part.kind in _IMMUTABLE_IN_PODS for part in parts)
        # Without a resource version an object comes from a manifest: it can be changed before it is created.
        if pod is not None and pod.metadata.resource_version and subject is not None and (of_templates or changed):
            named.append(f"pod {subject.name}")
        if not named:
            return ""
        return f"; then delete {' and '.join(named)} and create {'it' if len(named) == 1 else 'them'} again"

    @property
    def _sources(self) -> dict[str, str]:
        """Claims that are generated from templates → the templates, in which alone a change lasts."""
        subject = self.subject
        if subject is None:
            return {}
        namespace = subject.pod.metadata.namespace
        return {
            f"claim {namespace}/{name}": f"template {namespace}/{origin.removeprefix('template ')}"
            for name, origin in subject.origins.items()
            if origin.startswith("template ")
        }

    def _template_name(self, claim: ResourceClaim) -> str:
        origin = self.subject.origins.get(claim.metadata.name, "") if self.subject is not None else ""
        return origin.removeprefix("template ") if origin.startswith("template ") else ""

    def _template_of(self, claim: ResourceClaim) -> ResourceClaimTemplate | None:
        """Return the template of a generated claim, with the same change."""
        name = self._template_name(claim)
        template = self.state.get(ResourceClaimTemplate, name, claim.metadata.namespace) if name else None
        return None if template is None else replace(template, spec=replace(template.spec, spec=claim.spec))


def _smallest(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates in their order; where there are more than `_TRIED`, those with the smallest ranks."""
    found = list(candidates)
    if len(found) <= _TRIED:
        return found
    kept = heapq.nsmallest(_TRIED, range(len(found)), key=lambda place: found[place].rank)
    return [found[place] for place in sorted(kept)]


def merged_pod(parts: Sequence[Candidate], pod: Pod | None) -> Pod | None:
    """The pod with the changes of all parts, each of which changes another field."""
    merged = pod
    for part in parts:
        if part.pod is None or pod is None or merged is None:
            continue
        fields = {
            name: getattr(part.pod.spec, name)
            for name in part.pod.spec.__struct_fields__
            if getattr(part.pod.spec, name) is not getattr(pod.spec, name)
        }
        merged = replace(merged, spec=replace(merged.spec, **fields))
    return merged


def node_like(node: Node, slices: Sequence[ResourceSlice]) -> tuple[Node, tuple[ResourceSlice, ...]]:
    """Another node with the same labels, room and devices."""
    old, new = node.metadata.name, f"{node.metadata.name}-new"
    labels = {key: new if value == old else value for key, value in (node.metadata.labels or {}).items()}
    made = replace(node, metadata=replace(node.metadata, name=new, uid=f"Node//{new}", labels=labels))
    pieces = tuple(
        replace(
            piece,
            metadata=replace(piece.metadata, name=f"{piece.metadata.name}-new", uid=f"ResourceSlice//{number}-{new}"),
            spec=replace(
                piece.spec, node_name=new, pool=replace(piece.spec.pool, name=_renamed(piece.spec.pool.name, old, new))
            ),
        )
        for number, piece in enumerate(slices)
    )
    return made, pieces


def _renamed(pool: str, old: str, new: str) -> str:
    return pool.replace(old, new) if old in pool else f"{pool}-new"


def _freed(claim: ResourceClaim) -> ResourceClaim:
    return replace(claim, status=replace(claim.status, allocation=None, reserved_for=()))


def _with_classes(allocator: Allocator, changed: dict[str, DeviceClass]) -> ClassLookup:
    if not changed:
        return allocator.classes
    return lambda name: changed.get(name) or allocator.classes(name)


def _together(parts: Sequence[Candidate]) -> str:
    if len(parts) > 2 and all(part.free for part in parts):
        names = [f"{claim.metadata.namespace}/{claim.metadata.name}" for part in parts for claim in part.free]
        return f"free {len(names)} claims: {', '.join(names)}"
    return ", and ".join(part.text for part in parts)
