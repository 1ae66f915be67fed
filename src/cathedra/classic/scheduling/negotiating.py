"""The scheduler's side of the negotiation with drivers: propose, select, wait, reserve, deallocate.

It is the same in every release. A release defines which claims of a pod drivers allocate, and where
(`Negotiating.claims_of`, `allocatable`), and how it allocates the other claims of the pod (docs/spec/scheduling.md
§18.2).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, Generic

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import NodeSelector, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.classic.anyclaim import AnyClaim, C, consumer_of, ref_of
from cathedra.classic.controlplane.kinds import ControlledClaim
from cathedra.classic.resources import CONTEXTS
from cathedra.classic.scheduling.claims import (
    PodClaim,
    Unresolved,
    can_be_reserved,
    is_reserved,
    waits_for_consumer,
)
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.releases import FeatureGates, classic
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.events import Action, EventResource
from cathedra.scheduler.framework.plugin import (
    CycleState,
    FilterPlugin,
    Nomination,
    Notify,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from cathedra.scheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot
from cathedra.semantics.owners import controller_reference, is_controlled_by

if TYPE_CHECKING:
    from cathedra.classic.structured import Stock


_SKIP: Final = Status(Code.SKIP)
_NOT_HERE: Final = unresolvable("resourceclaim not available on the node")
_UNSUITABLE: Final = unresolvable("resourceclaim cannot be allocated for the node (unsuitable)")
_LOG: Final = logging.getLogger(__name__)


class Cycle(Generic[C]):
    """State of one pod between the extension points."""

    def __init__(self, claims: list[PodClaim[C]], negotiation: Negotiation) -> None:
        self.claims = claims
        self.negotiation = negotiation
        self.allocates: int = 0
        """Number of the pod's unallocated claims that the scheduler itself allocates."""
        self.stock: Stock | None = None
        """Free resources for claims that the scheduler of 1.30 allocates."""
        self.unavailable: set[int] = set()
        """Positions of claims that are allocated where the pod cannot go."""

    @property
    def pending(self) -> list[PodClaim[C]]:
        """Claims that drivers have yet to allocate."""
        return [claim for claim in self.claims if claim.pending]


class Negotiating(
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    PostBindPlugin,
    Generic[C],
):
    """Claims that drivers allocate, from the first extension point to the end of the negotiation."""

    name = "DynamicResources"
    excluded: Status = unresolvable("excluded by resource class node filter")
    """Message for a node where a claim's class may not be allocated."""

    def __init__(
        self,
        client: Client,
        contexts: Informer[v1alpha2.PodSchedulingContext],
        *,
        random: Random,
        gates: FeatureGates,
    ) -> None:
        self._client = client
        self._contexts = contexts
        self._random = random
        self._gates = gates

    # --- differences between releases

    @abstractmethod
    def claims_of(self, pod: Pod) -> list[PodClaim[C]]:
        """Return the pod's claims that this plugin sees to, in the order of its spec.

        Raises:
            Unresolved: at the first entry that has no usable claim.
        """

    @abstractmethod
    def allocatable(self, claim: PodClaim[C]) -> Status | None:
        """Return True if an unallocated claim can be allocated. Sets its nodes and its allocator."""

    def begin(self, cycle: Cycle[C]) -> None:
        """Called after all claims have been read."""

    def allocate(self, cycle: Cycle[C], node: str) -> Status | None:
        """Return True if the scheduler itself finds the devices to allocate on the node."""
        return None

    def hold(self, cycle: Cycle[C], node: str) -> Status | None:
        """Hold the devices that the scheduler itself allocates on the node for the pod."""
        return None

    def drop(self, cycle: Cycle[C]) -> None:
        """Release everything that is reserved and not written."""

    async def write(self, claim: PodClaim[C], pod: Pod) -> None:
        """Write the held allocation of a claim."""
        raise NotImplementedError("nothing is held")

    async def give_back(self, cycle: Cycle[C], claim: C) -> None:
        """Request that the driver deallocates the claim.

        Raises:
            StatusError, ConnectionError: the server refused or cannot be reached.
        """
        if self._gates.has(classic.SELECTION_WITHDRAWN) and cycle.negotiation.selected:
            # Otherwise the driver would allocate again where it just deallocated.
            cycle.negotiation.select("")
            await cycle.negotiation.publish(self._client)
        await request_deallocation(self._client, claim)

    # --- before the nodes

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Check everything that is the same on all nodes."""
        try:
            claims = self.claims_of(pod.pod)
        except Unresolved as why:
            return unresolvable(str(why))
        if not claims:
            return _SKIP
        metadata = pod.pod.metadata
        try:
            context = self._contexts.store.get(metadata.namespace, metadata.name)
            kind = "PodScheduling" if self._gates.has(classic.V1ALPHA1) else "PodSchedulingContext"
            negotiation = Negotiation(pod.pod, context, kind)
        except ForeignContext as foreign:
            return error(str(foreign))
        for claim in claims:
            refusal = self._usable(claim, pod.pod, negotiation)
            if refusal is not None:
                return refusal
        cycle = state.data[self.name] = Cycle(claims, negotiation)
        self.begin(cycle)
        return None

    def _usable(self, claim: PodClaim[C], pod: Pod, negotiation: Negotiation) -> Status | None:
        """Return True if the claim is, or can be, allocated for the pod; fills in where."""
        status = claim.claim.status
        if status.allocation is None and not waits_for_consumer(claim.claim):
            return unresolvable("unallocated immediate resourceclaim")
        if status.deallocation_requested:
            return unresolvable("resourceclaim must be reallocated")
        if status.allocation is not None:
            if not can_be_reserved(claim.claim) and not is_reserved(claim.claim, pod):
                return unresolvable("resourceclaim in use")
            nodes = _available_on(claim.claim)
            claim.nodes = () if nodes is None else (nodes,)
            return None
        refusal = self.allocatable(claim)
        if refusal is None and claim.pending:
            answer = negotiation.answer(claim.entry)
            claim.informed = answer is not None
            claim.unsuitable = answer or frozenset()
        return refusal

    # --- for every node

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return True if existing allocations can be used on the node, and no driver or class excludes it."""
        cycle: Cycle[C] = state.data[self.name]
        unavailable: list[int] = []
        for position, claim in enumerate(cycle.claims):
            if claim.fault is not None:
                return claim.fault
            if not claim.allows(node.node):
                if claim.claim.status.allocation is None:
                    return self.excluded
                unavailable.append(position)
            elif node.name in claim.unsuitable:
                return _UNSUITABLE
        refusal = self.allocate(cycle, node.name)
        if refusal is not None:
            return refusal
        if unavailable:
            # Kubernetes examines as many of the pod's first claims as are unavailable, and takes all of these or none.
            if any(waits_for_consumer(claim.claim) for claim in cycle.claims[: len(unavailable)]):
                cycle.unavailable.update(unavailable)
            return _NOT_HERE
        return None

    # --- when no node will do

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Status | Nomination:
        """Request the deallocation of one of the pod's claims that is allocated on the wrong nodes."""
        cycle: Cycle[C] | None = state.data.get(self.name)
        if cycle is None:
            return unschedulable("no new claims to deallocate")
        candidates = [
            claim.claim
            for position in sorted(cycle.unavailable)
            if _only_used_by((claim := cycle.claims[position]).claim, pod.pod)
        ]
        if not candidates:
            return unschedulable("still not schedulable")
        try:
            await self.give_back(cycle, self._random.choice(candidates))
        except (StatusError, ConnectionError) as failure:
            return error(str(failure))
        return unschedulable(
            *(("deallocation of ResourceClaim completed",) if self._gates.has(classic.SELECTION_WITHDRAWN) else ())
        )

    # --- when several will do

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Propose nodes to drivers, since several are left. No node is preferred."""
        cycle: Cycle[C] | None = state.data.get(self.name)
        if cycle is not None and cycle.pending:
            names = [node.name for node in nodes]
            if not set(names) <= set(cycle.negotiation.potential):
                cycle.negotiation.propose(names, self._random)
        return None

    # --- once the node is chosen

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Choose the next message to drivers. The pod continues if there is none and no answer is missing."""
        cycle: Cycle[C] | None = state.data.get(self.name)
        if cycle is None:
            return None
        negotiation, pending = cycle.negotiation, cycle.pending
        refusal = self.hold(cycle, node)
        if refusal is not None or not pending:
            return refusal
        if not negotiation.proposed and node not in negotiation.potential:
            negotiation.propose([node], self._random)
        informed = sum(claim.informed for claim in pending)
        # The odd comparison with claims that the scheduler allocates is Kubernetes'.
        answered = informed + cycle.allocates == len(pending) and cycle.allocates < len(pending)
        if negotiation.selected != node and ((len(pending) == 1 and not cycle.allocates) or answered):
            negotiation.select(node)
        if self._gates.has(classic.WAITING_NAMES_STEP):
            text = "allocate resource" if negotiation.selected == node else "provide information"
            return unresolvable(f"waiting for resource driver to {text}")
        if negotiation.dirty:
            return None
        return Status(Code.PENDING, ("waiting for resource driver to provide information",))

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Send the chosen message to drivers, and release reservations."""
        cycle: Cycle[C] | None = state.data.get(self.name)
        if cycle is None:
            return
        try:
            await cycle.negotiation.publish(self._client)
        except (StatusError, ConnectionError) as failure:
            _LOG.info("%s: scheduling context not written: %s", pod.key, failure)
        self.drop(cycle)
        for claim in cycle.claims:
            if claim.claim.status.allocation is None or not is_reserved(claim.claim, pod.pod):
                continue
            try:
                await withdraw(self._client, claim.claim, pod.pod)
            except (StatusError, ConnectionError) as failure:
                _LOG.info("%s: reservation not taken back: %s", pod.key, failure)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Writes what drivers must answer first; else reserves every claim, and ends the negotiation."""
        cycle: Cycle[C] | None = state.data.get(self.name)
        if cycle is None:
            return None
        try:
            if cycle.negotiation.dirty:
                await cycle.negotiation.publish(self._client)
                return Status(Code.PENDING, ("waiting for resource driver",))
            for claim in cycle.claims:
                if claim.structured is not None:
                    await self.write(claim, pod.pod)
                elif not is_reserved(claim.claim, pod.pod):
                    claim.claim = await reserve(self._client, claim.claim, pod.pod)
        except (StatusError, ConnectionError) as failure:
            return error(str(failure))
        return None

    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Note that the negotiation has ended."""
        if self.name not in state.data:
            return
        metadata = pod.pod.metadata
        try:
            await self._client.resource(CONTEXTS, metadata.namespace).delete(metadata.name)
        except StatusError as failure:
            if not failure.is_not_found:
                _LOG.info("%s: scheduling context not deleted: %s", pod.key, failure)
        except ConnectionError as failure:
            _LOG.info("%s: scheduling context not deleted: %s", pod.key, failure)


def _available_on(claim: AnyClaim) -> NodeSelector | None:
    """Return the nodes that can use an allocated claim. None means all."""
    if isinstance(claim, ControlledClaim):
        return claim.status.allocation.node_selector if claim.status.allocation is not None else None
    return claim.status.allocation.available_on_nodes if claim.status.allocation is not None else None


def _only_used_by(claim: AnyClaim, pod: Pod) -> bool:
    return all(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def forward(informer: Informer[Any], resource: EventResource, wake: Notify) -> None:
    """Notify the queue of every change that the informer reports."""
    informer.add_handler(
        partial(wake, resource, Action.ADD, None),
        partial(wake, resource, Action.UPDATE),
        lambda old: wake(resource, Action.DELETE, old, None),
    )


async def reserve(client: Client, claim: C, pod: Pod) -> C:
    """Enter the pod among the claim's consumers.

    Raises:
        StatusError: the server refused, as when another pod was faster.
        ConnectionError: the server cannot be reached.
    """
    return await _write(client, claim, reserved_for=(*claim.status.reserved_for, consumer_of(claim, pod)))


async def withdraw(client: Client, claim: AnyClaim, pod: Pod) -> None:
    """Take the pod out of the claim's consumers; the allocation stays.

    Raises:
        StatusError, ConnectionError: the server refused or cannot be reached.
    """
    rest = tuple(consumer for consumer in claim.status.reserved_for if consumer.uid != pod.metadata.uid)
    await _write(client, claim, reserved_for=rest)


async def request_deallocation(client: Client, claim: AnyClaim) -> None:
    """Request that the driver deallocates the claim. The claim then has no consumer.

    Raises:
        StatusError, ConnectionError: the server refused or cannot be reached.
    """
    await _write(client, claim, reserved_for=(), deallocation_requested=True)
    _LOG.info("%s/%s: deallocation requested", claim.metadata.namespace, claim.metadata.name)


async def _write(client: Client, claim: C, **changes: Any) -> C:
    changed = replace(claim, status=replace(claim.status, **changes))
    written: C = await client.resource(ref_of(claim), claim.metadata.namespace).update_status(changed)
    return written


# The negotiation about one pod: the scheduler's messages and the drivers' answers, in its PodSchedulingContext.
#
# A cycle chooses the next message in memory (`propose`, `select`); `publish` writes it, later and at once for all
# changes (docs/spec/scheduling.md §18.2).

MAX_NODES: Final = 128
"""Number of nodes that can be proposed."""


class ForeignContext(Exception):
    """The object of the pod's name belongs to something else."""

    def __init__(self, context: v1alpha2.PodSchedulingContext, pod: Pod, kind: str) -> None:
        where = f"{pod.metadata.namespace}/{pod.metadata.name}"
        super().__init__(f"{kind} object with UID {context.metadata.uid} is not owned by Pod {where}")


class Negotiation:
    """The negotiation about one pod in one scheduling cycle."""

    def __init__(
        self, pod: Pod, context: v1alpha2.PodSchedulingContext | None, kind: str = "PodSchedulingContext"
    ) -> None:
        """``context`` is the object as it is known; None: there is none yet. ``kind`` is what messages call it.

        Raises:
            ForeignContext: the object is not the pod's.
        """
        if context is not None and not is_controlled_by(context, pod):
            raise ForeignContext(context, pod, kind)
        self._pod = pod
        self._context = context
        self._selected: str | None = None
        self._potential: tuple[str, ...] | None = None

    @property
    def dirty(self) -> bool:
        """True if something is decided and not written."""
        return self._selected is not None or self._potential is not None

    @property
    def selected(self) -> str:
        """The node on which drivers shall allocate; "" if none is chosen."""
        if self._selected is not None:
            return self._selected
        return self._context.spec.selected_node if self._context is not None else ""

    @property
    def potential(self) -> tuple[str, ...]:
        """The nodes that drivers must check."""
        if self._potential is not None:
            return self._potential
        return self._context.spec.potential_nodes if self._context is not None else ()

    @property
    def proposed(self) -> bool:
        """True if this cycle has proposed nodes."""
        return self._potential is not None

    def answer(self, entry: str) -> frozenset[str] | None:
        """Return the nodes that the driver of an entry's claim excludes; None: it has not answered."""
        claims = self._context.status.resource_claims if self._context is not None else ()
        return next((frozenset(claim.unsuitable_nodes) for claim in claims if claim.name == entry), None)

    def propose(self, nodes: list[str], random: Random) -> None:
        """Propose these nodes to drivers, or a random choice of them if they are too many."""
        chosen = nodes if len(nodes) <= MAX_NODES else random.sample(nodes, MAX_NODES)
        self._potential = tuple(sorted(chosen))

    def select(self, node: str) -> None:
        """Have drivers allocate on this node; "" takes an earlier choice back."""
        self._selected = node

    async def publish(self, client: Client) -> None:
        """Write the decisions, if any.

        Raises:
            StatusError, ConnectionError: the server refused or cannot be reached; it stays decided.
        """
        if not self.dirty:
            return
        contexts = client.resource(CONTEXTS, self._pod.metadata.namespace)
        spec = v1alpha2.PodSchedulingContextSpec(selected_node=self.selected, potential_nodes=self.potential)
        if self._context is None:
            metadata = ObjectMeta(
                name=self._pod.metadata.name,
                namespace=self._pod.metadata.namespace,
                owner_references=(controller_reference(self._pod),),
            )
            self._context = await contexts.create(v1alpha2.PodSchedulingContext(metadata=metadata, spec=spec))
        else:
            self._context = await self._update(client, replace(self._context, spec=spec))
        self._selected = self._potential = None

    async def _update(self, client: Client, wanted: v1alpha2.PodSchedulingContext) -> v1alpha2.PodSchedulingContext:
        """Drivers write the status meanwhile; a conflict with them is settled by applying the spec alone."""
        namespace = self._pod.metadata.namespace
        try:
            return await client.resource(CONTEXTS, namespace).update(wanted)
        except StatusError as error:
            if not error.is_conflict:
                raise
        fields = {
            "metadata": {"uid": wanted.metadata.uid},
            "spec": {
                "selectedNode": wanted.spec.selected_node,
                "potentialNodes": list(wanted.spec.potential_nodes),
            },
        }
        scheduler = client.as_manager("kube-scheduler")
        return await scheduler.resource(CONTEXTS, namespace).apply(self._pod.metadata.name, fields)
