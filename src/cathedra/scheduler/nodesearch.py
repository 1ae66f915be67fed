"""Node search: filter all nodes, score them, pick one.

Up to a hundred nodes are all filtered. In larger clusters the search stops when enough nodes are feasible, and the next
one begins where this one ended, so that all nodes are used (docs/spec/scheduling.md §1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from operator import attrgetter
from random import Random
from typing import Final, NamedTuple

import msgspec

from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.plugin import CycleState, Supposition
from cathedra.scheduler.framework.status import Status, unresolvable
from cathedra.scheduler.profile import FilterCall, Profile
from cathedra.scheduler.state.cache import Nominations
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import EachNode

FEWEST_NODES = 100
"""Least number of feasible nodes that are searched for."""
LOWEST_PERCENTAGE = 5
_DRAWS: Final = 4
"""Number of nodes that are drawn before those with the largest total are counted."""
_name_of: Final[Callable[[NodeInfo], str]] = attrgetter("name")
_UNREFUSED: Final[Mapping[NodeInfo, Status]] = {}


class SelectedNode(msgspec.Struct, frozen=True, gc=False):
    """The node of the pod, and the number of nodes that were filtered to find it."""

    node: str
    evaluated: int
    feasible: int


class NodeSearch:
    """Finds the node of a pod. Remembers nothing between pods but where to begin."""

    def __init__(self, profile: Profile, nominations: Nominations, random: Random, *, percentage: int = 0) -> None:
        """``percentage`` of all nodes to find before the search stops; 0 adapts it to the size of the cluster."""
        self._profile = profile
        self._nominations = nominations
        self._random = random
        self._percentage = percentage
        self._start = 0
        self._recent = _RecentNodes()

    def find(
        self, state: CycleState, pod: PodInfo, excluded: frozenset[str] = frozenset()
    ) -> SelectedNode | Diagnosis | Status:
        """Return the best node that is not ``excluded``, the diagnosis why there is none, or the status of what
        broke."""
        snapshot = state.snapshot
        diagnosis = Diagnosis(len(snapshot.nodes))
        feasible = self._feasible(state, pod, diagnosis, excluded)
        if isinstance(feasible, Status):
            return feasible
        if not feasible:
            return diagnosis
        number = len(feasible)
        evaluated = number + len(diagnosis.refusals)
        if number == 1:
            return SelectedNode(feasible[0].name, evaluated, 1)
        totals, bound = self._profile.score(state, pod, feasible)
        node = feasible[self._best(totals, bound)]
        return SelectedNode(node.name, evaluated, number)

    def _best(self, totals: Sequence[int], bound: int | None) -> int:
        """Return the place of the largest total; if there are several, a random one of them."""
        best = bound if bound is not None and bound in totals else max(totals)
        if len(totals) > FEWEST_NODES:
            # Mostly nearly all nodes of a large cluster are equally good. Drawing takes no step for each node.
            for _ in range(_DRAWS):
                place = int(self._random.random() * len(totals))
                if totals[place] == best:
                    return place
        number = totals.count(best)
        chosen = self._random.choice(range(number)) if number > 1 else 0
        if number == len(totals):
            return chosen
        place = totals.index(best)
        for _ in range(chosen):
            place = totals.index(best, place + 1)
        return place

    def _feasible(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, excluded: frozenset[str]
    ) -> Sequence[NodeInfo] | Status:
        snapshot = state.snapshot
        scope = self._profile.pre_filter(state, pod, snapshot)
        if isinstance(scope, Status):
            if not scope.rejected:
                return scope
            diagnosis.absent = scope
            diagnosis.prefilter_message = scope.message
            diagnosis.blame(scope)
            return ()
        nodes = snapshot.nodes
        if scope.nodes is not None:
            places = sorted(map(snapshot.places.__getitem__, scope.nodes & snapshot.places.keys()))
            nodes = list(map(nodes.__getitem__, places))
            names = f"[{' '.join(sorted(scope.narrowed_by))}]"
            diagnosis.absent = unresolvable(f"node(s) didn't satisfy plugin(s) {names}")
            diagnosis.unschedulable_plugins = diagnosis.unschedulable_plugins.union(scope.narrowed_by)
        if excluded:
            nodes = [node for node in nodes if node.name not in excluded]
        if nominated := self._nominations.of(pod):
            chosen = self._pass([node for node in nodes if node.name == nominated], 0, 1, state, pod, Diagnosis(0))
            if not isinstance(chosen, Status) and chosen:
                return chosen
        count = len(nodes)
        if not count:
            return ()
        start = self._start % count
        feasible = self._pass(nodes, start, nodes_to_find(count, self._percentage), state, pod, diagnosis)
        if not isinstance(feasible, Status):
            self._start = (start + len(feasible) + len(diagnosis.refusals)) % count
        return feasible

    def _pass(
        self,
        nodes: Sequence[NodeInfo],
        start: int,
        wanted: int,
        state: CycleState,
        pod: PodInfo,
        diagnosis: Diagnosis,
    ) -> Sequence[NodeInfo] | Status:
        """Nodes that pass every filter, from the one at ``start`` on and around, until ``wanted`` are found."""
        feasible: Sequence[NodeInfo] = ()
        count = left = len(nodes)
        missing = wanted
        existing = len(state.snapshot.nodes)
        nominations = self._nominations.node_of
        # Results of all nodes are kept from cycle to cycle. They are worth their while unless a few nodes are left.
        whole = count > 1 and 2 * count >= existing
        # All of them together if another pod has shown that there is no node: the refusals of all nodes are known.
        hopeless = whole and not nominations and self._profile.refuses_all(state, pod)
        asked = count if hopeless else wanted
        while left:
            if asked > left:
                asked = left
            part = self._recent.around(nodes, start, asked) if start or asked < count else nodes
            filters = self._profile.batch_filters(state, pod, part) if whole else self._profile.filters(state)
            if not nominations and _all_pass(filters, part, existing):
                # The part itself, as far as it is needed: no list of its own is made of hundreds of nodes.
                passing = part if asked <= missing else part[:missing]
                self._profile.count_batch(filters, len(passing))
            else:
                found = self._pass_some(_Part(part, filters, missing), state, pod, diagnosis)
                if isinstance(found, Status):
                    return found
                passing = found
            feasible = [*feasible, *passing] if feasible else passing
            missing = wanted - len(feasible)
            if missing <= 0:
                break
            left -= asked
            start = (start + asked) % count
            # After a part without a feasible node the next one is twice as large: a pod that fits nowhere would cost
            # one batch of every filter for each tenth of a large cluster.
            asked = max(missing, FEWEST_NODES) if feasible else 2 * asked
        return feasible

    def _pass_some(
        self, part: _Part, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> Sequence[NodeInfo] | Status:
        """Return the nodes that pass, until there are enough, or the error of a plugin."""
        nodes, filters, wanted = part
        nominations = self._nominations.node_of
        judge = self._judge_with_nominated if nominations else self._profile.filter
        passing = frozenset[NodeInfo]() if nominations else _passing_all(filters, nodes)
        existing = len(state.snapshot.nodes)
        until, refused = (0, _UNREFUSED) if nominations else _refused_first(filters, nodes, existing)
        if isinstance(refused, EachNode):
            # Fast path for a pod like one that fits nowhere.
            diagnosis.refuse_alike(self._recent.refusals(nodes, refused.value), refused.value)
            self._profile.count_batch(filters[:until], len(nodes))
            return ()
        if refused and not passing and all(map(refused.__contains__, nodes)):
            # Fast path for a pod that fits nowhere, without a step of Python for each node.
            diagnosis.refuse_all(zip(map(_name_of, nodes), map(refused.__getitem__, nodes), strict=True))
            self._profile.count_batch(filters[:until], len(nodes))
            return ()
        feasible: list[NodeInfo] = []
        skipped = evaluated = 0
        broken = None
        for node in nodes:
            known = node in passing
            skipped += known
            status = None if known else refused.get(node)
            if status is not None:
                evaluated += 1
            elif not known:
                status = judge(filters, state, pod, node)
            if status is None:
                feasible.append(node)
                if len(feasible) == wanted:
                    break
            elif status.rejected:
                diagnosis.refuse(node.name, status)
            else:
                broken = status
                break
        self._profile.count_batch(filters, skipped)
        self._profile.count_batch(filters[:until], evaluated)
        return feasible if broken is None else broken

    def _judge_with_nominated(
        self, filters: Sequence[FilterCall], state: CycleState, pod: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Refuse the node unless the pod fits both with and without the pods that are nominated for it."""
        trial = _beside_nominated(self._nominations, pod, state, node)
        if trial is not None:
            refusal = _run(self._profile, pod, trial)
            if refusal is not None:
                return refusal
            for plugin, *_ in filters:
                plugin.passed_beside(state, trial, node.name)
        return self._profile.filter(filters, state, pod, node)


class _Part(NamedTuple):
    """Nodes that are tried together: the calls of the filters for them, and the number of nodes that are enough."""

    nodes: Sequence[NodeInfo]
    filters: Sequence[FilterCall]
    wanted: int


def _all_pass(filters: Sequence[FilterCall], nodes: Sequence[NodeInfo], existing: int) -> bool:
    """Return True if all filters are known to pass each of ``nodes``; ``existing`` is the number of all nodes."""
    asked: frozenset[NodeInfo] | None = None
    last: Set[NodeInfo] | None = None
    for _, _, passing, _ in filters:
        if passing is last:
            # Filters with predicates share one set of passing nodes.
            continue
        last = passing
        if len(passing) == existing:
            continue
        if len(passing) < len(nodes):
            return False
        if asked is None:
            asked = frozenset(nodes)
        if not asked <= passing:
            return False
    return True


def _passing_all(filters: Sequence[FilterCall], nodes: Sequence[NodeInfo]) -> Set[NodeInfo]:
    """Return those of ``nodes`` that all filters are known to pass."""
    if not all(passing for _, _, passing, _ in filters):
        return frozenset()
    common = set(nodes)
    for _, _, passing, _ in filters:
        common &= passing
    return common


def _refused_first(
    filters: Sequence[FilterCall], nodes: Sequence[NodeInfo], existing: int
) -> tuple[int, Mapping[NodeInfo, Status]]:
    """Return the refusals of the first filter that refuses any of ``nodes``, if they are known for all of them, and the
    number of filters that a node passes until then. None of these nodes need be filtered.

    ``existing`` is the number of all nodes.
    """
    asked: frozenset[NodeInfo] | None = None
    for number, (_, _, passing, refused) in enumerate(filters, start=1):
        if refused:
            return number, refused
        if len(passing) == existing:
            continue
        if asked is None:
            asked = frozenset(nodes)
        if not asked <= passing:
            break
    return 0, _UNREFUSED


class _RecentNodes:
    """Lists that were made in the last search and serve the next one, if it is on the same nodes."""

    def __init__(self) -> None:
        self._twice: tuple[Sequence[NodeInfo], Sequence[NodeInfo]] = ((), ())
        """Nodes, and twice the same in one list: a part that goes around lies in one piece."""
        self._around: tuple[int, Sequence[NodeInfo]] = (0, ())
        """The last part of them, and where it begins."""
        self._refusals: tuple[Sequence[NodeInfo], Status | None, dict[str, Status]] = ((), None, {})

    def around(self, nodes: Sequence[NodeInfo], start: int, number: int) -> Sequence[NodeInfo]:
        """Return ``number`` of ``nodes`` from ``start`` on; the first follows the last."""
        known, twice = self._twice
        place, found = self._around
        if known is not nodes:
            twice = [*nodes, *nodes]
            self._twice = nodes, twice
        elif place == start and len(found) == number:
            return found
        found = twice[start : start + number]
        self._around = start, found
        return found

    def refusals(self, nodes: Sequence[NodeInfo], status: Status) -> dict[str, Status]:
        """Return the names of ``nodes`` with ``status``."""
        known, shared, found = self._refusals
        if known is not nodes or shared is not status:
            found = dict.fromkeys(map(_name_of, nodes), status)
            self._refusals = nodes, status, found
        return found


def try_out_with_nominated(
    profile: Profile, nominations: Nominations, pod: PodInfo, state: CycleState, node: NodeInfo
) -> Status | None:
    """Return the refusal of ``pod`` on ``node`` as it is given, both with and without the pods nominated for it."""
    trial = _beside_nominated(nominations, pod, state, node)
    refusal = _run(profile, pod, trial) if trial is not None else None
    return refusal if refusal is not None else _run(profile, pod, _trial(state, node))


def _beside_nominated(nominations: Nominations, pod: PodInfo, state: CycleState, node: NodeInfo) -> CycleState | None:
    """Return the state of a trial with the pods that ``pod`` must respect on ``node``; None if there are none."""
    others = nominations.ahead_of(pod, node.name)
    if not others:
        return None
    crowded = node.copy()
    for other in others:
        crowded.add(other)
    return _trial(state, crowded, tuple(others))


def _trial(state: CycleState, node: NodeInfo, beside: tuple[PodInfo, ...] = ()) -> CycleState:
    """Return the state of a trial in which a node is like ``node``; the cycle's own state is not changed."""
    real = state.snapshot.by_name.get(node.name)
    gone = {uid: pod for uid, pod in real.pods.items() if uid not in node.pods} if real is not None else {}
    before = state.supposed.gone if state.supposed is not None else {}
    supposed = Supposition({**before, **gone}, beside, node)
    return CycleState(state.snapshot.with_node(node), state.group, state.attempt, supposed, state.narrowing)


def _run(profile: Profile, pod: PodInfo, trial: CycleState) -> Status | None:
    """Return the refusal of ``pod`` on the node of a trial."""
    node = trial.supposed.node if trial.supposed is not None else None
    assert node is not None, "a trial is about one node"
    # PreFilter runs again on the trial: its counts (affinity, spreading) depend on the pods of the node.
    scope = profile.pre_filter(trial, pod, trial.snapshot)
    if isinstance(scope, Status):
        return scope
    return profile.filter(profile.filters(trial), trial, pod, node)


def nodes_to_find(nodes: int, percentage: int = 0) -> int:
    """Return the number of feasible nodes that suffice in a cluster of ``nodes``."""
    if nodes < FEWEST_NODES:
        return nodes
    # kube-scheduler's formula, whole numbers included. Without `max`, which costs as much as all of it (for each pod).
    adaptive = 50 - nodes // 125
    if adaptive < LOWEST_PERCENTAGE:
        adaptive = LOWEST_PERCENTAGE
    found = nodes * (percentage or adaptive) // 100
    return found if found > FEWEST_NODES else FEWEST_NODES
