"""Search for nodes for all pods of a gang together, where one pod after the other is not enough (JointPlacement).

kube-scheduler takes the best node for each pod in turn, and a pod may take the only node on which a later one fits
(kubernetes/kubernetes#138765). This search goes back: it releases a pod and tries its next node. Pods that are equal
are interchangeable, so a node on which one of them led nowhere is not tried for the others. The number of trials is
bounded, and a refusal states whether the bound was reached.

Each kind of pod is first tried alone. If too few of them fit even so, no search can help. The kind with the fewest
nodes is placed first, because it leaves the fewest wrong choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice, permutations
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import encode
from cathedra.scheduler.bindingcycle import HeldPod
from cathedra.scheduler.framework.diagnosis import UnschedulablePod
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Code, Status
from cathedra.scheduler.nodesearch import SelectedNode
from cathedra.scheduler.plugins.gangs import placement_feasible
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.semantics.podgroups import GroupKey, GroupNode
from cathedra.semantics.pods import spec_form, workload_labels

_ORDERS: Final = 24
"""Largest number of orders of different pods that are tried."""

Outcome = HeldPod | UnschedulablePod | Status
Counts = Mapping[GroupKey, int]


_DEPEND_ON_OTHERS: Final = frozenset({"InterPodAffinity", "PodTopologySpread"})
"""Plugins that may refuse a pod alone and not beside others of its gang."""


class JointPod(msgspec.Struct, frozen=True):
    """A pod of a gang, and the group that counts it."""

    key: GroupKey
    entry: QueuedPodInfo
    form: Hashable
    """Equal for pods that differ in nothing but names."""


def joint_pods(
    pending: Sequence[tuple[GroupKey, QueuedPodInfo]], claims_of: Callable[[Pod], Sequence[ResourceClaim] | None]
) -> list[JointPod]:
    """Return the pods of a gang with their forms, in their order. Pods whose claims cannot be used are all
    different."""
    claims = {entry.uid: claims_of(entry.info.pod) for _, entry in pending}
    users = Counter(claim.metadata.uid for found in claims.values() for claim in found or ())

    def form(entry: QueuedPodInfo) -> Hashable:
        pod, used = entry.info.pod, claims[entry.uid]
        if used is None:
            return entry.uid
        labels = sorted(workload_labels(pod).items())
        # A claim that is allocated, or that others of the gang use too, is not interchangeable with an equal one.
        devices = tuple(
            (claim.metadata.uid if users[claim.metadata.uid] > 1 or claim.status.allocation else "", encode(claim.spec))
            for claim in used
        )
        return spec_form(pod), tuple(labels), devices

    return [JointPod(key, entry, (key, form(entry))) for key, entry in pending]


class PodOutcome(msgspec.Struct, frozen=True):
    """The outcome of a pod's last search."""

    outcome: Outcome
    state: CycleState


class Trials(msgspec.Struct, frozen=True):
    """Searches for nodes of single pods, as a joint search makes them."""

    look: Callable[[QueuedPodInfo], Awaitable[SelectedNode | UnschedulablePod | Status]]
    """Searches a node, and holds nothing."""
    hold: Callable[[QueuedPodInfo, frozenset[str]], Awaitable[tuple[Outcome, CycleState]]]
    """Searches a node that is none of some, and holds the pod there."""
    release: Callable[[], Awaitable[None]]
    """Releases the pod that was held last."""


def tree_status(node: GroupNode, scheduled: Counts, remaining: Counts) -> Status | None:
    """Return the status of a hierarchy, given the pods of each PodGroup that have nodes and those that may get one."""
    if not node.is_composite:
        return placement_feasible(node, scheduled.get(node.key, 0), remaining.get(node.key, 0))
    statuses = [tree_status(child, scheduled, remaining) for child in node.children]
    waiting = sum(status is not None and status.code is Code.WAIT for status in statuses)
    return placement_feasible(node, statuses.count(None), waiting)


class JointSearch:
    """One search. If it succeeds, its pods keep their nodes and devices."""

    def __init__(
        self,
        root: GroupNode,
        placed: Counts,
        nodes: frozenset[str],
        trials: Trials,
        most: int,
        *,
        order_matters: bool = False,
    ) -> None:
        """``placed``: pods of each group that have nodes already. ``most``: the bound on searches for a node.
        ``order_matters``: the devices that a pod gets may be those of a pod on another node."""
        self._root, self._nodes, self._most = root, nodes, most
        self._trials = trials
        self._scheduled = dict(placed)
        self._remaining: dict[GroupKey, int] = {}
        self.trials = 0
        self.outcomes: dict[str, PodOutcome] = {}
        """UID → the outcome of the pod's last search."""
        self.broken: Status | None = None
        """The error that ended the search."""
        self.best = 0
        """The largest number of pods that had nodes at once."""
        self.obstacle: JointPod | None = None
        """The pod that found no node when most had one."""
        self._order_matters = order_matters
        self._all = 0
        """Number of pods that have nodes or wait for one."""
        self._hopeless: list[JointPod] = []
        """Pods that fit on no node even alone, one of each form."""
        self._rooms: dict[Hashable, int] = {}
        """Form → the number of nodes on which a pod of it fits alone, as far as they were searched."""

    @property
    def complete(self) -> bool:
        """True if the bound on trials was not reached."""
        return self.trials < self._most

    def refusal(self) -> str:
        """Return what the search found out."""
        if self._hopeless and not self.trials:
            names = ", ".join(one.entry.info.name for one in self._hopeless)
            return f"JointPlacement: {names} find{'s' if len(self._hopeless) == 1 else ''} no node even alone"
        name = self.obstacle.entry.info.name if self.obstacle is not None else ""
        first = f", {name} finds no node" if name else ""
        end = "" if self.complete else f"; the search ended after {self.trials} trials"
        return f"JointPlacement: {self.best} of {self._all} pods fit together{first}{end}"

    async def run(self, pods: Sequence[JointPod], first: str, before: int) -> bool:
        """Return True if the hierarchy has enough pods with nodes.

        When pods were tried one after the other, ``before`` had nodes when that with UID ``first`` found none.
        """
        self._all = sum(self._scheduled.values()) + len(pods)
        self.best = before
        self.obstacle = next((one for one in pods if one.entry.uid == first), None)
        if not await self._look(pods):
            return False
        for order in self._orders(pods, first):
            self._remaining = {}
            for one in order:
                self._remaining[one.key] = self._remaining.get(one.key, 0) + 1
            if await self._place(order, 0, {}):
                return True
            # A finished search has tried all nodes for all pods, and another order finds nothing else, unless what one
            # pod gets changes where another may go.
            if self.broken is not None or not self.complete or not self._order_matters:
                return False
        return False

    async def _look(self, pods: Sequence[JointPod]) -> bool:
        """Try one pod of each form alone. Return False if too few of the pods fit even so."""
        for one in {one.form: one for one in reversed(pods)}.values():
            outcome = await self._trials.look(one.entry)
            if isinstance(outcome, Status):
                self.broken = outcome
                return False
            if isinstance(outcome, SelectedNode):
                self._rooms[one.form] = outcome.feasible
            elif _DEPEND_ON_OTHERS.isdisjoint(outcome.diagnosis.unschedulable_plugins):
                self._rooms[one.form] = 0
                self._hopeless.append(one)
        hopeful = Counter(one.key for one in pods if self._rooms.get(one.form, 1))
        status = tree_status(self._root, self._scheduled, hopeful)
        return status is None or status.code is Code.WAIT

    async def _place(self, order: Sequence[JointPod], index: int, excluded: Mapping[Hashable, frozenset[str]]) -> bool:
        status = tree_status(self._root, self._scheduled, self._remaining)
        if index == len(order):
            return status is None and self._is_whole()
        if status is not None and status.code is not Code.WAIT:
            return False
        pod = order[index]
        form = pod.form
        tried = excluded.get(form, frozenset())
        self._remaining[pod.key] -= 1
        while self.complete and not tried >= self._nodes:
            self.trials += 1
            outcome, state = await self._trials.hold(pod.entry, tried)
            if isinstance(outcome, Status):
                self.broken = outcome
                break
            if isinstance(outcome, UnschedulablePod):
                self._note(pod)
                self._order_matters |= not _DEPEND_ON_OTHERS.isdisjoint(outcome.diagnosis.unschedulable_plugins)
                # A refusal by some of the nodes would read as one by all.
                if not tried:
                    self.outcomes[pod.entry.uid] = PodOutcome(outcome, state)
                break
            self.outcomes[pod.entry.uid] = PodOutcome(outcome, state)
            self._scheduled[pod.key] = self._scheduled.get(pod.key, 0) + 1
            if await self._place(order, index + 1, {**excluded, form: tried}):
                return True
            self._scheduled[pod.key] -= 1
            del self.outcomes[pod.entry.uid]
            await self._trials.release()
            if self.broken is not None:
                break
            tried |= {outcome.node}
        # Without the pod, if enough others remain.
        if (
            self.broken is None
            and self.complete
            and await self._place(order, index + 1, {**excluded, form: self._nodes})
        ):
            return True
        self._remaining[pod.key] += 1
        return False

    def _orders(self, pods: Sequence[JointPod], first: str) -> Iterator[list[JointPod]]:
        """Yield orders in which equal pods follow each other: those with the fewest nodes first, and of these the
        refused pod. Pods that fit nowhere come last."""
        kinds: dict[Hashable, list[JointPod]] = {}
        for one in pods:
            kinds.setdefault(one.form, []).append(one)

        def rank(form: Hashable) -> tuple[bool, int, bool]:
            room = self._rooms.get(form, 0)
            is_refused = any(one.entry.uid == first for one in kinds[form])
            return room == 0 and form in self._rooms, room, not is_refused

        for order in islice(permutations([kinds[form] for form in sorted(kinds, key=rank)]), _ORDERS):
            yield [one for members in order for one in members]

    def _is_whole(self) -> bool:
        """Return True if no group has pods with nodes and yet too few of them."""
        return all(
            self._scheduled.get(leaf.key, 0) == 0 or placement_feasible(leaf, self._scheduled[leaf.key], 0) is None
            for leaf in self._root.leaves()
        )

    def _note(self, pod: JointPod) -> None:
        count = sum(self._scheduled.values())
        if count >= self.best and (count > self.best or self.obstacle is None):
            self.best, self.obstacle = count, pod
