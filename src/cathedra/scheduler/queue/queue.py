"""Scheduling queue: waiting pods in their order, and the events that wake them.

Three areas, as in kube-scheduler: *active* pods are tried by priority and then by age; pods in *back-off* were refused
or failed recently; *unschedulable* pods wait for an event that one of the plugins which refused them has registered
for. A pod that no event wakes is tried again after five minutes. While nothing is active, a refused pod need not wait
for the end of its back-off; one with an error must (docs/spec/scheduling.md §1 and §3).

A cycle uses a snapshot. An event between the snapshot and the pod's return to the queue must be judged when the pod
returns, or the pod would sleep through the change that it waits for. One shared log of events serves all pods in
flight; each has its start in the log.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice
from operator import itemgetter, or_
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.clock import Clock
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.queue.queuedpod import Backoff, QueuedPodInfo
from cathedra.scheduler.state.pod_info import PodInfo, pod_requests

FLUSH_SECONDS = 30.0
"""Seconds between two searches for pods that no event has woken."""
LONGEST_WAIT_SECONDS = 300.0
"""After this time in the unschedulable area a pod is tried again without a reason."""

_LOG = logging.getLogger(__name__)
_NONE: Final[frozenset[str]] = frozenset()
_TARGET_POD: Final = EventResource.TARGET_POD
_GENERATED_CLAIM, _UPDATE = Action.UPDATE_POD_GENERATED_CLAIM, Action.UPDATE
"""Read for every pod; reading them off their class takes 0.5 µs."""
# kube-scheduler's words for moves that no change of an object causes.
_POD_ADDED: Final = "UnscheduledPodAdd"
_ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"
_BACKOFF_ENDED: Final = "BackoffComplete"
_POPPED_EARLY: Final = "PopFromBackoffQ"
_WAITED_TOO_LONG: Final = "UnschedulableTimeout"

PreEnqueue = Callable[[PodInfo], Status | None]
_Waiting = tuple[dict[str, QueuedPodInfo], int, EventRegistration]
"""Pods by UID, the actions that they wait for as a number, and the registration for these."""
_sleepers: Final[Callable[[_Waiting], object]] = itemgetter(0)


class SchedulingQueue:
    """Pods without a node, in the order in which they are to be tried."""

    def __init__(
        self,
        clock: Clock,
        pre_enqueue: PreEnqueue,
        registrations: Mapping[str, Sequence[EventRegistration]],
        backoff: Backoff | None = None,
    ) -> None:
        self._clock = clock
        self._pre_enqueue = pre_enqueue
        self._backoff = backoff or Backoff()
        self._sequence = itertools.count(1)
        self._entries: dict[str, QueuedPodInfo] = {}
        """Every waiting pod in any area; those in flight are not here."""
        self._active: list[tuple[int, float, int, int, QueuedPodInfo]] = []
        self._backing_off: list[tuple[float, int, int, QueuedPodInfo]] = []
        self._erring: list[tuple[float, int, int, QueuedPodInfo]] = []
        self._unschedulable: dict[str, QueuedPodInfo] = {}
        self._by_plugin: dict[str, dict[str, QueuedPodInfo]] = {plugin: {} for plugin in registrations}
        """Plugin → the pods that wait for its events; plugins are woken for in the order in which they registered."""
        self._awaited: dict[EventResource, list[_Waiting]] = {}
        """Kind of change → the pods that wait for it, by plugin in the order of the plugins."""
        self._registered: dict[tuple[str, EventResource], list[EventRegistration]] = {}
        """Plugin and kind of change → the registrations for it."""
        for plugin, registered in registrations.items():
            for registration in registered:
                self._registered.setdefault((plugin, registration.resource), []).append(registration)
                waiting = self._awaited.setdefault(registration.resource, [])
                waiting.append((self._by_plugin[plugin], registration.actions.value, registration))
        self._in_flight = InFlight()
        self._parked: dict[str, QueuedPodInfo] = {}
        """Pods whose attempt continues later, with their event log position."""
        self.incoming: Counter[tuple[str, str]] = Counter()
        """Area and event → the number of pods that the event has brought there."""
        self._wake = asyncio.Event()
        self._rearm = asyncio.Event()

    # --- pods come, change and go

    def add(self, pod: Pod) -> None:
        """Handle a new pod without a node."""
        self._activate(QueuedPodInfo(PodInfo(pod), self._clock.monotonic()), _POD_ADDED)

    def update(self, old: Pod, new: Pod) -> None:
        """Handle a new version of a waiting pod; that alone may make it schedulable."""
        uid = new.metadata.uid
        change = ClusterEvent(_TARGET_POD, pod_actions(old, new), old, new)
        # The attempt uses an old version of the pod. The event is judged in `put_back`; without it a change that makes
        # the pod schedulable would be lost.
        if uid in self._in_flight.left_at:
            self._in_flight.record(change)
            return
        entry = self._entries.get(uid)
        # A parked pod is tried again with its newest version anyway, so no plugin is called.
        if entry is None and (parked := self._parked.get(uid)) is not None:
            parked.info = PodInfo(new)
            return
        if entry is None:
            self.add(new)
            return
        entry.info = PodInfo(new)
        if uid in self._unschedulable and self._worth_requeuing(entry, change):
            self._requeue(entry, change.label)

    def delete(self, uid: str) -> None:
        """Handle a waiting pod that has gone or has got a node."""
        # `resume` finds the pod gone by this, and the attempt that continues in the background ends.
        self._parked.pop(uid, None)
        entry = self._entries.pop(uid, None)
        if entry is not None:
            entry.area_version += 1
            self._leave_unschedulable(entry)

    # --- trying

    def next(self) -> QueuedPodInfo | None:
        """Return the next pod to try, or None if there is none now. It is in flight until `done` or `put_back`."""
        # Items are never removed from a heap. One whose version differs from the entry's has left this area and is
        # skipped.
        while self._active:
            _, _, _, version, entry = heapq.heappop(self._active)
            if version == entry.area_version:
                return self._leave(entry)
        # Nothing is active, so pods that were refused need not wait for the end of their back-off (KEP-5142). Pods with
        # errors must: they are in a heap of their own.
        while self._backing_off:
            *_, version, entry = heapq.heappop(self._backing_off)
            if version == entry.area_version:
                self.incoming["active", _POPPED_EARLY] += 1
                return self._leave(entry)
        return None

    async def pop(self) -> QueuedPodInfo:
        """Do the same as `next`, and wait while there is none."""
        while (entry := self.next()) is None:
            self._wake.clear()
            await self._wake.wait()
        return entry

    def pop_beside(self, uid: str, *, asleep: bool = False) -> QueuedPodInfo | None:
        """Return a pod that is to be tried together with one that was popped, from the active or the back-off area.

        None if it is not there: one that no event has woken would be refused again. With ``asleep`` such a pod is taken
        too, unless a plugin keeps it out of the queue: it belongs to the same entry of the queue.
        """
        entry = self._entries.get(uid)
        sleeping = self._unschedulable.get(uid)
        if entry is None or (sleeping is not None and (not asleep or sleeping.gated_by)):
            return None
        # Before its plugins are cleared: they are the key under which it waits for events.
        self._leave_unschedulable(entry)
        return self._leave(entry)

    def park(self, entry: QueuedPodInfo) -> None:
        """Keep a pod whose attempt is interrupted until `resume`. It needs no events, because it will be tried on the
        nodes and devices of that moment."""
        self._in_flight.done(entry.uid)
        self._parked[entry.uid] = entry

    def resume(self, entry: QueuedPodInfo) -> bool:
        """Take a parked pod into flight again. Return False if it has gone, or has got a node."""
        if self._parked.pop(entry.uid, None) is None:
            return False
        self._in_flight.start(entry.uid)
        return True

    def done(self, uid: str) -> None:
        """Handle a pod that needs no events any more: it is being bound, or it is gone."""
        self._in_flight.done(uid)

    def put_back(self, entry: QueuedPodInfo, plugins: Iterable[str], pending: Iterable[str] = ()) -> None:
        """Return a pod after a failed attempt: refused by ``plugins``, or waiting for ``pending`` ones.

        With neither, the attempt had an error, and only time can help. Events since the pod left are judged now.
        """
        outside = frozenset(pending)
        entry.refusing_plugins, entry.is_pending = outside.union(plugins), bool(outside)
        entry.added = self._clock.monotonic()
        # Read before `done`, which drops the events that no other pod in flight needs.
        missed = list(self._in_flight.since(entry.info.uid)) if entry.info.uid in self._in_flight.left_at else []
        self._in_flight.done(entry.info.uid)
        if not entry.refusing_plugins:
            entry.errors += 1
            self._back_off(entry, _ATTEMPT_FAILED)
            return
        entry.errors = 0
        entry.unschedulable_count += 1
        for change in missed:
            # The log is shared by all pods in flight: updates of other pods are in it too.
            if change.resource is EventResource.TARGET_POD and change.new.metadata.uid != entry.info.uid:
                continue
            if self._worth_requeuing(entry, change):
                self._requeue(entry, _ATTEMPT_FAILED)
                return
        self._enter(entry)
        self._sleep(entry, _ATTEMPT_FAILED)

    # --- waking

    def move(
        self,
        resource: EventResource,
        actions: Action,
        old: object,
        new: object,
        *,
        up_to_priority: int | None = None,
    ) -> None:
        """Handle a cluster event: wake the pods that it may concern, up to a priority if one is given."""
        # Recorded even if no pod is unschedulable now: a pod in flight may become so before its attempt ends.
        if self._in_flight.left_at:
            self._in_flight.record(ClusterEvent(resource, actions, old, new))
        if not self._unschedulable:
            return
        for sleepers, awaited, registration in filter(_sleepers, self._awaited.get(resource, ())):
            # The flags' numbers: combining the flags themselves makes another flag, in seven calls.
            if not awaited & actions._value_:
                continue
            change = ClusterEvent(resource, actions, old, new)
            for entry in _concerned(registration, change, sleepers):
                if up_to_priority is not None and entry.info.priority > up_to_priority:
                    continue
                if _hints(registration, entry, change):
                    self._requeue(entry, change.label)

    async def run(self) -> None:
        """End back-offs and over-long waits when their time comes; runs until cancelled."""
        next_flush = self._clock.monotonic() + FLUSH_SECONDS
        while True:
            self._rearm.clear()
            now = self._clock.monotonic()
            self._end_backoffs(now)
            if now >= next_flush:
                self._flush(now)
                next_flush = now + FLUSH_SECONDS
            # A stale item at the top of a heap only makes the loop wake early. Removing items from the middle of a heap
            # would be linear.
            due = min([next_flush, *(heap[0][0] for heap in (self._backing_off, self._erring) if heap)])
            await self._sleep_or_rearm(max(due - now, 0.0))

    # --- numbers

    def statistics(self) -> dict[str, int]:
        """Return the number of pods in each area."""
        counted = {
            "unschedulable": 0,
            "gated": 0,
            "backoff": 0,
            "active": 0,
            "inflight": len(self._in_flight) + len(self._parked),
        }
        for entry in self._unschedulable.values():
            counted["gated" if entry.gated_by else "unschedulable"] += 1
        for heap in (self._backing_off, self._erring):
            counted["backoff"] += sum(1 for item in heap if item[-2] == item[-1].area_version)
        counted["active"] = sum(1 for item in self._active if item[-2] == item[-1].area_version)
        return counted

    def refusals(self) -> Counter[tuple[str, str]]:
        """Return the number of waiting pods by the plugin that refused them and the name of their profile."""
        return Counter(
            (plugin, entry.info.pod.spec.scheduler_name)
            for entry in self._entries.values()
            for plugin in entry.refusing_plugins
        )

    # --- inside

    def _leave(self, entry: QueuedPodInfo) -> QueuedPodInfo:
        entry.area_version += 1
        entry.attempts += 1
        entry.refusing_plugins, entry.is_pending, entry.gated_by = _NONE, False, ""
        del self._entries[entry.info.uid]
        self._in_flight.start(entry.info.uid)
        return entry

    def _activate(self, entry: QueuedPodInfo, event: str) -> None:
        """Put the pod among the active ones, unless a plugin keeps it out."""
        refusal = self._pre_enqueue(entry.info)
        if refusal is not None:
            if refusal.rejected:
                self._gate(entry, refusal.plugin, event)
                return
            entry.errors += 1
            entry.added = self._clock.monotonic()
            self._back_off(entry, event)
            return
        self._enter(entry)
        entry.gated_by = ""
        self._let_in(entry)
        self.incoming["active", event] += 1
        # The sequence number makes items unique, so entries themselves are never compared.
        item = (-entry.info.priority, entry.added, next(self._sequence), entry.area_version, entry)
        heapq.heappush(self._active, item)
        self._wake.set()

    def _gate(self, entry: QueuedPodInfo, plugin: str, event: str) -> None:
        """Keep the pod out of the active area on account of ``plugin``."""
        slept = entry.info.uid in self._unschedulable
        if slept and entry.gated_by == plugin:
            return
        self._enter(entry)
        entry.gated_by = plugin
        entry.refusing_plugins = frozenset((plugin,))
        # A pod that stays where it was has not come in.
        self._sleep(entry, "" if slept else event)

    def _let_in(self, entry: QueuedPodInfo) -> None:
        if not entry.first_active:
            entry.first_active = next(self._sequence)
            entry.active_since = self._clock.monotonic()

    def _requeue(self, entry: QueuedPodInfo, event: str) -> None:
        """Notify a pod: at once if it was gated or pending, otherwise when its back-off is over."""
        if entry.gated_by or entry.is_pending or self._ready_at(entry) <= self._clock.monotonic():
            self._activate(entry, event)
            return
        self._back_off(entry, event)

    def _back_off(self, entry: QueuedPodInfo, event: str) -> None:
        self._enter(entry)
        self._let_in(entry)
        self.incoming["backoff", event] += 1
        heap = self._erring if entry.errors else self._backing_off
        heapq.heappush(heap, (self._ready_at(entry), next(self._sequence), entry.area_version, entry))
        # The new end may be earlier than the one that `run` waits for.
        self._rearm.set()
        if not entry.errors:
            self._wake.set()

    def _ready_at(self, entry: QueuedPodInfo) -> float:
        return entry.added + self._backoff.seconds(entry)

    def _sleep(self, entry: QueuedPodInfo, event: str) -> None:
        """Let a pod that has entered wait for an event."""
        if event:
            self.incoming["unschedulable", event] += 1
        self._unschedulable[entry.info.uid] = entry
        for plugin in entry.refusing_plugins:
            self._by_plugin.setdefault(plugin, {})[entry.info.uid] = entry

    def _enter(self, entry: QueuedPodInfo) -> None:
        """Have the pod wait in an area that the caller chooses."""
        uid = entry.info.uid
        entry.area_version += 1
        self._entries[uid] = entry
        if uid in self._unschedulable:
            self._leave_unschedulable(entry)

    def _leave_unschedulable(self, entry: QueuedPodInfo) -> None:
        if self._unschedulable.pop(entry.info.uid, None) is not None:
            for plugin in entry.refusing_plugins:
                self._by_plugin[plugin].pop(entry.info.uid, None)

    def _worth_requeuing(self, entry: QueuedPodInfo, change: ClusterEvent) -> bool:
        for plugin in entry.refusing_plugins:
            for registration in self._registered.get((plugin, change.resource), ()):
                if not registration.matches(change):
                    continue
                if registration.as_pre_enqueue and entry.gated_by == plugin:
                    return True
                if not _concerned(registration, change, {entry.info.uid: entry}):
                    continue
                if _hints(registration, entry, change):
                    return True
        return False

    def _end_backoffs(self, now: float) -> None:
        for heap in (self._backing_off, self._erring):
            while heap and heap[0][0] <= now:
                *_, version, entry = heapq.heappop(heap)
                if version == entry.area_version:
                    self._activate(entry, _BACKOFF_ENDED)

    def _flush(self, now: float) -> None:
        for entry in list(self._unschedulable.values()):
            if now - entry.added > LONGEST_WAIT_SECONDS:
                self._requeue(entry, _WAITED_TOO_LONG)

    async def _sleep_or_rearm(self, seconds: float) -> None:
        # Both are cancelled in any case: a timer of the virtual clock that is left would be waited for by tests.
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        rearmed = asyncio.ensure_future(self._rearm.wait())
        try:
            await asyncio.wait({timer, rearmed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            rearmed.cancel()


def _concerned(
    registration: EventRegistration, change: ClusterEvent, sleepers: Mapping[str, QueuedPodInfo]
) -> Collection[QueuedPodInfo]:
    """Return those of ``sleepers`` that the change may concern; all if the plugin breaks."""
    if registration.affected is None:
        return list(sleepers.values())
    try:
        named, any_tried = registration.affected(change)
    except Exception:
        _LOG.exception("the index of pods concerned by %s broke", change.resource)
        return list(sleepers.values())
    if any_tried:
        return [entry for uid, entry in sleepers.items() if not entry.gated_by or uid in named]
    # In order and without repetition: the order in which pods are woken is the order in which they are tried.
    return [sleepers[uid] for uid in dict.fromkeys(named) if uid in sleepers] if named else ()


def _hints(registration: EventRegistration, entry: QueuedPodInfo, change: ClusterEvent) -> bool:
    """Return True if the change may make the pod schedulable; a hint that raises counts as True, as in
    kube-scheduler."""
    if registration.hint is None:
        return True
    try:
        return registration.hint(entry.info.pod, change)
    except Exception:
        _LOG.exception("%s: the queueing hint for %s broke", entry.info.key, change.resource)
        return True


def pod_actions(old: Pod, new: Pod) -> Action:
    """Return the differences between two versions of a pod, as the actions for which plugins register."""
    actions: list[Action] = []
    if old.metadata.labels != new.metadata.labels:
        actions.append(Action.UPDATE_POD_LABEL)
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        actions.append(_GENERATED_CLAIM)
    if old.spec is not new.spec:
        if old.spec.tolerations != new.spec.tolerations:
            actions.append(Action.UPDATE_POD_TOLERATION)
        if old.spec.scheduling_gates and not new.spec.scheduling_gates:
            actions.append(Action.UPDATE_POD_GATES_ELIMINATED)
        if _scaled_down(old, new):
            actions.append(Action.UPDATE_POD_SCALE_DOWN)
    # To combine flags takes seven calls each, and mostly there is one at most.
    if len(actions) < 2:
        return actions[0] if actions else _UPDATE
    return reduce(or_, actions)


def _scaled_down(old: Pod, new: Pod) -> bool:
    if old.spec.containers == new.spec.containers and old.spec.resources == new.spec.resources:
        return False
    before, after = pod_requests(old), pod_requests(new)
    return any(after.get(name, 0) < amount for name, amount in before.items())


# --- pods in flight


class InFlight:
    """Pods that are being tried, and the events since the oldest of them left the queue."""

    def __init__(self) -> None:
        self.left_at: dict[str, int] = {}
        """The pods, and where in the log each of them left."""
        self._log: deque[ClusterEvent] = deque()
        self._first = 0

    def __len__(self) -> int:
        return len(self.left_at)

    def start(self, uid: str) -> None:
        """Note that a pod leaves the queue to be tried."""
        self.left_at[uid] = self._first + len(self._log)

    def record(self, change: ClusterEvent) -> None:
        """Keep an event for those that are being tried; nothing is kept if there are none."""
        if self.left_at:
            self._log.append(change)

    def since(self, uid: str) -> Iterator[ClusterEvent]:
        """Events since the pod left."""
        return islice(self._log, self.left_at[uid] - self._first, None)

    def done(self, uid: str) -> None:
        """Note that the pod is no longer being tried, and drop the events that no other pod in flight needs."""
        if self.left_at.pop(uid, None) is None:
            return
        if not self.left_at:
            self._first += len(self._log)
            self._log.clear()
            return
        # Pods leave in the order of the log, so the first one in the dict is the oldest.
        oldest = next(iter(self.left_at.values()))
        while self._first < oldest:
            self._log.popleft()
            self._first += 1
