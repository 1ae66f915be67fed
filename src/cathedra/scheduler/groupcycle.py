"""Cycle of a PodGroup until 1.36: all its waiting pods are tried together, and bound together or not at all.

A node is searched for each pod as if it were alone, and each pod is held on its node while the others are tried. After
the last one, Permit decides whether the group may be bound with the nodes that it has: a group with the basic policy
may with one pod, a gang with its smallest number. If it may, the pods with nodes go to their binding cycles and the
others back to the queue; if not, everything is released (docs/spec/scheduling.md §14).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import Condition
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, to_dict
from cathedra.client.client import Client
from cathedra.client.resources import COMPOSITEPODGROUPS, PODGROUPS
from cathedra.client.transport import PatchType
from cathedra.clock import Clock
from cathedra.releases import FeatureGates, behaviours
from cathedra.scheduler.bindingcycle import BindingCycle, HeldPod
from cathedra.scheduler.failure import Failures
from cathedra.scheduler.framework.diagnosis import Diagnosis, UnschedulablePod
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Code, Status
from cathedra.scheduler.nodesearch import SelectedNode
from cathedra.scheduler.plugins.gangs import StoredGroups
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.podgroups import GroupKey

UNSCHEDULABLE: Final = "pod group is unschedulable"
_WAITS: Final = f"{UNSCHEDULABLE}, pod group is waiting for preemption to complete"

Find = Callable[[QueuedPodInfo, dict[str, Any]], Awaitable[tuple[SelectedNode | UnschedulablePod | Status, CycleState]]]
"""Searches the node of one pod, given the plugins' state of the group. It may make room for the pod."""


class _Tried(msgspec.Struct, frozen=True):
    """A pod of the group, and what came of it."""

    entry: QueuedPodInfo
    outcome: HeldPod | UnschedulablePod | Status
    preempting: HeldPod | None = None
    """The pod as it is held on the node that is being cleared for it."""
    permit: Status | None = None
    """Return the reason why the group cannot be bound with the nodes that its pods have now; None if it can."""

    @property
    def held(self) -> HeldPod | None:
        """Pods to be released if the group is not bound."""
        return self.outcome if isinstance(self.outcome, HeldPod) else self.preempting


class GroupCycle:
    """Tries the pods of one PodGroup after the other."""

    def __init__(self, profile: Profile, binding: BindingCycle, failures: Failures, find: Find) -> None:
        self._profile = profile
        self._binding = binding
        self._failures = failures
        self._find = find

    async def run(self, entries: Sequence[QueuedPodInfo]) -> PodGroupOutcome:
        """Bind the group or return its pods to the queue, and return the outcome. If a plugin raises, nothing stays
        held."""
        shared: dict[str, Any] = {}
        tried: list[_Tried] = []
        try:
            for entry in entries:
                one = await self._try(entry, shared)
                tried.append(one)
                if isinstance(one.outcome, Status):
                    return await self._break(tried, entries[len(tried) :], one.outcome)
        # Cancellation included: pods that stay assumed would block their nodes until the scheduler restarts.
        except BaseException:
            await self._let_go(tried)
            raise
        if not any(one.held is not None and one.permit is None for one in tried):
            return await self._send_back(tried)
        # Victims still run on the node of at least one pod, so no pod of the group may be bound yet.
        if any(one.preempting is not None for one in tried):
            return await self._wait_for_room(tried)
        for one in tried:
            if isinstance(one.outcome, HeldPod):
                self._binding.write(one.outcome)
            elif isinstance(one.outcome, UnschedulablePod):
                self._failures.refused(one.entry, one.outcome)
        return PodGroupOutcome("Scheduled")

    async def _try(self, entry: QueuedPodInfo, shared: dict[str, Any]) -> _Tried:
        outcome, state = await self._find(entry, shared)
        if isinstance(outcome, Status):
            return _Tried(entry, outcome)
        node = outcome.node if isinstance(outcome, SelectedNode) else outcome.nominated
        if not node:
            assert isinstance(outcome, UnschedulablePod), "a selected node has a name"
            return _Tried(entry, outcome)
        # Also where room is only being made: the pods that follow must not take it for theirs.
        held = await self._binding.hold(entry, state, node)
        if isinstance(held, Diagnosis):
            return _Tried(entry, UnschedulablePod(held))
        if isinstance(held, Status):
            return _Tried(entry, held)
        permit = self._profile.permit(held.pod)
        if permit is not None and permit.code is not Code.WAIT:
            await self._binding.release(held)
            return _Tried(entry, permit)
        if isinstance(outcome, UnschedulablePod):
            return _Tried(entry, outcome, held, permit)
        return _Tried(entry, held, None, permit)

    async def _let_go(self, tried: Sequence[_Tried]) -> None:
        # In reverse order, as Unreserve runs: a later pod may share the claim that an earlier one has decided.
        for one in reversed(tried):
            if one.held is not None:
                await self._binding.release(one.held)

    async def _send_back(self, tried: Sequence[_Tried]) -> PodGroupOutcome:
        """Too few pods have nodes."""
        await self._let_go(tried)
        for one in tried:
            if isinstance(one.outcome, UnschedulablePod) and one.preempting is None:
                self._failures.refused(one.entry, one.outcome)
            else:
                waiting = ", ".join((UNSCHEDULABLE, *(one.permit.reasons if one.permit is not None else ())))
                self._failures.held_back(one.entry, waiting, nominated="")
        return PodGroupOutcome("Unschedulable", UNSCHEDULABLE)

    async def _wait_for_room(self, tried: Sequence[_Tried]) -> PodGroupOutcome:
        """Release and put back the group, which will fit when the pods that were evicted have gone."""
        await self._let_go(tried)
        for one in tried:
            if isinstance(one.outcome, HeldPod):
                self._failures.held_back(one.entry, _WAITS, nominated=one.outcome.node)
            elif isinstance(one.outcome, UnschedulablePod):
                self._failures.refused(one.entry, one.outcome)
        return PodGroupOutcome("Unschedulable", _WAITS)

    async def _break(self, tried: Sequence[_Tried], rest: Sequence[QueuedPodInfo], broken: Status) -> PodGroupOutcome:
        """Release and put back the group after one pod's search broke: none is bound."""
        await self._let_go(tried)
        group = Status(Code.ERROR, (f"failed to schedule other pod from a pod group: {broken.message}",))
        for one in tried:
            self._failures.broke(one.entry, broken if one.outcome is broken else group)
        for entry in rest:
            self._failures.broke(entry, group)
        return PodGroupOutcome("SchedulerError", group.message)


def in_order(entries: Sequence[QueuedPodInfo]) -> list[QueuedPodInfo]:
    """Return the pods of a group in the order in which they are tried: by priority, then as they came into the
    queue."""
    return sorted(entries, key=lambda entry: (-entry.info.priority, entry.first_active))


_LOG: Final = logging.getLogger(__name__)


class PodGroupOutcome(msgspec.Struct, frozen=True):
    """Outcome of trying the pods of a group."""

    reason: str
    """``Scheduled``, ``Unschedulable``, ``SchedulerError`` or ``Invalid``."""
    message: str = ""

    @property
    def status(self) -> str:
        """Return the condition's status: True if the group is scheduled."""
        return "True" if self.reason == "Scheduled" else "False"


class PodGroupConditions:
    """Writes the condition ``PodGroupInitiallyScheduled``, until 1.36 ``PodGroupScheduled``."""

    def __init__(self, client: Client, clock: Clock, groups: StoredGroups, gates: FeatureGates) -> None:
        self._client = client
        self._clock = clock
        self._groups = groups
        self._composites = gates.has(behaviours.COMPOSITE_GROUPS_HAVE_CONDITIONS)
        self._type = "InitiallyScheduled" if gates.has(behaviours.GROUPS_SCHEDULED_AS_UNITS) else "Scheduled"
        self._scheduled: set[str] = set()
        """UIDs of groups whose condition was written, until the informer has it."""

    async def write(self, key: GroupKey, outcome: PodGroupOutcome) -> None:
        """Write ``outcome`` into the group's status. A group that was scheduled once stays so."""
        group = self._group(key)
        if group is None:
            return
        old = find_condition(group.status.conditions, f"{key.kind}{self._type}")
        uid = group.metadata.uid
        if old is not None and old.status == "True":
            self._scheduled.discard(uid)
            if outcome.status != "True":
                return
        elif outcome.status == "True":
            self._scheduled.add(uid)
        # The informer does not have the condition True yet. A failed attempt of further pods must not overwrite it.
        elif uid in self._scheduled:
            return
        unchanged = old is not None and old.status == outcome.status
        made = Condition(
            type=f"{key.kind}{self._type}",
            status=outcome.status,
            reason=outcome.reason,
            message=outcome.message,
            observed_generation=group.metadata.generation,
            last_transition_time=old.last_transition_time if old is not None and unchanged else Time(self._clock.now()),
        )
        if made == old:
            return
        others = [one for one in group.status.conditions if one.type != made.type]
        conditions = [{"message": "", **to_dict(one)} for one in (*others, made)]
        try:
            await self._patch(key, {"metadata": {"uid": uid}, "status": {"conditions": conditions}})
        except (StatusError, ConnectionError) as failure:
            # The next attempt writes the condition again.
            self._scheduled.discard(uid)
            _LOG.info("%s %s/%s: condition not written: %s", *key, failure)

    def _group(self, key: GroupKey) -> PodGroup | CompositePodGroup | None:
        if key.kind == "PodGroup":
            return self._groups.pod_group(key.namespace, key.name)
        return self._groups.composite(key.namespace, key.name) if self._composites else None

    async def _patch(self, key: GroupKey, patch: dict[str, Any]) -> None:
        if key.kind == "PodGroup":
            await self._client.resource(PODGROUPS, key.namespace).patch(key.name, PatchType.MERGE, patch, "status")
            return
        composites = self._client.resource(COMPOSITEPODGROUPS, key.namespace)
        await composites.patch(key.name, PatchType.MERGE, patch, "status")
