"""Scheduler loop: take the next pod, find its node, and bind it while the next pod is searched.

One pod is tried at a time, on the event loop and without yielding, so that every decision is made on one state of the
cluster. A decision is held in memory at once (the pod assumed on its node, its devices in flight), and written by a
task of its own (docs/spec/scheduling.md §1). An attempt that takes longer than a time slice is parked: its search
continues in a thread, other pods are tried, and then it starts again (`cathedra.scheduler.framework.attempt`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra.allocation import LongSearch
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import COMPOSITEPODGROUPS, PODGROUPS, PODS
from cathedra.clock import Clock
from cathedra.deadline import SLICE_SECONDS, Interruption, TimeSliceOver
from cathedra.offload import ComputeThread
from cathedra.releases import FeatureGates, behaviours
from cathedra.scheduler.background import Background
from cathedra.scheduler.bindingcycle import BindingCycle
from cathedra.scheduler.composition import MakeClaimPlugin, compose, device_plugin, followers
from cathedra.scheduler.configuration.document import DEFAULT_SCHEDULER
from cathedra.scheduler.configuration.reading import DEFAULT_CONFIGURATION, SchedulerConfiguration
from cathedra.scheduler.eventhandlers import EventHandlers
from cathedra.scheduler.failure import Failures, SharedState
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.framework.diagnosis import UnschedulablePod
from cathedra.scheduler.framework.plugin import PluginContext, Supposition
from cathedra.scheduler.framework.status import DEFECTS, Status, defect_status, error
from cathedra.scheduler.groupcycle import GroupCycle, PodGroupConditions, PodGroupOutcome, in_order
from cathedra.scheduler.grouppreemption import GroupPreemption
from cathedra.scheduler.narrowing import Narrowing
from cathedra.scheduler.nodesearch import NodeSearch, SelectedNode
from cathedra.scheduler.plugins.gangs import StoredGroups
from cathedra.scheduler.plugins.joint_placement import JointPlacement
from cathedra.scheduler.plugins.preemption import DefaultPreemption
from cathedra.scheduler.podsearch import Found, PodSearch, SearchScope
from cathedra.scheduler.profile import Profile
from cathedra.scheduler.queue.queue import SchedulingQueue
from cathedra.scheduler.queue.queuedpod import Backoff, QueuedPodInfo
from cathedra.scheduler.state.cache import Cache, Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.unitcycle import GroupResult, Pending, Room, Trial, UnitCycle, UnitOptions, mixed_group
from cathedra.semantics.podclaims import pod_group_name
from cathedra.semantics.podgroups import GroupKey, GroupNode, InvalidHierarchy, group_key, parent_name, topology_key

if TYPE_CHECKING:
    from cathedra.scheduler.metrics import SchedulerMetrics

FIELD_MANAGER: Final = "kube-scheduler"
"""The name under which the scheduler owns the fields that it writes."""
WRITERS = 64
"""Largest number of concurrent bindings and status patches."""
ATTEMPTS_IN_TURN: Final = 8
"""Largest number of pods that are tried before the scheduler yields to the event loop."""
LONGEST_TURN_SECONDS: Final = 0.005
"""After so long no further one is begun."""

_LOG = logging.getLogger(__name__)


class _Framework(msgspec.Struct, frozen=True):
    """One profile and what works by it."""

    profile: Profile
    recorder: EventRecorder
    search: PodSearch
    failures: Failures
    binding: BindingCycle
    groups: GroupCycle
    units: UnitCycle | None


@dataclass(frozen=True, kw_only=True)
class SchedulerDependencies:
    """Objects that a scheduler uses instead of making its own. None: the scheduler makes them."""

    informers: SharedInformers | None = None
    """Informers that their maker runs."""
    metrics: SchedulerMetrics | None = None
    """Observes the scheduler; None: nothing is counted."""
    make_claim_plugin: MakeClaimPlugin = device_plugin
    """Makes the plugin DynamicResources, which all profiles share."""
    compute: ComputeThread | None = None
    """Thread in which long searches are made; `Scheduler.run` ends it."""
    cache: Cache | None = None
    """Empty cache of nodes and pods, which the scheduler fills and its maker may read."""
    nominations: Nominations | None = None
    """The same for nominations."""


class Scheduler:
    """Gives pods their nodes and claims their devices. `run` until cancelled."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        random: Random,
        gates: FeatureGates,
        configuration: SchedulerConfiguration = DEFAULT_CONFIGURATION,
        dependencies: SchedulerDependencies = SchedulerDependencies(),
    ) -> None:
        informers, metrics = dependencies.informers, dependencies.metrics
        client = client.as_manager(FIELD_MANAGER)
        self._clock = clock
        self._own_informers = informers is None
        self._informers = informers or SharedInformers(
            client, clock, metrics.informers if metrics is not None else None
        )
        # Compared with None, because empty ones are false.
        self._cache = Cache() if dependencies.cache is None else dependencies.cache
        self._background = Background(WRITERS)
        self._compute = dependencies.compute or ComputeThread(monotonic=clock.monotonic)
        # One attempt at a time changes cache, queue and ledger. A second one could choose the device that the first has
        # found and not reserved yet.
        self._cycle = asyncio.Lock()
        """Held by the attempt that is being made; one that is parked has given it up."""
        self._nominations = Nominations() if dependencies.nominations is None else dependencies.nominations
        self._metrics = metrics
        self._recorders = {one.name: EventRecorder(client, one.name, clock) for one in configuration.profiles}
        self._groups: PodGroupConditions | None = None
        self._stored_groups = StoredGroups.of(self._informers, gates) if gates["GenericWorkload"] else None
        self._gates = gates
        self._has_policies = gates.get("PodGroupPreemptionPolicy", False)
        self._as_units = gates.has(behaviours.GROUPS_SCHEDULED_AS_UNITS)
        if self._stored_groups is not None:
            self._groups = PodGroupConditions(client, clock, self._stored_groups, gates)
        contexts = {
            name: PluginContext(client, self._informers, recorder, clock, random, gates)
            for name, recorder in self._recorders.items()
        }
        self._followers = followers(configuration.profiles)
        first = configuration.profiles[0]
        # One plugin for all profiles: two ledgers of one cluster would give the same device away twice.
        self._devices = dependencies.make_claim_plugin(contexts[first.name], first)
        if metrics is not None:
            self._devices.observe(metrics)
        profiles = {
            one.name: compose(
                contexts[one.name],
                one,
                devices=self._devices,
                nominations=self._nominations,
                has_place=lambda uid: self._cache.place_of(uid) is not None,
                observer=metrics,
            )
            for one in configuration.profiles
        }
        self._queue = SchedulingQueue(
            clock,
            lambda pod: profiles[pod.pod.spec.scheduler_name or DEFAULT_SCHEDULER].pre_enqueue(pod),
            {name: events for profile in profiles.values() for name, events in profile.registrations.items()},
            Backoff(configuration.initial_backoff, configuration.max_backoff),
        )
        if metrics is not None:
            metrics.show_queue(self._queue)
            metrics.show_created_claims(gates)
        self._handlers = EventHandlers(self._cache, self._queue, self._nominations, profiles)
        self._pods = self._informers.of(PODS)
        self._frameworks = {
            one.name: self._framework(client, profiles[one.name], random, one.percentage_of_nodes_to_score)
            for one in configuration.profiles
        }

    def _framework(self, client: Client, profile: Profile, random: Random, percentage: int) -> _Framework:
        recorder = self._recorders[profile.name]
        shared = SharedState(self._cache, self._queue, self._nominations, self._background)
        failures = Failures(client, self._clock, self._pods.store, shared, recorder)
        on_bound = None if self._metrics is None else self._metrics.pod_bound
        binding = BindingCycle(profile, shared, failures, recorder, on_bound)
        nodes = NodeSearch(profile, self._nominations, random, percentage=percentage)
        search = PodSearch(profile, nodes, self._devices.usable_claims, self._cache.snapshot)

        async def find(entry: QueuedPodInfo, group: dict[str, Any]) -> Found:
            attempt = Attempt(self._clock.monotonic)
            while True:
                try:
                    return await search.find(entry, attempt, group)
                except (LongSearch, TimeSliceOver) as rest:
                    await self._beside_others(entry, attempt, rest)

        groups = GroupCycle(profile, binding, failures, find)
        units = self._unit_cycle(profile, search, binding, failures)
        return _Framework(profile, recorder, search, failures, binding, groups, units)

    def _unit_cycle(
        self, profile: Profile, search: PodSearch, binding: BindingCycle, failures: Failures
    ) -> UnitCycle | None:
        """Return the cycle of groups from 1.37 on."""
        groups = self._stored_groups
        if groups is None or not self._as_units:
            return None

        async def find(entry: QueuedPodInfo, group: dict[str, Any], scope: SearchScope) -> Found:
            attempt = Attempt(self._clock.monotonic)
            while True:
                try:
                    return await search.find_within(entry, attempt, group, scope)
                except (LongSearch, TimeSliceOver) as rest:
                    await self._beside_others(entry, attempt, rest)

        async def find_at_once(
            gone: Mapping[str, PodInfo], entry: QueuedPodInfo, group: dict[str, Any], scope: SearchScope
        ) -> Found:
            state = search.state(None, group, scope, Narrowing(scope.values) if scope.values else None)
            # Copied: the trial's caller puts pods back between trials, and plugins keep the state.
            state.supposed = Supposition(dict(gone))
            try:
                return search.searched(entry, state, scope.excluded)
            except LongSearch:
                return error("the allocation takes too long for a trial of a preemption"), state

        def placed(key: GroupKey) -> list[str]:
            places = (self._cache.place_of(pod.metadata.uid) for pod in groups.pods(key.namespace, key.name))
            return [place for place in places if place is not None]

        topology = self._gates.get("TopologyAwareWorkloadScheduling", False)
        joint = next((one for one in profile.plugins if isinstance(one, JointPlacement)), None)
        options = UnitOptions(
            self._cache.snapshot,
            placed,
            topology,
            joint,
            self._devices.usable_claims,
            search.wishes,
            lambda key: groups.pods(key.namespace, key.name),
        )
        preemption = next((one for one in profile.plugins if isinstance(one, DefaultPreemption)), None)

        async def make_room(result: GroupResult, pending: Pending) -> Room:
            await _free_claims(profile, result)
            if preemption is None:
                return Room()
            plugin = joint.without_search() if joint is not None else None
            greedy = msgspec.structs.replace(options, joint=plugin, wishes=lambda pod: ())

            def trial(tried: Pending, gone: Mapping[str, PodInfo]) -> Trial:
                return Trial(binding, partial(find_at_once, gone), tried, greedy)

            evictor = GroupPreemption(preemption, self._cache, self._pods.store, groups, trial)
            return await evictor.make_room(result, pending)

        return UnitCycle(binding, failures, find, options, make_room)

    async def run(self) -> None:
        """Schedule pods until cancelled; informers of its own run with it."""
        # Informers call handlers in the order of registration. The plugin comes first, so its state is current when the
        # queue wakes a pod.
        self._devices.listen(self._informers, self._queue.move)
        for follow in self._followers:
            follow(self._informers, self._queue.move)
        composites = self._groups is not None and self._gates.get("CompositePodGroup", False)
        self._handlers.listen(self._informers, groups=self._groups is not None, composites=composites)
        if composites:
            # A new group may close a cycle, or have too many levels above it.
            self._informers.of(PODGROUPS).add_handler(on_add=self._check_hierarchy)
            self._informers.of(COMPOSITEPODGROUPS).add_handler(on_add=self._check_hierarchy)
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(recorder.run()) for recorder in self._recorders.values()]
            if self._own_informers:
                helpers.append(group.create_task(self._informers.run()))
            # With a partial cache pods would be placed on nodes that are full.
            await self._informers.wait_synced()
            helpers.append(group.create_task(self._queue.run()))
            try:
                async with self._background:
                    await self._attempt_all()
            finally:
                self._compute.close()

    def statistics(self) -> dict[str, int]:
        """Return the numbers of pods by area, of pods counted and assumed on nodes, of nominations, and of bindings
        running and done.

        Plugins add their own.
        """
        return {
            **self._compute.statistics(),
            **self._queue.statistics(),
            **self._devices.statistics(),
            **self._cache.statistics(),
            "nominated": len(self._nominations),
            "binding": self._background.running,
            "bound": sum(framework.binding.bound for framework in self._frameworks.values()),
        }

    async def _attempt_all(self) -> None:
        """Try pods or their groups until cancelled, several in turn if they wait: what is written for them then shares
        commits, of which each costs as much as half a search."""
        monotonic, tried, turn_ends = self._clock.monotonic, 0, 0.0
        while True:
            # Popping first would take a pod out of the queue that then waits for the lock, while a pod of higher
            # priority may arrive.
            if self._cycle.locked():
                # A group, or an attempt that was parked, comes before the next pod.
                async with self._cycle:
                    pass
            entry = self._queue.next()
            if entry is None:
                # Others have their turn meanwhile.
                entry, tried = await self._queue.pop(), 0
            framework = self._frameworks[entry.info.pod.spec.scheduler_name or DEFAULT_SCHEDULER]
            await self._cycle.acquire()
            attempt = Attempt(monotonic, monotonic())
            if not tried:
                turn_ends = attempt.began + LONGEST_TURN_SECONDS
            if self._groups is not None and pod_group_name(entry.info.pod):
                # The task releases the lock when all pods of the group are tried. Between them other pods must not take
                # the nodes that the group needs.
                self._background.start(self._attempt_group(framework, entry, self._groups))
            else:
                try:
                    rest = await self._attempt(framework, entry, attempt)
                finally:
                    self._cycle.release()
                if rest is not None:
                    # An attempt that is longer than a time slice continues in the background.
                    self._background.start(self._go_on(framework, entry, attempt, rest))
            tried += 1
            if tried == ATTEMPTS_IN_TURN or monotonic() > turn_ends:
                # The searches of a full queue would otherwise never let the bindings run.
                tried = 0
                await asyncio.sleep(0)

    async def _go_on(
        self, framework: _Framework, entry: QueuedPodInfo, attempt: Attempt, rest: LongSearch | TimeSliceOver | None
    ) -> None:
        """Continue a parked attempt until it is finished or the pod is deleted."""
        while rest is not None:
            try:
                await self._between_turns(entry, attempt, rest)
            except DEFECTS as defect:
                status = defect_status(defect, _LOG, "%s: a search broke", entry.info.key)
                if self._queue.resume(entry):
                    framework.failures.broke(entry, status)
                return
            async with self._cycle:
                # The pod was deleted, or bound by another scheduler, while its attempt was parked.
                if not self._queue.resume(entry):
                    return
                rest = await self._attempt(framework, entry, attempt)

    async def _beside_others(self, entry: QueuedPodInfo, attempt: Attempt, rest: LongSearch | TimeSliceOver) -> None:
        """End a turn of a pod of a group, and let other pods be tried."""
        self._cycle.release()
        try:
            await self._between_turns(entry, attempt, rest)
        finally:
            await self._cycle.acquire()

    async def _between_turns(self, entry: QueuedPodInfo, attempt: Attempt, rest: LongSearch | TimeSliceOver) -> None:
        """Make a long search in the thread, or give others on the event loop their turn."""
        attempt.next_slice()
        if isinstance(rest, LongSearch):
            await self._search(entry, attempt, rest)
        else:
            await asyncio.sleep(0)

    async def _search(self, entry: QueuedPodInfo, attempt: Attempt, long: LongSearch) -> None:
        """Make a long search in the thread; namespaces take turns. The allocator caches the result."""

        def search(interrupted: Interruption) -> None:
            try:
                long.search(interrupted)
            finally:
                # Counted even if the search fails: the limit of time is one for all searches of the attempt.
                attempt.used += interrupted.elapsed

        # Time slices are counted as well, so that an attempt whose nodes change with every slice ends.
        attempt.used += SLICE_SECONDS
        await self._compute.run(search, seconds=max(long.seconds - attempt.used, 0.0), owner=entry.info.namespace)

    async def _attempt(
        self, framework: _Framework, entry: QueuedPodInfo, attempt: Attempt
    ) -> LongSearch | TimeSliceOver | None:
        """Try a pod for one turn. If that is not enough, park it, and return what is left to do."""
        pod = entry.info
        # Results are called as in kube-scheduler's metrics.
        result = "error"
        try:
            if self._is_pointless(framework, pod):
                self._queue.done(pod.uid)
                return None
            outcome, state = await framework.search.find(entry, attempt)
            if isinstance(outcome, SelectedNode):
                await framework.binding.start(entry, state, outcome.node)
                result = "scheduled"
            elif isinstance(outcome, UnschedulablePod):
                framework.failures.refused(entry, outcome)
                result = "unschedulable"
            else:
                framework.failures.broke(entry, outcome)
        except (LongSearch, TimeSliceOver) as rest:
            # Parked before the lock is released, so that a deletion of the pod in the meantime is seen.
            self._queue.park(entry)
            return rest
        except DEFECTS as defect:
            # One pod that hits a defect must not stop the others; it is reported and tried again like any failure.
            framework.failures.broke(entry, defect_status(defect, _LOG, "%s: the scheduling cycle broke", pod.key))
        if self._metrics is not None:
            self._metrics.attempted(result, framework.profile.name, self._clock.monotonic() - attempt.began)
        return None

    async def _attempt_group(
        self, framework: _Framework, popped: QueuedPodInfo, conditions: PodGroupConditions
    ) -> None:
        """Try all pods of a group that wait, together with the one that was popped. Gives the cycle back."""
        try:
            await self._attempt_pods(framework, popped, conditions)
        finally:
            self._cycle.release()

    async def _attempt_pods(self, framework: _Framework, popped: QueuedPodInfo, conditions: PodGroupConditions) -> None:
        if framework.units is not None:
            await self._attempt_unit(framework, framework.units, popped, conditions)
            return
        namespace, name = popped.info.namespace, pod_group_name(popped.info.pod)
        entries: list[QueuedPodInfo] = []
        for entry in (popped, *self._siblings(popped)):
            if self._is_pointless(framework, entry.info):
                self._queue.done(entry.uid)
            else:
                entries.append(entry)
        if not entries:
            return
        entries = in_order(entries)
        try:
            mixed = _different_schedulers(entries)
            if mixed is not None:
                outcome = PodGroupOutcome("SchedulerError", mixed.message)
                for entry in entries:
                    self._frameworks[_scheduler_of(entry.info.pod)].failures.broke(entry, mixed)
            else:
                outcome = await framework.groups.run(entries)
        except DEFECTS as defect:
            status = defect_status(defect, _LOG, "%s/%s: the scheduling cycle of the pod group broke", namespace, name)
            outcome = PodGroupOutcome("SchedulerError", status.message)
            for entry in entries:
                framework.failures.broke(entry, status)
        self._background.start(conditions.write(GroupKey("PodGroup", namespace, name), outcome))

    async def _attempt_unit(
        self, framework: _Framework, units: UnitCycle, popped: QueuedPodInfo, conditions: PodGroupConditions
    ) -> None:
        """Try all pods of a hierarchy that wait."""
        pod = popped.info
        pending: dict[GroupKey, list[QueuedPodInfo]] = {
            GroupKey("PodGroup", pod.namespace, pod_group_name(pod.pod)): [popped]
        }
        try:
            tree = self._tree(popped)
            for leaf in tree.leaves():
                pending.setdefault(leaf.key, []).extend(self._members(leaf.key, popped.uid))
            for key, entries in list(pending.items()):
                pending[key] = in_order([one for one in entries if not self._is_done_with(framework, one)])
            if not any(pending.values()):
                return
            invalid = mixed_group(tree, pending, self._members_of, policies=self._has_policies)
            if invalid:
                raise InvalidHierarchy(invalid)
            outcomes = await units.run(tree, pending)
        except (InvalidHierarchy, *DEFECTS) as defect:
            status = error(str(defect))
            if not isinstance(defect, InvalidHierarchy):
                status = defect_status(defect, _LOG, "%s: the scheduling cycle of the pod group broke", pod.key)
            for entry in (one for entries in pending.values() for one in entries):
                self._frameworks[_scheduler_of(entry.info.pod)].failures.broke(entry, status)
            outcomes = dict.fromkeys(pending, PodGroupOutcome("SchedulerError", status.message))
        for key, outcome in outcomes.items():
            self._background.start(conditions.write(key, outcome))

    def _check_hierarchy(self, group: PodGroup | CompositePodGroup) -> None:
        """Report a hierarchy that cannot be scheduled in the condition of the group that completed it."""
        if self._stored_groups is None or self._groups is None or not parent_name(group):
            return
        try:
            self._stored_groups.tree_at(group)
        except InvalidHierarchy as invalid:
            outcome = PodGroupOutcome("Invalid", str(invalid))
            self._background.start(self._groups.write(group_key(group), outcome))

    def _tree(self, popped: QueuedPodInfo) -> GroupNode:
        """Return the hierarchy of the pod's group.

        Raises:
            InvalidHierarchy: a group has gone since the pod entered the queue, or the hierarchy is broken.
        """
        assert self._stored_groups is not None, "the pod has a group"
        namespace, name = popped.info.namespace, pod_group_name(popped.info.pod)
        group = self._stored_groups.pod_group(namespace, name)
        tree = self._stored_groups.tree_at(group) if group is not None else None
        if tree is None:
            raise InvalidHierarchy(f'podgroup.scheduling.k8s.io "{name}" not found')
        return tree

    def _members_of(self, key: GroupKey) -> Iterable[Pod]:
        assert self._stored_groups is not None, "the group was found there"
        return self._stored_groups.pods(key.namespace, key.name)

    def _members(self, key: GroupKey, popped: str) -> Iterator[QueuedPodInfo]:
        """Take the other pods of a group out of the queue, those too that no event has woken: they are one entry."""
        for pod in self._members_of(key):
            if pod.metadata.uid != popped:
                entry = self._queue.pop_beside(pod.metadata.uid, asleep=True)
                if entry is not None:
                    yield entry

    def _is_done_with(self, framework: _Framework, entry: QueuedPodInfo) -> bool:
        pointless = self._is_pointless(framework, entry.info)
        if pointless:
            self._queue.done(entry.uid)
        return pointless

    def _siblings(self, popped: QueuedPodInfo) -> list[QueuedPodInfo]:
        """Take the other waiting pods of the same group out of the queue, and return them."""
        members = self._members_of(GroupKey("PodGroup", popped.info.namespace, pod_group_name(popped.info.pod)))
        uids = [pod.metadata.uid for pod in members if pod.metadata.uid != popped.uid]
        return [entry for uid in uids if (entry := self._queue.pop_beside(uid)) is not None]

    def _is_pointless(self, framework: _Framework, pod: PodInfo) -> bool:
        if pod.pod.metadata.deletion_timestamp is not None:
            message = f"skip schedule deleting pod: {pod.key}"
            framework.recorder.record(pod.pod, "Warning", "FailedScheduling", message, action="Scheduling")
            return True
        # An update of an assumed pod may have added it to the queue again before its binding was written.
        return self._cache.is_assumed(pod.uid)


async def _free_claims(profile: Profile, result: GroupResult) -> None:
    """Have a claim freed that is allocated where the pods of a group cannot use it, as PostFilter does for one pod.

    Not in hierarchies and under topology constraints: another placement may be able to use it.
    """
    if result.node.is_composite or topology_key(result.node.group):
        return
    for one in result.pods:
        if isinstance(one.outcome, UnschedulablePod):
            await profile.post_filter(one.state, one.entry.info, one.outcome.diagnosis, {DefaultPreemption.name})


def _different_schedulers(entries: Sequence[QueuedPodInfo]) -> Status | None:
    """Return the error of a group whose pods name more than one scheduler."""
    first, *others = [_scheduler_of(entry.info.pod) for entry in entries]
    for other in others:
        if other != first:
            return error(
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                f'got: "{first}" and "{other}"'
            )
    return None


def _scheduler_of(pod: Pod) -> str:
    return pod.spec.scheduler_name or DEFAULT_SCHEDULER
