"""DynamicResources: the plugin that finds devices for the claims of a pod.

Filter calls the allocator for every node and keeps its answers; Reserve holds those of the chosen node in memory;
PreBind writes them. Every refusal is unresolvable, because evicting a pod is not assumed to free its devices
(docs/spec/scheduling.md §3 to §9). With the gate DRAPreemption it is; trials of preemption then use the devices that
`suppositions` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import filterfalse
from typing import Any, Final

from cathedra.allocation import Allocation, AllocationError, NodeError, PreparedRequests
from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import AllocationResult, Device, DeviceRequestAllocationResult, ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import PODGROUPS, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.releases import behaviours
from cathedra.scheduler.dynamicresources import binding, node_allocatable
from cathedra.scheduler.dynamicresources.binding import BindingFailed, progress, waits
from cathedra.scheduler.dynamicresources.claims import ClaimCache, Resolver, UnresolvedClaim
from cathedra.scheduler.dynamicresources.cycle import (
    DEFAULT_TIMEOUTS,
    NO_RESOURCES,
    ClaimCycle,
    FoundAllocations,
    GroupClaims,
    Placement,
    Timeouts,
    has_prioritized_list,
    preference,
    preferences,
)
from cathedra.scheduler.dynamicresources.devices import FreeDevices
from cathedra.scheduler.dynamicresources.extended_resources import Demand, demand_of, nodes_by_resources, special_claim
from cathedra.scheduler.dynamicresources.hints import QueueingHints
from cathedra.scheduler.dynamicresources.node_allocatable import ClaimUse, NodeAllocatable, NodeMappings, Unaccountable
from cathedra.scheduler.dynamicresources.repacking import Repacker
from cathedra.scheduler.dynamicresources.suppositions import Suppositions, freed_claim
from cathedra.scheduler.dynamicresources.writing import ClaimWriter
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.events import EventRegistration
from cathedra.scheduler.framework.plugin import (
    NO_BATCH_RESULT,
    TOGETHER,
    BatchFilterResult,
    ClaimPlugin,
    CycleState,
    DeviceUsage,
    FilterPlugin,
    Nomination,
    Notify,
    PluginContext,
    PluginObserver,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
    normalized,
    write_nomination,
)
from cathedra.scheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot

_NAME: Final = "DynamicResources"
_SKIP = Status(Code.SKIP)
_TEXT_NO_FIT: Final = "cannot allocate all claims"
_TEXT_TIMEOUT: Final = "timed out trying to allocate devices"
_NOT_CREATED = unresolvable("ResourceClaim not created yet").of(_NAME)
_NO_FIT = unresolvable(_TEXT_NO_FIT).of(_NAME)
_NO_FIT_YET = unschedulable(_TEXT_NO_FIT).of(_NAME)
_NOT_HERE = unresolvable("resourceclaim not available on the node").of(_NAME)
_NOT_PROVIDED = unresolvable("cannot fit resource").of(_NAME)
_STALE = unresolvable("cannot schedule extended resource claim").of(_NAME)


class DynamicResources(
    ClaimPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
):
    """Claims of pods, from the queue to the binding."""

    name = _NAME
    weight = 1

    def __init__(self, context: PluginContext, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> None:
        client, informers, recorder = context.client, context.informers, context.recorder
        clock, random, gates = context.clock, context.random, context.gates
        self._timeouts = timeouts
        self._clock = clock
        self._random = random
        self._gates = gates
        self._provides_extended = gates["DRAExtendedResource"]
        self._client = client
        self._claims = ClaimCache(informers.of(RESOURCECLAIMS))
        self.devices = FreeDevices(
            self._claims, recorder=recorder, clock=clock, random=random, gates=gates, filter_timeout=timeouts.filter
        )
        shared = gates["GenericWorkload"] and gates["DRAWorkloadResourceClaims"]
        self._groups = informers.of(PODGROUPS) if shared else None
        groups = self._groups.store if self._groups is not None else None
        self._resolver = Resolver(self._claims.get, groups, self._claims.problem)
        self._binding_conditions = gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]
        self._suppositions: Suppositions | None = None
        if gates.get("DRAPreemption", False):
            pods = informers.of(PODS).store
            self._suppositions = Suppositions(self.devices, self._claims, self._resolver, pods, self._demand)
        self._no_fit = _NO_FIT if self._suppositions is None else _NO_FIT_YET
        self._node_allocatable: NodeAllocatable | NodeMappings | None = None
        if gates["DRANodeAllocatableResources"]:
            counting = NodeAllocatable if gates.has(behaviours.NODE_RESOURCES_BY_DEVICE) else NodeMappings
            self._node_allocatable = counting(informers.of(RESOURCESLICES).store)
        counts_pods = self._node_allocatable is not None
        deletions = gates.has(behaviours.CLAIM_DELETIONS_REQUEUE)
        self._hints = QueueingHints(
            self._resolver,
            informers.of(PODS).store,
            counts_pods=counts_pods,
            deletions=deletions,
            is_freeing=self.is_freeing if self._suppositions is not None else None,
        )
        self._repacker = Repacker(self.devices)
        self._writer = writer = ClaimWriter(client, clock, self._claims.assume, stamps=self._binding_conditions)
        self._binding = binding.ClaimBinding(
            writer, self._claims, self.devices, self._resolver, recorder, timeouts.binding
        )

    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Follow slices, classes, rules and claims."""
        self.devices.listen(informers, wake)

    def observe(self, observer: PluginObserver) -> None:
        """Call ``observer`` when a wait for binding conditions ends."""
        self._binding.observe(observer)

    def events(self) -> Sequence[EventRegistration]:
        """Return the registrations of the `QueueingHints`."""
        return self._hints.registrations()

    def statistics(self) -> Mapping[str, int]:
        """Return the number of claims whose allocation is decided and not written yet."""
        return {"claims_in_flight": self.devices.in_flight}

    def backs(self, resource: str) -> bool:
        """Return True if some device class provides the extended resource."""
        return self._provides_extended and self.devices.class_behind(resource) is not None

    def usage(self) -> DeviceUsage:
        """Counts the devices of the class behind an extended resource."""
        return self.devices.usage() if self._provides_extended else super().usage()

    def room(self) -> Callable[[NodeInfo], tuple[int, int]]:
        """Count the devices of a node's own pools, and those of them in use, in thousandths."""
        room = self.devices.room()
        return lambda node: room(node.node)

    def is_freeing(self, node: str) -> bool:
        """Return True while the claims of evicted pods hold devices of ``node`` (gate DRAPreemption)."""
        return self._suppositions is not None and any(True for _ in self._suppositions.being_freed(node))

    def evicted(self, pod: Pod) -> None:
        """Count the claims of ``pod`` as being freed."""
        if self._suppositions is not None:
            self._suppositions.note_eviction(pod)

    def held_in(self, namespace: str) -> Iterator[tuple[ResourceClaim, AllocationResult]]:
        """Yield the claims of a namespace that hold devices, or for which that is decided."""
        return self.devices.held_in(namespace)

    def allocation_of(self, claim: ResourceClaim) -> AllocationResult | None:
        """Return what is stored or decided for a claim."""
        return self.devices.allocation_of(claim)

    def device_of(self, result: DeviceRequestAllocationResult) -> Device | None:
        """Return a device that is allocated; None if no driver publishes it any more."""
        return self.devices.device_of(result)

    def usable_claims(self, pod: Pod) -> Sequence[ResourceClaim] | None:
        """Return the claims of ``pod``; None if one of them cannot be used."""
        try:
            return self._resolver.claims(pod)
        except UnresolvedClaim:
            return None

    # --- before the nodes

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refuse the pod until it has all its claims; `pre_filter` returns which one is missing."""
        if not pod.pod.spec.resource_claims:
            return None
        if self._resolver.lacks_claims(pod.pod):
            # As below, for what is so of nearly every new pod. The queue reads no text.
            return _NOT_CREATED
        try:
            self._resolver.claims(pod.pod)
        except UnresolvedClaim as why:
            return unresolvable(str(why))
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Check everything that is the same on all nodes."""
        try:
            claims = self._resolver.claims(pod.pod)
        except UnresolvedClaim as why:
            return unresolvable(str(why))
        demand = self._demand(pod)
        if not claims and demand is None:
            return _SKIP
        supposed = None
        if self._suppositions is not None and state.supposed is not None:
            supposed = self._suppositions.of(state.supposed, state.attempt)
        if supposed is not None and supposed.freed:
            claims = [freed_claim(claim) if claim.metadata.uid in supposed.freed else claim for claim in claims]
        cycle = ClaimCycle(claims, demand, state.attempt, narrowing=state.narrowing, supposed=supposed)
        if state.group is not None:
            cycle.group = state.group.setdefault(_NAME, GroupClaims())
            # Amounts that devices take of a node are counted for each pod when it is tried, and not again.
            cycle.together = TOGETHER in state.group and self._node_allocatable is None and supposed is None
        for index, claim in enumerate(claims):
            if cycle.group is not None and (decided := self._decided_in_group(cycle.group, claim)) is not None:
                cycle.shared[claim.metadata.uid] = decided
            allocation = cycle.allocation(claim)
            if allocation is not None:
                cycle.placements[index] = self._placement(claim, allocation)
                continue
            refusal = self.devices.refusal(claim)
            if refusal is not None:
                return refusal
        try:
            if len(cycle.placements) < len(claims):
                cycle.prepared[NO_RESOURCES] = self._prepare(cycle, NO_RESOURCES)
        except AllocationError as broken:
            return self._no_fit if cycle.is_optional else error(str(broken))
        state.data[_NAME] = cycle
        return None

    # --- for every node

    def refuses_all(self, state: CycleState, pod: PodInfo) -> bool:
        """Return True if equal claims have been tried on all nodes and fit on none, and nothing has changed since."""
        cycle: ClaimCycle = state.data[_NAME]
        if cycle.supposed is not None or cycle.placements or cycle.demand is not None:
            return False
        if cycle.group is not None and cycle.group.held:
            # Where pods of the group hold devices, `filter` may find other devices for all of them.
            return False
        cycle.batch_nodes = state.snapshot
        prepared = cycle.prepared.get(NO_RESOURCES)
        batch = None if prepared is None else cycle.batch(NO_RESOURCES, prepared)
        cycle.everywhere = None if batch is None else batch.everywhere
        return cycle.everywhere is False

    def filter_batch(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> BatchFilterResult:
        """Allocate for many nodes at once; nodes of one class cost one search."""
        cycle: ClaimCycle = state.data[_NAME]
        if cycle.everywhere is False:
            return BatchFilterResult(frozenset(), state.snapshot.each(self._no_fit))
        if cycle.everywhere and self._node_allocatable is None:
            return BatchFilterResult(state.snapshot.all_nodes)
        cycle.batch_nodes = state.snapshot
        if cycle.supposed is not None:
            # Answers for all nodes are kept from one pod to the next, and a trial would replace them by its own.
            cycle.batch_nodes = None
            return NO_BATCH_RESULT
        if cycle.placements or (cycle.demand is not None and cycle.demand.stale is not None):
            # Claims that are already allocated are tested on each node by `filter`.
            return NO_BATCH_RESULT
        refused: dict[NodeInfo, Status] = {}
        if cycle.demand is None:
            passing = self._find_many(cycle, NO_RESOURCES, nodes, refused)
        else:
            groups = nodes_by_resources(cycle.demand, nodes, state.snapshot.resources())
            passing = self._find_by_resources(cycle, groups, refused)
        # The amounts that devices take of a node are tested on each node by `filter`.
        return BatchFilterResult(passing if self._node_allocatable is None else frozenset(), refused)

    def _find_by_resources(
        self,
        cycle: ClaimCycle,
        groups: Mapping[frozenset[str] | None, Sequence[NodeInfo]],
        refused: dict[NodeInfo, Status],
    ) -> Set[NodeInfo]:
        """Do the same as `_find_many` for groups of nodes, by the extended resources that devices must provide
        there."""
        passing: Set[NodeInfo] = frozenset()
        for resources, group in groups.items():
            if resources is None:
                refused.update(dict.fromkeys(group, _NOT_PROVIDED))
            elif not resources and not cycle.claims:
                passing |= frozenset(group)
            else:
                fitting = self._find_many(cycle, resources, group, refused)
                passing = passing | fitting if passing else fitting
        return passing

    def _find_many(
        self,
        cycle: ClaimCycle,
        resources: frozenset[str],
        nodes: Sequence[NodeInfo],
        refused: dict[NodeInfo, Status],
    ) -> Set[NodeInfo]:
        """Return those of ``nodes`` on which the claims fit; the others are added to ``refused`` if their text is
        known."""
        try:
            prepared = self._prepared(cycle, resources)
        except AllocationError:
            return frozenset()
        asked = None if prepared is None else cycle.batch_of(resources, prepared, nodes)
        if asked is None:
            return frozenset()
        batch, fitting = asked
        if len(fitting) < len(nodes):
            # The list itself if no node is left out: its places are known then.
            others = list(filterfalse(fitting.__contains__, nodes)) if fitting else nodes
            if (group := cycle.group) is not None and group.held:
                # Where pods of the group hold devices, `filter` may find other devices for all of them.
                others = [node for node in others if node.name not in group.held]
            refused.update(dict.fromkeys(batch.refused(others), self._no_fit))
        return fitting

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuse the node if an existing allocation cannot be used there, or none is found for the other claims."""
        cycle: ClaimCycle = state.data[_NAME]
        resources = NO_RESOURCES
        if cycle.demand is not None:
            if cycle.demand.stale is not None:
                return _STALE
            wanted = cycle.demand.from_devices(node)
            if wanted is None:
                return _NOT_PROVIDED
            if not wanted and not cycle.claims:
                return None
            resources = wanted
        for claim in cycle.claims:
            unshareable = self._sharing_refusal(claim, pod.pod, node)
            if unshareable:
                return unresolvable(unshareable)
        unavailable = [index for index, place in cycle.placements.items() if not place.allows(node.node)]
        refusal = self._allocate(cycle, resources, node) or self._count(state, cycle, pod, node)
        if refusal is not None:
            return refusal
        if unavailable:
            cycle.unavailable |= set(unavailable)
            return _NOT_HERE
        return None

    def passed_beside(self, state: CycleState, trial: CycleState, node: str) -> None:
        """Use the devices that are free beside those held for nominated pods."""
        cycle: ClaimCycle | None = state.data.get(_NAME)
        tried: ClaimCycle | None = trial.data.get(_NAME)
        if self._suppositions is None or cycle is None or tried is None or tried.supposed is None:
            return
        found = tried.results.get(node)
        if found is not None:
            cycle.results[node] = found

    def _allocate(self, cycle: ClaimCycle, resources: frozenset[str], node: NodeInfo) -> Status | None:
        name = node.name
        # What was found beside nominated pods is not searched again without them.
        if name in cycle.results:
            return None
        try:
            prepared = self._prepared(cycle, resources)
            if prepared is None:
                cycle.results[name] = FoundAllocations(tuple)
                return None
            asked = cycle.batch_of(resources, prepared, (node,))
            if asked is None:
                answer = prepared.on(node.node)
            else:
                batch, _ = asked
                found = batch.found(name, resources)
                if found is not None:
                    cycle.results[name] = found
                    return None
                answer = batch.refusal(name)
            if not isinstance(answer, Allocation) and cycle.supposed is not None:
                claims = cycle.to_allocate(resources)
                answer = cycle.supposed.while_settling(self.devices, claims, cycle.attempt, node) or answer
        except NodeError as problem:
            return unresolvable(str(problem))
        except AllocationError as broken:
            return self._no_fit if cycle.is_optional else error(str(broken))
        if isinstance(answer, Allocation):
            cycle.results[name] = FoundAllocations(partial(getattr, answer, "results"), resources)
            return None
        if cycle.together and self._repacker.fits(cycle, resources, node):
            return None
        return self._timed_out(name) if answer.stopped and not cycle.is_optional else self._no_fit

    def _sharing_refusal(self, claim: ResourceClaim, pod: Pod, node: NodeInfo) -> str:
        if self._node_allocatable is None or self._resolver.is_reserved(pod, claim):
            return ""
        return self._node_allocatable.sharing_refusal(pod, claim, node)

    def _count(self, state: CycleState, cycle: ClaimCycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuse the node if it lacks the amounts that the devices found on it take of it."""
        if self._node_allocatable is None:
            return None
        try:
            statuses = self._node_allocatable.statuses(self._uses(cycle, pod.pod, node.name), node.node)
        except (Unaccountable, AllocationError) as broken:
            return error(str(broken))
        if not statuses:
            return None
        unused = next((status.resource_claim_name for status in statuses if not status.containers), None)
        if unused is not None and not self._gates.has(behaviours.CLAIMS_TAKE_FOR_PODS):
            return unresolvable(
                f"claim {unused}: node-allocatable resource claim not referenced by any container within the pod"
            )
        state.taken[node.name] = statuses
        return node_allocatable.refusal(node_allocatable.with_statuses(pod.pod, statuses), node)

    def _uses(self, cycle: ClaimCycle, pod: Pod, node: str) -> Iterator[ClaimUse]:
        """Yield the pod's claims with their allocations on ``node``."""
        found = cycle.found(node)
        fresh = iter(found.write() if found is not None else ())
        entries = self._resolver.entries(pod)
        for claim in cycle.claims:
            allocation = cycle.allocation(claim) or next(fresh, None)
            if allocation is not None:
                names = [entry for entry, uid in entries.items() if uid == claim.metadata.uid]
                containers = tuple(name for entry in names for name in node_allocatable.containers_of(pod, entry))
                yield ClaimUse(claim, allocation, containers)
        special = next(fresh, None)
        if special is not None:
            yield ClaimUse(special_claim(pod, ""), special, ())

    def _timed_out(self, node: str) -> Status:
        is_error = self._gates.has(behaviours.FILTER_TIMEOUT_IS_ERROR)
        return error(f"node {node}: {_TEXT_TIMEOUT}") if is_error else unresolvable(_TEXT_TIMEOUT)

    def _prepared(self, cycle: ClaimCycle, resources: frozenset[str]) -> PreparedRequests | None:
        """Return the allocator's work for the unallocated claims and these extended resources; None if there is
        none."""
        prepared = cycle.prepared.get(resources)
        if prepared is None and resources and cycle.demand is not None:
            prepared = cycle.prepared[resources] = self._prepare(cycle, resources)
        return prepared

    def _prepare(self, cycle: ClaimCycle, resources: frozenset[str]) -> PreparedRequests:
        ledger = cycle.supposed.ledger if cycle.supposed is not None else None
        return self.devices.prepare(cycle.to_allocate(resources), cycle.allowance, ledger)

    # --- when no node will do

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Status | Nomination:
        """Frees one claim of the pod that is allocated in the wrong place."""
        cycle: ClaimCycle | None = state.data.get(_NAME)
        scores_zero = self._gates.has(behaviours.POST_FILTER_IS_SILENT)
        if cycle is None:
            return unschedulable(*(() if scores_zero else ("no new claims to deallocate",)))
        stored = [cycle.claims[i] for i in sorted(cycle.unavailable) if cycle.claims[i].status.allocation is not None]
        candidates = [claim for claim in stored if _only_used_by(claim, pod.pod)]
        try:
            if candidates:
                claim = self._random.choice(candidates)
                # Its devices would be free for others while the pod uses them.
                if claim.status.reserved_for and await self._writer.has_node(pod.pod):
                    return unschedulable("the pod was placed elsewhere in the meantime")
                await self._writer.deallocate(claim)
                return unschedulable("deallocation of ResourceClaim completed")
            if cycle.demand is not None and cycle.demand.stale is not None:
                await self._writer.delete(cycle.demand.stale)
                return unschedulable("deletion of ResourceClaim completed")
        except (StatusError, ConnectionError) as failure:
            return error(str(failure))
        return unschedulable(*(() if scores_zero else ("still not schedulable",)))

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Earlier sub-requests of prioritised lists are better."""
        cycle: ClaimCycle | None = state.data.get(_NAME)
        if cycle is None or not has_prioritized_list(cycle.claims):
            return None
        stored = sum(preference(claim, cycle.allocation(claim)) for claim in cycle.claims)
        unallocated = cycle.unallocated
        kinds = cycle.kinds(nodes)
        if kinds is None:
            return normalized([stored + worth for worth in preferences(cycle, unallocated, nodes)])
        examples = list(dict(zip(kinds, nodes, strict=True)).values())
        worths = dict(zip(dict.fromkeys(kinds), preferences(cycle, unallocated, examples), strict=True))
        return normalized([stored + worths[kind] for kind in kinds])

    # --- once the node is chosen

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Holds the devices found on the node."""
        cycle: ClaimCycle | None = state.data.get(_NAME)
        if cycle is None:
            return None
        unallocated = cycle.unallocated
        try:
            decision = cycle.decision(node)
        except AllocationError as broken:
            return error(str(broken))
        if decision is None and unallocated:
            return error("claim allocation not found for node")
        allocations, resources = decision or ((), NO_RESOURCES)
        if cycle.repackings:
            self._repacker.apply(cycle, node)
        if resources and cycle.demand is not None:
            temporary = f"{self._random.getrandbits(128):032x}"
            special = cycle.demand.claim(resources)
            cycle.special = replace(special, metadata=replace(special.metadata, uid=temporary))
            cycle.special_resources = resources
            unallocated = [*unallocated, cycle.special]
        if len(allocations) != len(unallocated):
            have, need = len(allocations), len(unallocated)
            return error(f"internal error, have {have} allocations, {need} claims to allocate")
        for claim, allocation in zip(unallocated, allocations, strict=True):
            cycle.chosen[claim.metadata.uid] = allocation
            self.devices.take(claim, allocation, pod.uid)
            if cycle.group is not None:
                cycle.group.decided[claim.metadata.uid] = allocation
        for claim in cycle.claims if cycle.shared else ():
            decided = cycle.shared.get(claim.metadata.uid)
            if decided is not None:
                cycle.chosen[claim.metadata.uid] = decided
                self.devices.take(claim, decided, pod.uid)
        if cycle.group is not None:
            cycle.group.held.setdefault(node, []).append(cycle)
        return None

    def pack(self, state: CycleState, node: str) -> None:
        """Exchange the devices that the pod holds on ``node`` for some that leave larger ones free (DeviceScoring)."""
        # Amounts that devices take of a node have been counted for those that were found first.
        if _NAME in state.data and self._node_allocatable is None:
            self._repacker.pack(state.data[_NAME], state.snapshot.by_name[node])

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Release devices and reservations; an allocation that is written stays in its claim."""
        cycle: ClaimCycle | None = state.data.get(_NAME)
        if cycle is not None:
            await self._binding.withdraw(cycle, pod.pod)
            self._repacker.leave(cycle, node, state)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Pods without claims, of their own or for extended resources, are left alone."""
        return _NAME in state.data

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Coroutine[Any, Any, Status | None]:
        """Writes allocations and reservations."""
        # No coroutine of its own: each that is entered is entered again after every write.
        return self._binding.write(state.data.get(_NAME), pod.pod)

    def has_to_settle(self, state: CycleState, pod: PodInfo) -> bool:
        """Devices may have to be attached."""
        cycle: ClaimCycle | None = state.data.get(_NAME)
        return cycle is not None and self._binding_conditions and True in map(waits, cycle.all_claims)

    async def settle(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Waits until the devices are attached."""
        if self._gates["NominatedNodeNameForExpectation"]:
            # kube-scheduler nominates before every PreBind that has work; here that is written only before a wait.
            await write_nomination(self._client, pod.pod, node)
        return await self._binding.wait_for_conditions(state.data[_NAME], pod.pod, node)

    def _decided_in_group(self, group: GroupClaims, claim: ResourceClaim) -> AllocationResult | None:
        """Return the allocation that another pod of the group has just reserved; None if there is none or it was given
        up since."""
        if claim.status.allocation is not None or not self.devices.is_in_flight(claim):
            return None
        return group.decided.get(claim.metadata.uid)

    def _placement(self, claim: ResourceClaim, allocation: AllocationResult) -> Placement:
        broken = False
        if self._binding_conditions:
            try:
                progress(claim, self._clock.now(), self._timeouts.binding)
            except BindingFailed:
                broken = True
        skips = self._gates["DRAOptionalNodeOperations"] and any(
            result.skip_node_operations for result in allocation.devices.results
        )
        return Placement(allocation.node_selector, skips, broken)

    def _demand(self, pod: PodInfo) -> Demand | None:
        if not self._provides_extended or not pod.qualified:
            return None
        return demand_of(pod, self.devices.class_behind, self._claims.owned_by)


def _only_used_by(claim: ResourceClaim, pod: Pod) -> bool:
    return all(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)
