"""DynamicResources of 1.31: today's plugin for claims that the scheduler allocates, the negotiation for all others.

A pod may have both kinds. Either half sees its own claims alone; this module combines their results, in the order in
which Kubernetes calls them. With the gate DRAControlPlaneController closed nothing is negotiated, and a pod with a
claim that names a controller waits (docs/spec/scheduling.md §18.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import replace
from cathedra.classic.controlplane.kinds import ControlledClaim, controller_of, suitable_nodes
from cathedra.classic.resources import CONTEXTS
from cathedra.classic.scheduling.claims import PodClaim, Unresolved, pod_claims
from cathedra.classic.scheduling.negotiating import Cycle, Negotiating, forward
from cathedra.classic.scheduling.plugin import context_registration
from cathedra.client.client import Client
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.resources import DEVICECLASSES, RESOURCECLAIMS
from cathedra.releases import FeatureGates
from cathedra.releases.table import CONTROL_PLANE_RELEASE
from cathedra.scheduler.composition import device_plugin
from cathedra.scheduler.configuration.reading import ProfileConfiguration
from cathedra.scheduler.dynamicresources.plugin import DynamicResources
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.events import EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import (
    NO_BATCH_RESULT,
    BatchFilterResult,
    ClaimPlugin,
    CycleState,
    FilterPlugin,
    Nomination,
    Notify,
    PluginContext,
    PluginObserver,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from cathedra.scheduler.framework.status import Code, Status, error, unresolvable
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot

_SKIP: Final = Status(Code.SKIP)
_DISABLED: Final = unresolvable("resourceclaim depends on disabled DRAControlPlaneController feature")
"""The one that has both generations."""


class ControllerClaims(Negotiating[ControlledClaim]):
    """Claims that name a controller."""

    name = "DynamicResources/controllers"
    excluded = unresolvable("excluded by device class node filter")

    def __init__(self, client: Client, informers: SharedInformers, *, random: Random, gates: FeatureGates) -> None:
        super().__init__(client, informers.of(CONTEXTS), random=random, gates=gates)
        self._claims = informers.of(RESOURCECLAIMS)
        self._classes = informers.of(DEVICECLASSES)

    def listen(self, wake: Notify) -> None:
        """Follow scheduling contexts; claims and classes today's plugin follows."""
        forward(self._contexts, EventResource.POD_SCHEDULING_CONTEXT, wake)

    def events(self) -> Sequence[EventRegistration]:
        """Register the events of drivers' answers."""
        return (context_registration(self._find, CONTROL_PLANE_RELEASE),)

    def claims_of(self, pod: Pod) -> list[PodClaim[ControlledClaim]]:
        """Return the pod's claims that name a controller."""
        return [claim for claim in pod_claims(pod, self._find, CONTROL_PLANE_RELEASE) if controller_of(claim.claim)]

    def _find(self, namespace: str, name: str) -> ControlledClaim | None:
        claim = self._claims.store.get(namespace, name)
        return claim if isinstance(claim, ControlledClaim) else None

    def allocatable(self, claim: PodClaim[ControlledClaim]) -> Status | None:
        """Return True if the classes of all requests exist, because they limit where controllers may allocate."""
        nodes = []
        for request in claim.claim.spec.devices.requests or ():
            name = request.exactly.device_class_name if request.exactly is not None else ""
            if not name:
                return error(f"request {request.name}: unsupported request type")
            found = self._classes.store.get("", name)
            if found is None:
                return unresolvable(f"request {request.name}: device class {name} does not exist")
            selector = suitable_nodes(found)
            if selector is not None:
                nodes.append(selector)
        claim.nodes = tuple(nodes)
        return None


class ControlPlaneResources(
    ClaimPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    PostBindPlugin,
):
    """Claims of pods in 1.31, allocated by the scheduler or by controllers."""

    name = "DynamicResources"
    weight = 1

    def __init__(
        self, devices: DynamicResources, controllers: ControllerClaims | None, claims: Informer[ResourceClaim]
    ) -> None:
        """``controllers`` is None while the gate is closed."""
        self._devices = devices
        self._controllers = controllers
        self._claims = claims

    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Follow slices, classes, claims and scheduling contexts."""
        self._devices.listen(informers, wake)
        if self._controllers is not None:
            self._controllers.listen(wake)

    def observe(self, observer: PluginObserver) -> None:
        """Report to the observer, as today's plugin does."""
        self._devices.observe(observer)

    def events(self) -> Sequence[EventRegistration]:
        """As today, and answers of drivers."""
        answers = self._controllers.events() if self._controllers is not None else ()
        return (*self._devices.events(), *answers)

    def statistics(self) -> Mapping[str, int]:
        """Return the statistics of today's plugin."""
        return self._devices.statistics()

    def backs(self, resource: str) -> bool:
        """Extended resources came to classes later."""
        return False

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refuse the pod until all of its claims are there."""
        return self._devices.pre_enqueue(pod)

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | None:
        """Check everything that is the same on all nodes. Each half stores its own results."""
        try:
            claims = pod_claims(pod.pod, self._find, CONTROL_PLANE_RELEASE)
        except Unresolved as why:
            return unresolvable(str(why))
        controlled = {claim.entry for claim in claims if controller_of(claim.claim)}
        if controlled and self._controllers is None:
            return _DISABLED
        negotiated: Status | None = _SKIP
        if self._controllers is not None and controlled:
            negotiated = self._controllers.pre_filter(state, pod, snapshot)
            # Drivers must answer first; searching devices meanwhile would be wasted.
            if negotiated is not None:
                return negotiated
        # Today's half would refuse claims that name a controller.
        own = self._devices.pre_filter(state, _without(pod, controlled), snapshot)
        cycle = self._cycle(state)
        if cycle is not None:
            cycle.allocates = sum(
                claim.claim.status.allocation is None for claim in claims if claim.entry not in controlled
            )
        if own is not None and own.code is Code.SKIP:
            return negotiated
        return own

    def refuses_all(self, state: CycleState, pod: PodInfo) -> bool:
        """Return True if the allocator, where it alone decides, is known to find devices on no node."""
        return self._cycle(state) is None and self._has_own(state) and self._devices.refuses_all(state, pod)

    def filter_batch(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> BatchFilterResult:
        """Return the allocator's answers for many nodes at once, where it alone decides."""
        # With negotiated claims each node needs the answers of drivers too, so the batch cannot decide alone.
        if self._cycle(state) is not None or not self._has_own(state):
            return NO_BATCH_RESULT
        return self._devices.filter_batch(state, pod, nodes)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return True if no driver or class excludes the node, and devices are found there."""
        refusal = None
        if self._controllers is not None and self._cycle(state) is not None:
            refusal = self._controllers.filter(state, pod, node)
        # The negotiation first: its filter is cheap, and the allocator's search is not.
        if refusal is None and self._has_own(state):
            refusal = self._devices.filter(state, pod, node)
        return refusal

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Status | Nomination:
        """Gives one claim back that is allocated in the wrong place."""
        cycle = self._cycle(state)
        if self._controllers is not None and cycle is not None and (cycle.unavailable or not self._has_own(state)):
            return await self._controllers.post_filter(state, pod, diagnosis)
        return await self._devices.post_filter(state, pod, diagnosis)

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Propose nodes to drivers. The release does not prefer any node."""
        if self._controllers is not None:
            self._controllers.score(state, pod, nodes)
        return None

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Reserve the devices found on the node, and choose the next message to drivers."""
        refusal = self._devices.reserve(state, pod, node)
        # Devices first: if none can be reserved, no message to a driver may be chosen.
        if refusal is None and self._controllers is not None:
            refusal = self._controllers.reserve(state, pod, node)
        return refusal

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Send the chosen message to drivers, and release devices and reservations."""
        if self._controllers is not None:
            await self._controllers.unreserve(state, pod, node)
        await self._devices.unreserve(state, pod, node)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Writes what drivers must answer first; else allocations and reservations."""
        if self._controllers is not None:
            # Negotiated claims first: allocations of the scheduler are written only when the pod really binds.
            waiting = await self._controllers.pre_bind(state, pod, node)
            if waiting is not None:
                return waiting
        return await self._devices.pre_bind(state, pod, node)

    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Note that the negotiation has ended."""
        if self._controllers is not None:
            await self._controllers.post_bind(state, pod, node)

    def _find(self, namespace: str, name: str) -> ControlledClaim | None:
        claim: ResourceClaim | None = self._claims.store.get(namespace, name)
        return claim if isinstance(claim, ControlledClaim) else None

    @staticmethod
    def _cycle(state: CycleState) -> Cycle[ControlledClaim] | None:
        return state.data.get(ControllerClaims.name)

    def _has_own(self, state: CycleState) -> bool:
        return self._devices.name in state.data


def _without(pod: PodInfo, entries: set[str]) -> PodInfo:
    """Return the pod without these entries, as the plugin for devices receives it."""
    if not entries:
        return pod
    rest = tuple(entry for entry in pod.pod.spec.resource_claims if entry.name not in entries)
    return PodInfo(replace(pod.pod, spec=replace(pod.pod.spec, resource_claims=rest)))


def control_plane_plugin(context: PluginContext, configuration: ProfileConfiguration) -> ControlPlaneResources:
    """Return the plugin of a scheduler of 1.31."""
    devices = device_plugin(context, configuration)
    informers, gates = context.informers, context.gates
    negotiates = gates["DRAControlPlaneController"]
    controllers = (
        ControllerClaims(context.client, informers, random=context.random, gates=gates) if negotiates else None
    )
    return ControlPlaneResources(devices, controllers, informers.of(RESOURCECLAIMS))
