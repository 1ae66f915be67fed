"""DefaultPreemption: evicts pods of lower priority.

For every node whose refusal an eviction could lift, the smallest set of victims is found by removing all pods of lower
priority and adding back as many as fit, the most important first. The node with the least harm is chosen: fewest
violated disruption budgets, lowest priority among victims, smallest sum, fewest pods, latest start
(docs/spec/scheduling.md §15 and §17).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.selectors import from_label_selector
from cathedra.api.status import StatusError
from cathedra.api.struct import Time
from cathedra.client.resources import PODDISRUPTIONBUDGETS, PODS
from cathedra.client.transport import PatchType
from cathedra.releases import behaviours
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.events import Action, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import (
    ClaimPlugin,
    CycleState,
    Nomination,
    PluginContext,
    PluginObserver,
    PostFilterPlugin,
    write_nomination,
)
from cathedra.scheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from cathedra.scheduler.plugins.gangs import StoredGroups
from cathedra.scheduler.state.cache import Nominations
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.podgroups import GroupKey, group_key

DEFAULT_SHARE: Final = (10, 100)
"""Largest number of candidate nodes that are compared: a percentage of those in question, and a minimum."""

DEVICES_BEING_FREED: Final = "not eligible due to devices of evicted pods that are still being freed."

TryOut = Callable[[PodInfo, CycleState, NodeInfo], Status | None]
"""Return the refusal of the pod if the node were like this."""

_LOG = logging.getLogger(__name__)


class Eviction(msgspec.Struct, frozen=True):
    """Pods that have to go from a node so that the preemptor fits there."""

    node: str
    victims: Sequence[PodInfo]
    """The most important first."""
    violations: int
    """The number of victims that a disruption budget protects."""

    def harm(self) -> tuple[int, int, int, int, float]:
        """Sort key: less harm is better."""
        top = max(victim.priority for victim in self.victims)
        # Shifted, so that many pods of negative priority do not look like a small sum.
        total = sum(victim.priority + 2**31 for victim in self.victims)
        earliest = min(started(victim.pod) for victim in self.victims if victim.priority == top)
        return (self.violations, top, total, len(self.victims), -earliest)


class _Unit(msgspec.Struct, frozen=True):
    """Pods that are evicted together: one pod, or all of a group whose disruption mode is All."""

    pods: tuple[PodInfo, ...]
    node: str
    """The node on which the preemptor is tried."""

    def importance(self) -> tuple[int, float]:
        """Sort key: the most important unit first."""
        return -max(pod.priority for pod in self.pods), min(started(pod.pod) for pod in self.pods)

    def has_any(self, uids: Container[str]) -> bool:
        """Return True if one of ``uids`` is that of a pod of the unit."""
        return any(pod.uid in uids for pod in self.pods)

    def leave(self, node: NodeInfo) -> None:
        """Take the unit's pods off a copy of the node."""
        for pod in self.pods:
            if pod.pod.spec.node_name == self.node:
                node.remove(pod.uid)

    def enter(self, node: NodeInfo) -> None:
        """Put the unit's pods back on a copy of the node."""
        for pod in self.pods:
            if pod.pod.spec.node_name == self.node:
                node.add(pod)


class DefaultPreemption(PostFilterPlugin):
    """Evicts pods of lower priority so that the pod fits in a later cycle."""

    name = "DefaultPreemption"

    def __init__(
        self,
        context: PluginContext,
        nominations: Nominations,
        try_out: TryOut,
        share: tuple[int, int] = DEFAULT_SHARE,
        observer: PluginObserver | None = None,
        devices: ClaimPlugin | None = None,
    ) -> None:
        """``share``: the percentage of the nodes in question that are compared, and the minimum.

        ``devices`` reports whether devices are still being freed, and is notified of evictions.
        """
        as_units = context.gates["GenericWorkload"] and context.gates.has(behaviours.GROUPS_SCHEDULED_AS_UNITS)
        self._groups = StoredGroups.of(context.informers, context.gates) if as_units else None
        self._devices = devices
        self._empty_budgets = context.gates.has(behaviours.EMPTY_BUDGETS_PROTECT)
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._budgets = context.informers.of(PODDISRUPTIONBUDGETS).store
        self._nominations = nominations
        self._try_out = try_out
        self._share = share
        self.observer = observer
        """Notified of attempts and victims, those of groups included."""

    def events(self) -> Sequence[EventRegistration]:
        """Return the event that may help: a pod with a node has gone, perhaps a victim."""
        return (EventRegistration(EventResource.ASSIGNED_POD, Action.DELETE),)

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Status | Nomination:
        """Evict and nominate the node, or return for every node the reason why that would not help."""
        if self.observer is not None:
            self.observer.preemption_attempted()
        chosen = self.chosen(state, pod, diagnosis)
        if not isinstance(chosen, Eviction):
            return chosen
        if self.observer is not None:
            self.observer.victims_chosen(len(chosen.victims))
        # Pods that an earlier preemption, or their owner, is already ending are waited for and not deleted again.
        victims = [one.pod for one in chosen.victims if one.pod.metadata.deletion_timestamp is None]
        if victims:
            # Before the evictions: pods nominated for this node with lower priority would otherwise wait for room that
            # they will not get.
            await self._withdraw_nominations(pod, chosen.node)
        try:
            for victim in victims:
                await self.evict(victim, pod.pod, victim.spec.node_name)
        except (StatusError, ConnectionError) as failure:
            return error(f"preemption: {failure}")
        return Nomination(chosen.node)

    def chosen(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Eviction | Status | Nomination:
        """Return the eviction that does the least harm; the reason why the pod must not preempt; or a nomination of no
        node, with the reason for every node why no eviction there would help."""
        obstacle = self._obstacle(state, pod, diagnosis)
        if obstacle:
            return unschedulable(f"preemption: {obstacle}")
        unhelpful = Diagnosis(diagnosis.nodes, absent=unresolvable("Preemption is not helpful for scheduling"))
        candidates = self._candidates(state, pod, diagnosis, unhelpful)
        if not candidates:
            return Nomination("", f"preemption: {unhelpful.message()}")
        return min(candidates, key=Eviction.harm)

    def _obstacle(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> str:
        """Return the reason why the pod may not preempt at all."""
        if pod.pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        node = state.snapshot.by_name.get(self.nominated(pod))
        refusal = diagnosis.status_of(node.name) if node is not None else None
        if node is None or (refusal is not None and refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
            # No eviction on the nominated node can help any longer: another one is looked for.
            return ""
        leaving = any(other.priority < pod.priority and is_leaving(other.pod) for other in node.pods.values())
        if leaving:
            return "not eligible due to a terminating pod on the nominated node."
        # The pods have gone, and their claims are not deallocated yet: without this the next attempt would evict more.
        return DEVICES_BEING_FREED if self.is_freeing(node.name) else ""

    def nominated(self, pod: PodInfo) -> str:
        """Return the node that is being cleared for ``pod``; "" if there is none."""
        return self._nominations.of(pod)

    def is_freeing(self, node: str) -> bool:
        """Return True while devices that an eviction has freed on ``node`` are not available yet."""
        return self._devices is not None and self._devices.is_freeing(node)

    def _candidates(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis, unhelpful: Diagnosis
    ) -> Sequence[Eviction]:
        if not diagnosis.any_has(Code.UNSCHEDULABLE):
            return ()
        refusals = ((node, diagnosis.status_of(node.name)) for node in state.snapshot.nodes)
        nodes = [node for node, refusal in refusals if refusal is not None and refusal.code is Code.UNSCHEDULABLE]
        percentage, fewest = self._share
        enough = max(fewest, len(nodes) * percentage // 100)
        found: list[Eviction] = []
        for node in nodes:
            outcome = self._victims(state, pod, node)
            if isinstance(outcome, Status):
                unhelpful.refuse(node.name, outcome)
                continue
            found.append(outcome)
            # As kube-scheduler: the search goes on until a candidate violates no disruption budget, even if it has
            # enough.
            if len(found) >= enough and any(not candidate.violations for candidate in found):
                break
        return found

    def _victims(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Eviction | Status:
        """Return the fewest pods that have to go from ``node``, or a refusal if no eviction there helps."""
        units = self._units(node, pod.priority)
        if not units:
            return unresolvable("No preemption victims found for incoming pod")
        # A copy, because filters read the pods of the node, and the real node belongs to the snapshot.
        trial = node.copy()
        for unit in units:
            unit.leave(trial)
        refusal = self._try_out(pod, state, trial)
        if refusal is not None:
            return refusal
        units.sort(key=_Unit.importance)
        violating = {one.uid for one in self.split([one for unit in units for one in unit.pods])[0]}
        victims: list[PodInfo] = []
        # Pods under a disruption budget are added back first, so that the budget is violated only if it must be.
        for unit in sorted(units, key=lambda one: not one.has_any(violating)):
            unit.enter(trial)
            if self._try_out(pod, state, trial) is not None:
                unit.leave(trial)
                victims += unit.pods
        victims.sort(key=lambda other: (-other.priority, started(other.pod)))
        if not victims:
            return unresolvable("No preemption victims found for incoming pod")
        return Eviction(node.name, victims, sum(victim.uid in violating for victim in victims))

    def _units(self, node: NodeInfo, priority: int) -> list[_Unit]:
        """Return what can be evicted from ``node`` for a pod of a priority."""
        units: list[_Unit] = []
        together: dict[GroupKey, list[PodInfo]] = {}
        for other in node.pods_in_order():
            group = self._groups.disrupted_as_one(other.pod) if self._groups is not None else None
            if group is None:
                units += [_Unit((other,), node.name)] if other.priority < priority else ()
            elif self._groups is not None and (key := group_key(group)) not in together:
                # Those on other nodes too: the group runs with all of its pods, or not at all.
                below = (one for one in self._groups.pods_below(group) if one.spec.node_name)
                away = [PodInfo(one) for one in below if one.metadata.uid not in node.pods]
                together[key] = [other, *away]
            else:
                together[group_key(group)].append(other)
        groups = (members for members in together.values() if all(one.priority < priority for one in members))
        return [*units, *(_Unit(tuple(members), node.name) for members in groups)]

    def split(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Split pods into those whose eviction violates a disruption budget, and the others."""
        budgets = [
            (budget.metadata.namespace, from_label_selector(budget.spec.selector), budget)
            for budget in self._budgets.list()
            if budget.spec.selector is not None
        ]
        if not self._empty_budgets:
            budgets = [one for one in budgets if not one[1].empty]
        allowed = {budget.metadata.uid: budget.status.disruptions_allowed for _, _, budget in budgets}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            violates = False
            for namespace, selector, budget in budgets:
                labels = pod.pod.metadata.labels
                if namespace != pod.namespace or not labels or not selector.matches(labels):
                    continue
                # The eviction API has counted this pod against the budget already.
                if pod.name in (budget.status.disrupted_pods or {}):
                    continue
                allowed[budget.metadata.uid] -= 1
                violates = violates or allowed[budget.metadata.uid] < 0
            (violating if violates else others).append(pod)
        return violating, others

    async def _withdraw_nominations(self, preemptor: PodInfo, node: str) -> None:
        """Pods of lower priority may not fit on ``node`` any longer, and had better look for another one at once."""
        for other in self._nominations.behind(preemptor, node):
            if other.pod.status.nominated_node_name:
                await write_nomination(self._client, other.pod, "")

    async def evict(self, victim: Pod, preemptor: Pod, node: str) -> None:
        """Delete a pod for ``preemptor``; its condition names the reason."""
        pods = self._client.resource(PODS, victim.metadata.namespace)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": str(Time(self._clock.now())),
            "reason": "PreemptionByScheduler",
            "message": f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod",
        }
        patch = {"metadata": {"uid": victim.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            # The condition is written before the deletion; afterwards it could not be written, and controllers read it
            # to distinguish a preemption from a failure.
            await pods.patch(victim.metadata.name, PatchType.STRATEGIC, patch, "status")
            await pods.delete(victim.metadata.name, uid=victim.metadata.uid)
        except StatusError as failure:
            if not failure.is_not_found:
                raise
            _LOG.info("victim %s/%s is gone already", victim.metadata.namespace, victim.metadata.name)
            return
        if self._devices is not None:
            self._devices.evicted(victim)
        note = f"Preempted by pod {preemptor.metadata.uid} on node {node}"
        self._recorder.record(victim, "Normal", "Preempted", note, action="Preempting")


def is_leaving(pod: Pod) -> bool:
    """Return True if the pod is being ended because another preempted it."""
    condition = find_condition(pod.status.conditions, "DisruptionTarget")
    if pod.metadata.deletion_timestamp is None or condition is None:
        return False
    return (condition.status, condition.reason) == ("True", "PreemptionByScheduler")


def started(pod: Pod) -> float:
    """Return the time at which the pod started (epoch seconds); infinity if it has not."""
    start = pod.status.start_time
    return start.timestamp if start is not None else float("inf")
