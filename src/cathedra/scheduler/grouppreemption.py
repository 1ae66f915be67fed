"""Preemption for hierarchies of pod groups: room is made for all of it, or for none (KEP-5710).

All pods of lower priority are taken off the nodes in memory, and the hierarchy is tried. If it fits, they are put back
one after the other, the most important first, as long as it still fits; the rest is evicted. Pods of a group whose
disruption mode is All are one unit: all of them are evicted, or none. With the gate DRAPreemption the claims of the
pods that are taken off are free in the trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.client.store import Store
from cathedra.scheduler.plugins.gangs import StoredGroups
from cathedra.scheduler.plugins.preemption import DEVICES_BEING_FREED, DefaultPreemption, is_leaving, started
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.unitcycle import GroupResult, Pending, Room, Trial
from cathedra.semantics.podgroups import GroupKey, GroupNode, group_key
from cathedra.semantics.pods import is_terminal

MOST_TRIALS: Final = 100
"""Largest number of units that are tried to be kept; those of less importance are evicted without a trial."""

_NEVER: Final = "not eligible due to preemptionPolicy=Never."


class _GroupUnit(msgspec.Struct, frozen=True):
    """Pods that are evicted together: one, or all of a group."""

    pods: tuple[PodInfo, ...]
    group: GroupKey | None

    def importance(self) -> tuple[int, bool, float]:
        """Sort key: the most important unit first; among equal ones groups come before single pods."""
        first = min(started(pod.pod) for pod in self.pods)
        return (-max(pod.priority for pod in self.pods), self.group is None, first)


class GroupPreemption:
    """Evicts pods of lower priority so that a hierarchy fits in a later cycle."""

    def __init__(
        self,
        plugin: DefaultPreemption,
        cache: Cache,
        pods: Store[Pod],
        groups: StoredGroups,
        trial: Callable[[Pending, Mapping[str, PodInfo]], Trial],
    ) -> None:
        """``trial`` makes a trial without some pods, by UID, that never gives up its turn: others must not see the
        nodes without their pods."""
        self._plugin = plugin
        self._cache = cache
        self._pods = pods
        self._groups = groups
        self._trial = trial

    async def make_room(self, result: GroupResult, pending: Pending) -> Room:
        """Evict what has to go and nominate nodes; or return the reason why that would not help."""
        if self._plugin.observer is not None:
            self._plugin.observer.preemption_attempted()
        entries = [entry for group in pending.values() for entry in group]
        obstacle = self._obstacle(entries)
        if obstacle:
            kept = {one.uid: self._plugin.nominated(one.info) for one in entries}
            return Room(f"preemption: {obstacle}", {} if obstacle == _NEVER else kept)
        units = self._units(entries[0].info.priority)
        if not units:
            return Room("preemption: No preemption victims found for incoming pod group.")
        victims, nodes = await self._chosen(result.node, pending, units)
        if not nodes:
            return Room("preemption: evicting all pods of lower priority would not make the pod group fit.")
        if self._plugin.observer is not None:
            self._plugin.observer.victims_chosen(sum(len(unit.pods) for unit in victims))
        try:
            for unit in victims:
                for victim in unit.pods:
                    # Pods that an earlier preemption, or their owner, is already ending are waited for.
                    if victim.pod.metadata.deletion_timestamp is None:
                        await self._plugin.evict(victim.pod, entries[0].info.pod, victim.pod.spec.node_name)
        except (StatusError, ConnectionError) as failure:
            return Room(f"preemption: {failure}")
        return Room("", nodes)

    def _obstacle(self, entries: Iterable[QueuedPodInfo]) -> str:
        for entry in entries:
            pod = entry.info
            if pod.pod.spec.preemption_policy == "Never":
                return _NEVER
            node = self._cache.snapshot().by_name.get(self._plugin.nominated(pod))
            if node is not None and any(
                other.priority < pod.priority and is_leaving(other.pod) for other in node.pods.values()
            ):
                return "not eligible due to a terminating pod on the nominated node."
            if node is not None and self._plugin.is_freeing(node.name):
                return DEVICES_BEING_FREED
        return ""

    def _units(self, priority: int) -> list[_GroupUnit]:
        """Return what may be evicted for pods of a priority, the most important first."""
        together: dict[GroupKey, list[PodInfo]] = {}
        units: list[_GroupUnit] = []
        for node in self._cache.snapshot().nodes:
            for pod in node.pods_in_order():
                if self._cache.is_assumed(pod.uid):
                    continue
                group = self._groups.disrupted_as_one(pod.pod)
                if group is not None:
                    together.setdefault(group_key(group), []).append(pod)
                elif pod.priority < priority:
                    units.append(_GroupUnit((pod,), None))
        for key, members in together.items():
            if all(pod.priority < priority for pod in members):
                units.append(_GroupUnit(tuple(members), key))
        return sorted(units, key=_GroupUnit.importance)

    async def _chosen(
        self, root: GroupNode, pending: Pending, units: Sequence[_GroupUnit]
    ) -> tuple[list[_GroupUnit], dict[str, str]]:
        """Return the units that have to go, and the node of each pod that fits then; no nodes if it does not fit."""
        gone = {pod.uid: pod for unit in units for pod in unit.pods}
        try:
            for uid in gone:
                self._cache.remove_pod(uid)
            nodes = await self._placed(root, pending, gone)
            if not nodes:
                return [], {}
            victims: list[_GroupUnit] = []
            violating, _ = self._plugin.split([pod for unit in units for pod in unit.pods])
            protected = {pod.uid for pod in violating}
            # Units under a disruption budget are put back first, so that the budget is violated only if it must be.
            ordered = sorted(units, key=lambda unit: not any(pod.uid in protected for pod in unit.pods))
            for number, unit in enumerate(ordered):
                self._put_back(unit.pods, gone)
                # A unit away from the chosen nodes does not compete with the group.
                touches = {pod.pod.spec.node_name for pod in unit.pods} & set(nodes.values())
                fitting = nodes
                if touches:
                    fitting = await self._placed(root, pending, gone) if number < MOST_TRIALS else {}
                if fitting:
                    nodes = fitting
                    continue
                victims.append(unit)
                for pod in unit.pods:
                    self._cache.remove_pod(pod.uid)
                    gone[pod.uid] = pod
            return victims, nodes
        finally:
            self._put_back(tuple(gone.values()), gone)

    async def _placed(self, root: GroupNode, pending: Pending, gone: Mapping[str, PodInfo]) -> dict[str, str]:
        trial = self._trial(pending, gone)
        result = await trial.run(root)
        nodes = {held.pod.uid: held.node for held in result.held()} if result.status is None else {}
        await trial.give_up()
        return nodes

    def _put_back(self, pods: Iterable[PodInfo], gone: dict[str, PodInfo]) -> None:
        for pod in tuple(pods):
            del gone[pod.uid]
            # The informer's version: the pod may have ended while its node was tried without it.
            now = self._pods.get(pod.namespace, pod.name)
            if now is not None and now.metadata.uid == pod.uid and not is_terminal(now):
                self._cache.add_pod(now)
