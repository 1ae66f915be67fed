"""Remedies: the smallest changes with which it fits. Every proposal is tried, and only those that work are reported.

A change of claims is tried with the allocator, on nodes that no other filter refuses; a change of the pod with all
filters. If no single change helps, pairs are tried, then the claims that would have to be freed together on one node,
and a new node like an existing one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

import msgspec
from msgspec import structs

from cathedra.allocation import AllocationError, Allocator, Budget, Inventory, LedgerSnapshot
from cathedra.allocation.claims.requests import ClassLookup
from cathedra.allocation.supply.ledger import Ledger
from cathedra.api.core.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.core.storage_v1 import StorageClass
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.struct import replace
from cathedra.insight.explanation.analysis import Analysis, analyse_pod
from cathedra.insight.explanation.candidates import Candidate, claim_candidates
from cathedra.insight.explanation.changes import merged_pod, remedy_of
from cathedra.insight.explanation.freeing import Holders, freed_candidates
from cathedra.insight.explanation.podcandidates import extended_candidates, pod_candidates
from cathedra.insight.explanation.question import PodSubject
from cathedra.insight.explanation.report import Cause, Remedy
from cathedra.insight.reading.state import ClusterState
from cathedra.scheduler.judging import Filters

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
_CONFIRMED: Final = 24
"""Changes that are tried for the whole gang of a pod at most: each of its pods is filtered again."""
_NEW_NODES: Final = 8
"""Nodes that are proposed to be added at most."""
_STATES: Final = 5_000
"""States of the search for one proposal: one that takes longer is not reported."""
_COUNTS: Final = frozenset(("allocated", "taints", "capacity", "counters", "combination"))
"""Kinds of causes whose text has a number of free devices."""
_EVERYWHERE: Final = 200
"""Largest number of nodes on which a change that works is tried again, to report where."""


Helps = Callable[[Remedy], bool]
"""Return True if a change is enough, also for the pods that are scheduled together with the pod."""


def always(_: Remedy) -> bool:
    """Return True: nothing is scheduled together with the subject."""
    return True


FindRemedies = Callable[[Analysis, PodSubject | None, Helps], tuple[Remedy, ...]]
"""`find_remedies`, or a function that finds none where the verdict alone is needed."""


def find_remedies(analysis: Analysis, subject: PodSubject | None, helps: Helps = always) -> tuple[Remedy, ...]:
    """Return the changes with which it fits, the smallest first; none if it fits already, or if nothing helps.

    Only changes that ``helps`` confirms are returned.
    """
    if analysis.fitting or (analysis.prepared is not None and analysis.prepared.allowance.exhausted):
        # A search that was stopped for time would be stopped with other claims as well.
        return ()
    finder = _RemedySearch(analysis, subject, helps)
    return tuple(finder.find())


def with_largest_counts(causes: Iterable[Cause], analysis: Analysis, changes: Sequence[Remedy]) -> Iterator[Cause]:
    """Add to causes how many devices a request can have at once, where fewer than those that are free.

    Free devices are counted one by one, while counters and constraints allow only some of them together.
    """
    largest = {
        (one.old, one.path.rpartition("requests[")[2]): (one.new, change.text)
        for change in changes
        if change.kind == "lower count"
        for one in change.edits
    }
    left = {
        funnel.request: (funnel.wanted, max((step.left for step in funnel.steps if step.test == "free"), default=0))
        for group in reversed(analysis.groups)
        for funnel in group.requests
    }
    for cause in causes:
        for (wanted, _), (count, text) in largest.items():
            name = text.partition("request ")[2].partition(" of ")[0].strip("'")
            if cause.kind in _COUNTS and f"request {name!r} " in cause.text and left.get(name, (0, 0))[0] == wanted:
                if left[name][1] > count:
                    cause = structs.replace(cause, text=f"{cause.text}; at most {count} can be had together")
                break
        yield cause


class _TriedChange(msgspec.Struct, frozen=True):
    parts: tuple[Candidate, ...]
    nodes: tuple[str, ...]

    @property
    def rank(self) -> tuple[int, int, int]:
        return len(self.parts), sum(one.rank for one in self.parts), -len(self.nodes)


class _RemedySearch:
    def __init__(self, analysis: Analysis, subject: PodSubject | None, helps: Helps) -> None:
        self.analysis, self.subject = analysis, subject
        self._helps = helps
        self._confirmations = _CONFIRMED
        self.state = analysis.state
        prepared = analysis.prepared
        self.allocator = prepared.allocator if prepared is not None else self.state.cluster.allocator()
        self.claims = analysis.claims or self._unallocated()
        # States, not seconds: the proposals that are found must not depend on the speed of the machine.
        self.budget = Budget(states=_STATES)
        self._ledger: Ledger | None = None
        self._holders = Holders(self.state, subject.pod if subject is not None else None)
        near = analysis.representatives or self.state.nodes
        asked = set(analysis.judgement.nodes)
        self.near = [node for node in near if node.metadata.name in asked][:_NODES]

    def _unallocated(self) -> tuple[ResourceClaim, ...]:
        """Return the pod's claims that are not allocated yet, for an analysis that has not reached the claims."""
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
            remedy = remedy_of(one.parts, nodes, self.analysis, self.subject)
            if not self._is_enough(remedy):
                continue
            told[kind] = told.get(kind, 0) + 1
            touched.add(target)
            number += 1
            yield remedy
        yield from self._new_nodes()

    def _is_enough(self, remedy: Remedy) -> bool:
        self._confirmations -= 1
        return self._confirmations >= 0 and self._helps(remedy)

    def _candidates(self) -> Iterator[Candidate]:
        if self.claims:
            yield from claim_candidates(self.analysis, self.claims, self.allocator)
            yield from extended_candidates(self.analysis.pod, self.claims)
            yield from freed_candidates(self.analysis, self.allocator, self._holders)
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
        """Return the names of the nodes on which the subject fits with these changes."""
        tried = [*self.near, *self._of_removed(parts)] if nodes is None else nodes
        left = self._outside(parts, tried)
        return self._allocated(parts, left) if left else ()

    def _of_removed(self, parts: tuple[Candidate, ...]) -> Iterator[Node]:
        """Yield the nodes of the first removed pods that are not near: a workload decides itself where it has fewer."""
        names = dict.fromkeys(
            pod.spec.node_name for part in parts for pod in part.removed[:_NODES] if isinstance(pod, Pod)
        )
        near = {node.metadata.name for node in self.near}
        asked = set(self.analysis.judgement.nodes)
        for name in names:
            node = self.state.get(Node, name) if name in asked and name not in near else None
            if node is not None:
                yield node

    def _outside(self, parts: tuple[Candidate, ...], nodes: Sequence[Node]) -> Sequence[Node]:
        """Return the nodes that no filter other than the one for devices refuses."""
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
            self._ledger = self.state.cluster.ledger.copy()
        ledger = self._ledger
        for claim in freed:
            # The copy is changed and restored, because one for each proposal would cost more than the trial.
            ledger.remove(claim)
        snapshot = ledger.snapshot()
        for claim in freed:
            ledger.add(claim)
        return snapshot

    # --- what single changes do not do

    def _freed_together(self) -> list[_TriedChange]:
        """Return the smallest change found that frees several claims of one node together; empty if there is none."""
        if not self.claims:
            return []
        best: _TriedChange | None = None
        claims = {one.metadata.uid: one for one in self.state.all(ResourceClaim)}
        for node in self.near[:6]:
            ordered = self._holders.held_on(node, self.analysis.prepared, self.allocator)
            # One change ends all pods of a workload, and is named once.
            units: dict[str, Candidate] = {}
            of_units: dict[str, ResourceClaim] = {}
            for uid in ordered:
                for one in self._holders.proposals(claims[uid], whole=True) if uid in claims else ():
                    units.setdefault(one.target, one)
                    of_units.setdefault(one.target, claims[uid])
            chosen = list(units.values())[:_TOGETHER]
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
            for place, one in enumerate(chosen):
                chosen[place] = self._least(one, self._holders.proposals(of_units[one.target]), chosen, node)
            if best is None or len(chosen) < len(best.parts):
                best = _TriedChange(tuple(chosen), (node.metadata.name,))
        return [best] if best is not None and len(best.parts) > 1 else []

    def _least(
        self, whole: Candidate, smaller: Iterable[Candidate], chosen: Sequence[Candidate], node: Node
    ) -> Candidate:
        """Return the cheapest change of the workload of ``whole`` that suffices beside the others of ``chosen``."""
        others = tuple(one for one in chosen if one is not whole)
        for one in smaller:
            if one.rank < whole.rank and self._nodes((*others, one), [node]):
                return one
        return whole

    def _new_nodes(self) -> Iterator[Remedy]:
        """Yield the remedy that adds nodes like an existing one, as if nothing ran on them; at most one remedy."""
        waiting = self.analysis.judgement.waiting
        # No node helps a pod whose group, or whose siblings, do not exist.
        if self._search_fails() or (waiting is not None and waiting.plugin == "GangScheduling"):
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
                what = (
                    f"like {node.metadata.name} ({devices} {'device' if devices == 1 else 'devices'} of "
                    f"{', '.join(sorted({record.pool[0] for record in bound}))}"
                )
                added: tuple[KubeObject, ...] = ()
                # A gang may need several: with each of them one more of its pods fits.
                for count in range(1, _NEW_NODES + 1):
                    another, its = node_like(node, [record.source for record in bound], count)
                    added = (*added, another, *its)
                    text = f"add a node {what})" if count == 1 else f"add {count} nodes {what} each)"
                    remedy = Remedy("add node", text, (new.metadata.name,), (), set=added)
                    if self._is_enough(remedy):
                        yield remedy
                        return
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
        kinds: tuple[type[KubeObject], ...] = (PersistentVolumeClaim, PersistentVolume, StorageClass)
        volumes = [one for kind in kinds for one in self.state.all(kind)]
        # Alone: whether its gang fits as well is tried afterwards, on all nodes.
        pod = replace(self.subject.pod, spec=replace(self.subject.pod.spec, scheduling_group=None))
        small = ClusterState.of(
            [node, *pieces, *classes, *self.state.all(DeviceTaintRule), *mine, *volumes, pod],
            "a new node",
            gates=self.state.gates,
            unknown=self.state.unknown & {PersistentVolumeClaim},
        )
        return bool(analyse_pod(small, pod, Filters.over(small)).fitting)

    # --- on all nodes

    def _everywhere(self, works: _TriedChange) -> tuple[str, ...]:
        """Return the names of all nodes on which the subject then fits; none if some node would make the search fail.
        In large clusters only those that were tried are returned."""
        asked = set(self.analysis.judgement.nodes)
        if len(asked) > _EVERYWHERE:
            return works.nodes
        return self._nodes(works.parts, [node for node in self.state.nodes if node.metadata.name in asked])


def _smallest(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates in their order; if there are more than `_TRIED`, those with the smallest ranks."""
    found = list(candidates)
    if len(found) <= _TRIED:
        return found
    kept = heapq.nsmallest(_TRIED, range(len(found)), key=lambda place: found[place].rank)
    return [found[place] for place in sorted(kept)]


def node_like(node: Node, slices: Sequence[ResourceSlice], number: int = 1) -> tuple[Node, tuple[ResourceSlice, ...]]:
    """Return another node with the same labels, room and devices; ``number`` distinguishes several."""
    suffix = "new" if number == 1 else f"new-{number}"
    old, new = node.metadata.name, f"{node.metadata.name}-{suffix}"
    labels = {key: new if value == old else value for key, value in (node.metadata.labels or {}).items()}
    made = replace(node, metadata=replace(node.metadata, name=new, uid=f"Node//{new}", labels=labels))
    pieces = tuple(
        replace(
            piece,
            metadata=replace(
                piece.metadata, name=f"{piece.metadata.name}-{suffix}", uid=f"ResourceSlice//{place}-{new}"
            ),
            spec=replace(
                piece.spec,
                node_name=new,
                pool=replace(piece.spec.pool, name=_renamed(piece.spec.pool.name, old, new, suffix)),
            ),
        )
        for place, piece in enumerate(slices)
    )
    return made, pieces


def _renamed(pool: str, old: str, new: str, suffix: str) -> str:
    return pool.replace(old, new) if old in pool else f"{pool}-{suffix}"


def _with_classes(allocator: Allocator, changed: dict[str, DeviceClass]) -> ClassLookup:
    if not changed:
        return allocator.classes
    return lambda name: changed.get(name) or allocator.classes(name)
