"""Search for nodes for all pods of a gang together, where one pod after the other is not enough (JointPlacement).

kube-scheduler takes the best node for each pod in turn, and a pod may take the only node on which a later one fits
(kubernetes/kubernetes#138765). This search goes back: it releases a pod and tries its next node. Pods that are equal
are interchangeable, so a node on which one of them led nowhere is not tried for the others. The number of trials is
bounded, and a refusal states whether the bound was reached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice, permutations
from typing import Final

import msgspec

from cathedra.api.struct import encode, replace
from cathedra.scheduler.bindingcycle import HeldPod
from cathedra.scheduler.framework.diagnosis import UnschedulablePod
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Code, Status
from cathedra.scheduler.plugins.gangs import placement_feasible
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.semantics.podgroups import GroupKey, GroupNode

_ORDERS: Final = 24
"""Largest number of orders of different pods that are tried."""

Outcome = HeldPod | UnschedulablePod | Status
Counts = Mapping[GroupKey, int]


class JointPod(msgspec.Struct, frozen=True):
    """A pod of a gang, and the group that counts it."""

    key: GroupKey
    entry: QueuedPodInfo

    @property
    def form(self) -> Hashable:
        """Return a value that is equal for pods that differ in nothing but names."""
        pod = self.entry.info.pod
        spec = replace(pod.spec, node_name="", hostname="", scheduling_group=None)
        return self.key, encode(spec), tuple(sorted(pod.metadata.labels.items()))


class PodOutcome(msgspec.Struct, frozen=True):
    """The outcome of a pod's last search."""

    outcome: Outcome
    state: CycleState


TryPod = Callable[[QueuedPodInfo, frozenset[str]], Awaitable[tuple[Outcome, CycleState]]]
"""Searches a node among some and holds the pod there."""


def tree_status(node: GroupNode, scheduled: Counts, remaining: Counts) -> Status | None:
    """Return the status of a hierarchy, given the pods of each PodGroup that have nodes and those that may get one."""
    if not node.is_composite:
        return placement_feasible(node, scheduled.get(node.key, 0), remaining.get(node.key, 0))
    statuses = [tree_status(child, scheduled, remaining) for child in node.children]
    waiting = sum(status is not None and status.code is Code.WAIT for status in statuses)
    return placement_feasible(node, statuses.count(None), waiting)


class JointSearch:
    """One search; what it holds stays held if it succeeds."""

    def __init__(
        self,
        root: GroupNode,
        placed: Counts,
        nodes: frozenset[str],
        try_pod: TryPod,
        release: Callable[[], Awaitable[None]],
        most: int,
    ) -> None:
        """``placed``: pods of each group that have nodes already. ``release`` releases the pod that was held last."""
        self._root, self._nodes, self._most = root, nodes, most
        self._try_pod, self._release = try_pod, release
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

    @property
    def complete(self) -> bool:
        """True if the bound on trials was not reached."""
        return self.trials < self._most

    def refusal(self) -> str:
        """Return what the search found out."""
        name = self.obstacle.entry.info.name if self.obstacle is not None else ""
        first = f", {name} finds no node" if name else ""
        end = "" if self.complete else f"; the search ended after {self.trials} trials"
        return f"JointPlacement: at most {self.best} pods fit together{first}{end}"

    async def run(self, pods: Sequence[JointPod], first: str) -> bool:
        """Return True if the hierarchy has enough pods with nodes. The pod with UID ``first`` is tried first."""
        for order in _orders(pods, first):
            self._remaining = {}
            for one in order:
                self._remaining[one.key] = self._remaining.get(one.key, 0) + 1
            if await self._place(order, 0, {}):
                return True
            if self.broken is not None or not self.complete:
                return False
        return False

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
        while self.complete and (nodes := self._nodes - tried):
            self.trials += 1
            outcome, state = await self._try_pod(pod.entry, nodes)
            if isinstance(outcome, Status):
                self.broken = outcome
                break
            if isinstance(outcome, UnschedulablePod):
                self._note(pod)
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
            await self._release()
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


def _orders(pods: Sequence[JointPod], first: str) -> Iterator[list[JointPod]]:
    """Yield orders in which equal pods follow each other: that of the refused pod first, then by requests."""
    kinds: dict[Hashable, list[JointPod]] = {}
    for one in pods:
        kinds.setdefault(one.form, []).append(one)
    ranked = sorted(kinds.values(), key=lambda members: all(one.entry.uid != first for one in members))
    for order in islice(permutations(ranked), _ORDERS):
        yield [one for members in order for one in members]
