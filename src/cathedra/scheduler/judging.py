"""Façade of the scheduler for tools: the verdict of its filters on pods, over a state that does not change.

`cathedra.insight` imports nothing else of the scheduler. The plugins are composed as the running scheduler composes
them, over informers that are filled from the state and never run. The refusals, and their texts, are therefore those of
the scheduler at this moment. One difference is intended: every filter is called for every node, while the scheduler
stops at the first refusal of a node (docs/spec/scheduling.md §1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

from cathedra.api.core.core_v1 import Node, PersistentVolumeClaim, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.undecodable import Undecodable
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import (
    COMPOSITEPODGROUPS,
    CSINODES,
    DEVICECLASSES,
    DEVICETAINTRULES,
    NAMESPACES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    PODDISRUPTIONBUDGETS,
    PODGROUPS,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    STORAGECLASSES,
)
from cathedra.client.transport import ResourceRef, Transport
from cathedra.clock import Clock, SystemClock
from cathedra.releases import FeatureGates
from cathedra.scheduler.composition import compose, device_plugin
from cathedra.scheduler.configuration.document import DEFAULT_SCHEDULER, PluginRef, Plugins, PluginSet
from cathedra.scheduler.configuration.enablement import VOLUME_PLUGINS, Enablement, enabled
from cathedra.scheduler.configuration.reading import (
    DEFAULT_CONFIGURATION,
    ProfileConfiguration,
    SchedulerConfiguration,
    read_configuration,
)
from cathedra.scheduler.dynamicresources.cycle import ClaimCycle
from cathedra.scheduler.dynamicresources.devices import FreeDevices
from cathedra.scheduler.dynamicresources.extended_resources import IN_MEMORY_NAME, requests_for
from cathedra.scheduler.dynamicresources.plugin import DynamicResources
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.plugin import CycleState, PluginContext
from cathedra.scheduler.framework.status import Code, Status, error, unresolvable
from cathedra.scheduler.narrowing import Narrowing
from cathedra.scheduler.nodesearch import NodeSearch, nodes_to_find
from cathedra.scheduler.plugins.preemption import DefaultPreemption, Eviction
from cathedra.scheduler.profile import FilterCall, Scope
from cathedra.scheduler.state.cache import Cache, Nominations
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.groupdomains import AttributeValue
from cathedra.semantics.pods import is_terminal

__all__ = [
    "DEFAULT_SCHEDULER",
    "DEVICES",
    "IN_MEMORY_NAME",
    "ClaimCycle",
    "ClusterObjects",
    "Filters",
    "FreeDevices",
    "Judgement",
    "Preemption",
    "SimulatedScheduler",
    "Status",
    "device_error",
    "device_refusal",
    "requests_for",
    "requests_of",
]

T = TypeVar("T", bound=KubeObject)

DEVICES: Final = "DynamicResources"
"""Name of the plugin that allocates claims."""
_WATCHED: Final[tuple[ResourceRef[Any], ...]] = (
    *(DEVICECLASSES, DEVICETAINTRULES, RESOURCECLAIMS, RESOURCESLICES),
    *(NAMESPACES, COMPOSITEPODGROUPS, PODGROUPS, PODDISRUPTIONBUDGETS, PODS),
    *(CSINODES, PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, STORAGECLASSES),
)
"""Resources that the filters read from informers."""
_PLACES: Final = "pods"
"""The resource that stands for the number of pods of a node."""


def simulated_configuration(*, volumes: bool, joint: bool = False, text: str = "") -> SchedulerConfiguration:
    """Return the configuration of simulations and explanations: that of ``text`` if it is given, else the default.

    Without the plugins on ``volumes`` if persistent volumes are not known; with JointPlacement in the default one if
    ``joint``, so that groups are placed in the domains that their annotations name.

    Raises:
        ConfigurationError: the text is no configuration.
    """
    if volumes and not joint and not text:
        return DEFAULT_CONFIGURATION
    found = read_configuration(text) if text else DEFAULT_CONFIGURATION
    if joint and not text:
        plugins = enabled(Plugins(multi_point=PluginSet(enabled=[PluginRef("JointPlacement")])))
        profile = msgspec.structs.replace(found.profiles[0], plugins=plugins)
        found = msgspec.structs.replace(found, profiles=(profile,))
    return found if volumes else _without_volumes(found)


def _without_volumes(found: SchedulerConfiguration) -> SchedulerConfiguration:
    def left(plugins: Enablement) -> Enablement:
        points = {
            point: tuple([name for name in names if name not in VOLUME_PLUGINS])
            for point, names in plugins.points.items()
        }
        return Enablement(points, plugins.weights)

    profiles = [msgspec.structs.replace(one, plugins=left(one.plugins)) for one in found.profiles]
    return msgspec.structs.replace(found, profiles=tuple(profiles))


class ClusterObjects(Protocol):
    """The objects of a cluster at one moment, as far as filters read them."""

    @property
    def nodes(self) -> Sequence[Node]:
        """All nodes, in the order in which they are searched."""

    @property
    def pods(self) -> Sequence[Pod]:
        """Return the pods of all namespaces."""

    @property
    def undecodable(self) -> Sequence[Undecodable]:
        """Objects that exist and cannot be decoded."""

    @property
    def gates(self) -> FeatureGates:
        """The release of the cluster and its feature gates."""

    def all(self, kind: type[T]) -> Sequence[T]:
        """Return all objects of a kind."""

    def is_known(self, kind: type[Any]) -> bool:
        """Return True if the objects of that kind were read, so that one that is not there does not exist."""


class Judgement(msgspec.Struct, frozen=True):
    """The verdict of all filters on one pod."""

    waiting: Status | None = None
    """The reason why the pod does not enter the active queue: scheduling gates, missing claims, an incomplete gang."""
    ended: Status | None = None
    """The status that ended the attempt before any node was filtered."""
    outside: Mapping[str, tuple[Status, ...]] = msgspec.field(default_factory=dict)
    """Node → the refusals of all filters except DynamicResources."""
    devices: Mapping[str, Status] = msgspec.field(default_factory=dict)
    """Node → the refusal of DynamicResources."""
    cycle: ClaimCycle | None = None
    """State of the claims in this cycle; None if DynamicResources was skipped or refused the pod before."""
    nodes: tuple[str, ...] = ()

    @property
    def passing(self) -> tuple[str, ...]:
        """The nodes that no filter refuses, in the order of the scheduler's search."""
        if self.waiting is not None or self.ended is not None:
            return ()
        return tuple(name for name in self.nodes if not self.outside.get(name) and name not in self.devices)

    @property
    def fitting(self) -> tuple[str, ...]:
        """The nodes that the pod can be bound to now.

        Empty if the scheduler would meet an error before it has found enough nodes: an error on one node ends the
        attempt for all nodes.
        """
        passing = self.passing
        wanted = nodes_to_find(len(self.nodes))
        found, good = 0, set(passing)
        for name in self.nodes:
            if name in good:
                found += 1
            elif not self.outside.get(name) and name in self.devices and not self.devices[name].rejected:
                return ()
            if found >= wanted:
                break
        return passing


class Preemption(msgspec.Struct, frozen=True):
    """The pods that the scheduler would evict for a pod, or the reason why it would evict none."""

    node: str = ""
    victims: tuple[Pod, ...] = ()
    """The most important one first."""
    violations: int = 0
    """The number of victims that a disruption budget protects."""
    why: str = ""
    """In the scheduler's words; "" if the pod fits as it is, or if no eviction could lift a refusal."""


class Filters:
    """The filters of the default profile, over one state or over a cluster that is followed."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        gates: FeatureGates,
        *,
        volumes: bool,
        known: SchedulerState | None = None,
    ) -> None:
        """``volumes``: persistent volumes are known, and their plugins run. See `over` and `following`.

        ``known`` is the state of a scheduler on the same informers; None: filters have a state of their own.
        """
        clock = client.clock
        recorder = EventRecorder(client, "default-scheduler", clock)
        configuration = simulated_configuration(volumes=volumes).profiles[0]
        # The seed is fixed, so that the same state always gives the same judgement.
        context = PluginContext(client, informers, recorder, clock, Random(0), gates)
        self._cache = Cache() if known is None else known.cache
        self._nominations = Nominations() if known is None else known.nominations
        self._devices = device_plugin(context, configuration)
        self._profile = compose(
            context,
            configuration,
            devices=self._devices,
            nominations=self._nominations,
            has_place=lambda uid: self._cache.place_of(uid) is not None,
        )
        if known is None:
            self._devices.listen(informers, _ignore)
        else:
            self._devices.devices.share(known.devices)

    @classmethod
    def over(cls, state: ClusterObjects) -> Filters:
        """Return the filters over a state that does not change."""
        clock = SystemClock()
        # Filters read informers only, so the client needs no transport: no request is ever sent.
        client = Client(cast(Transport, None), clock=clock)
        informers = _filled_informers(state, client, clock)
        filters = cls(client, informers, state.gates, volumes=state.is_known(PersistentVolumeClaim))
        for node in state.nodes:
            filters._cache.set_node(node)
        for pod in state.pods:
            filters._set_pod(pod)
            if _is_nominated(pod):
                filters._nominations.set(PodInfo(pod), pod.status.nominated_node_name)
        return filters

    @classmethod
    def following(cls, client: Client, informers: SharedInformers, gates: FeatureGates, seconds: float) -> Filters:
        """Return filters that are kept up to date by informers. Every judgement is one on the state at that moment.

        The caller runs ``informers``, and lets nothing change them during a judgement. The allocator searches for
        ``seconds`` at most for a pod: a judgement blocks the event loop.
        """
        filters = cls(client, informers, gates, volumes=True)
        filters.devices.limit_searches(seconds)
        cache = filters._cache
        informers.of(NODES).add_handler(
            cache.set_node, lambda _, node: cache.set_node(node), lambda node: cache.remove_node(node.metadata.name)
        )
        informers.of(PODS).add_handler(
            filters._set_pod, lambda _, pod: filters._set_pod(pod), lambda pod: cache.remove_pod(pod.metadata.uid)
        )
        return filters

    @property
    def devices(self) -> FreeDevices:
        """Inventory, ledger and classes from which claims are allocated."""
        return self._devices.devices

    def _set_pod(self, pod: Pod) -> None:
        if pod.spec.node_name and not is_terminal(pod):
            self._cache.add_pod(pod)
        else:
            self._cache.remove_pod(pod.metadata.uid)

    def most_free(self, resource: str, nodes: Iterable[str]) -> int:
        """Return the largest amount of a resource that is free on any of the nodes, in its smallest unit."""
        found = [node for name in nodes if (node := self._cache.node(name)) is not None]
        return max((node.allocatable.get(resource, 0) - node.requested.get(resource, 0) for node in found), default=0)

    def free_on(self, node: str) -> Mapping[str, int]:
        """Return what the pods on a node leave of its resources, and of its number of pods, in their smallest units."""
        found = self._cache.node(node)
        if found is None:
            return {}
        left = {name: amount - found.requested.get(name, 0) for name, amount in found.allocatable.items()}
        return {**left, _PLACES: found.allocatable.get(_PLACES, 0) - len(found.pods)}

    def judge(
        self,
        pod: Pod,
        *,
        only: frozenset[str] | None = None,
        devices: bool = True,
        values: tuple[AttributeValue, ...] = (),
    ) -> Judgement:
        """Return the verdict on ``pod`` for all nodes, or ``only`` for some.

        If ``devices`` is false, DynamicResources is not called. ``values`` are those that the devices must have, as
        JointPlacement searches them.
        """
        info = PodInfo(pod)
        waiting = self._profile.pre_enqueue(info) if devices else None
        snapshot = self._cache.snapshot()
        state = CycleState(snapshot, narrowing=Narrowing(values) if values else None)
        nodes = [node for node in snapshot.nodes if only is None or node.name in only]
        names = tuple(node.name for node in nodes)
        # Without its claims the pod cannot be filtered. Other reasons to wait (gates, a gang) do not keep the nodes
        # from being judged.
        if waiting is not None and waiting.plugin == DEVICES:
            # Unlike PreEnqueue, PreFilter names the pod or the group.
            missing = self._devices.pre_filter(state, info, snapshot) or waiting
            return Judgement(waiting=missing.of(DEVICES), nodes=names)
        # Without devices, a refusal by DynamicResources does not count, as for a missing claim.
        scope = self._profile.pre_filter(state, info, snapshot, () if devices else {DEVICES})
        cycle: ClaimCycle | None = state.data.get(DEVICES)
        if isinstance(scope, Status):
            return Judgement(waiting=waiting, ended=scope, cycle=cycle, nodes=names)
        if not devices:
            state.skipped_filters.add(DEVICES)
        outside = _out_of_scope(scope, names)
        # A batch computes the results of the whole snapshot, which is slower than a call per node if only some are
        # needed.
        batched = self._profile.batch_filters(state, info, nodes) if len(nodes) > 1 and only is None else None
        refused: dict[str, Status] = {}
        for call in batched if batched is not None else self._profile.filters(state):
            for name, status in _refusals(call, state, info, nodes):
                if call[0].name == DEVICES:
                    refused[name] = status
                else:
                    outside.setdefault(name, []).append(status)
        return Judgement(
            waiting=waiting,
            outside={name: tuple(statuses) for name, statuses in outside.items()},
            devices=refused,
            cycle=cycle,
            nodes=names,
        )

    def preemption(self, pod: Pod) -> Preemption:
        """Return what DefaultPreemption would do for a pod that the scheduler has not placed. Nothing is evicted."""
        info, state = PodInfo(pod), CycleState(self._cache.snapshot())
        search = NodeSearch(self._profile, self._nominations, Random(0))
        found = search.find(state, info)
        if not isinstance(found, Diagnosis):
            return Preemption(why=found.message if isinstance(found, Status) else "")
        plugin = next((one for one in self._profile.plugins if isinstance(one, DefaultPreemption)), None)
        if plugin is None:
            return Preemption(why="the profile has no DefaultPreemption")
        chosen = plugin.chosen(state, info, found)
        if isinstance(chosen, Eviction):
            return Preemption(chosen.node, tuple(one.pod for one in chosen.victims), chosen.violations)
        refusals = (found.status_of(node.name) for node in state.snapshot.nodes)
        if all(one is not None and one.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for one in refusals):
            # The refusals are the reason, and preemption has none of its own.
            return Preemption()
        return Preemption(why=chosen.message.removeprefix("preemption: "))


def _is_nominated(pod: Pod) -> bool:
    return bool(pod.status.nominated_node_name) and not pod.spec.node_name and not is_terminal(pod)


def _filled_informers(state: ClusterObjects, client: Client, clock: Clock) -> SharedInformers:
    informers = SharedInformers(client, clock)
    for ref in _WATCHED:
        store = informers.of(ref).store
        for one in state.all(ref.type):
            store.put(one)
        for what in state.undecodable:
            if what.kind == ref.kind:
                store.put_undecodable(what)
    return informers


def _out_of_scope(scope: Scope, names: Sequence[str]) -> dict[str, list[Status]]:
    """Refusals of the nodes that PreFilter has excluded."""
    if scope.nodes is None:
        return {}
    text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(scope.narrowed_by))}]"
    status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), "NodeAffinity")
    return {name: [status] for name in names if name not in scope.nodes}


def _refusals(
    call: FilterCall, state: CycleState, pod: PodInfo, nodes: Iterable[NodeInfo]
) -> Iterable[tuple[str, Status]]:
    plugin, _, passing, refused = call
    for node in nodes:
        if node in passing:
            continue
        found = refused.get(node) or plugin.filter(state, pod, node)
        if found is not None:
            yield node.name, found.of(plugin.name)


def _ignore(*change: object) -> None:
    """Handle no change: the state never changes."""


def requests_of(pod: Pod) -> Mapping[str, int]:
    """Return the resources that a pod requests, each in its smallest unit, as NodeResourcesFit computes them."""
    return PodInfo(pod).requests


def device_refusal(text: str) -> Status:
    """Return a refusal as DynamicResources gives it if claims cannot be allocated on a node."""
    return unresolvable(text).of(DEVICES)


def device_error(text: str) -> Status:
    """Return an error as DynamicResources gives it if the allocator fails."""
    return error(text).of(DEVICES)


class SchedulerState(msgspec.Struct, frozen=True, eq=False):
    """State of a cluster in a scheduler."""

    cache: Cache
    nominations: Nominations
    devices: FreeDevices


class SimulatedScheduler:
    """A scheduler on shared informers, as a simulation runs it."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        *,
        clock: Clock,
        random: Random,
        gates: FeatureGates,
        configuration: SchedulerConfiguration,
    ) -> None:
        # start-up time: only simulations run a scheduler
        from cathedra.scheduler.scheduler import Scheduler, SchedulerDependencies

        self._informers = informers
        cache, nominations = Cache(), Nominations()

        def make_claim_plugin(context: PluginContext, configuration: ProfileConfiguration) -> DynamicResources:
            plugin = device_plugin(context, configuration)
            self.state = SchedulerState(cache, nominations, plugin.devices)
            return plugin

        self._scheduler = Scheduler(
            client,
            clock=clock,
            random=random,
            gates=gates,
            configuration=configuration,
            dependencies=SchedulerDependencies(
                informers=informers, make_claim_plugin=make_claim_plugin, cache=cache, nominations=nominations
            ),
        )

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        await self._scheduler.run()

    def filters(self, state: ClusterObjects) -> Filters | None:
        """Return the filters over ``state``, which is that of the informers at this moment, without building the state
        of the scheduler a second time; None if the scheduler's state differs from it.

        The filters are those of the default profile, with limits of time of their own. They are valid until the next
        change.
        """
        known = self.state
        # What is decided and not written yet is in the scheduler's state alone.
        if known.devices.in_flight or known.cache.statistics()["assumed"]:
            return None
        nominated = {pod.metadata.uid: pod.status.nominated_node_name for pod in state.pods if _is_nominated(pod)}
        if nominated != known.nominations.node_of:
            return None
        client = Client(cast(Transport, None), clock=SystemClock())
        volumes = state.is_known(PersistentVolumeClaim)
        return Filters(client, self._informers, state.gates, volumes=volumes, known=known)
