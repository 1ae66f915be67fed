"""Resources left on the node: NodeResourcesFit and NodeResourcesBalancedAllocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceClass
from cathedra.scheduler.configuration.strategy import LEAST_ALLOCATED, FitScoring
from cathedra.scheduler.framework.events import Action, ClusterEvent, EventRegistration, EventResource
from cathedra.scheduler.framework.plugin import (
    MAX_SCORE,
    CycleState,
    DeviceUsage,
    FilterPlugin,
    NodePredicate,
    NodeScore,
    ScorePlugin,
    no_devices,
)
from cathedra.scheduler.framework.status import Code, Status
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import CPU, IMPLICIT_PREFIX, MEMORY, PODS, PodInfo, amounts

BackedByDevices = Callable[[str], bool]
"""Return True if an extended resource has a device class, so that DynamicResources may provide it."""


class FitOptions(msgspec.Struct, frozen=True):
    """The arguments of NodeResourcesFit."""

    scoring: FitScoring = LEAST_ALLOCATED
    ignored: frozenset[str] = frozenset()
    """Extended resources that do not have to fit."""
    ignored_groups: frozenset[str] = frozenset()
    """Prefixes before the slash in the names of ignored resources."""

    def ignores(self, name: str) -> bool:
        """Return True if a resource is not checked."""
        if not self.ignored and not self.ignored_groups:
            return False
        group, slash, _ = name.partition("/")
        return bool(slash) and (name in self.ignored or group in self.ignored_groups)


DEFAULT_OPTIONS: Final = FitOptions()


class NodeResourcesFit(FilterPlugin, ScorePlugin):
    """The pod's requests must fit into what the other pods leave; emptier nodes are better."""

    name = "NodeResourcesFit"
    weight = 1

    def __init__(
        self,
        backed_by_devices: BackedByDevices,
        options: FitOptions = DEFAULT_OPTIONS,
        device_usage: Callable[[], DeviceUsage] = lambda: no_devices,
    ) -> None:
        """``device_usage`` returns a function for the moment at which it is called."""
        self._backed_by_devices = backed_by_devices
        self._options = options
        self._device_usage = device_usage

    def events(self) -> Sequence[EventRegistration]:
        """Pods that go or shrink, nodes that come or grow, and the pod's own smaller requests."""
        return (
            EventRegistration(EventResource.ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
            EventRegistration(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, self._fits_empty_node),
            EventRegistration(EventResource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN),
            EventRegistration(EventResource.DEVICE_CLASS, Action.ADD | Action.UPDATE, self._provides),
        )

    def predicate(self, pod: PodInfo) -> NodePredicate:
        """Return the predicate: nodes with room for one more pod and for its requests pass."""
        wanted = tuple(pod.requests.items())
        return self._beside_devices(pod, wanted) if pod.qualified else NodePredicate(_has_room, (wanted, ()))

    def _beside_devices(self, pod: PodInfo, wanted: tuple[tuple[str, int], ...]) -> NodePredicate:
        # A node without the resource passes here, because DynamicResources may provide devices for it.
        backed = tuple([name for name in pod.qualified if self._backed_by_devices(name)])
        if not backed:
            return _room(wanted)
        rest = tuple([(name, amount) for name, amount in wanted if name not in backed])
        return msgspec.structs.replace(_room(wanted, backed), lacking=frozenset(backed), there=_room(rest))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuses with every resource of which there is not enough."""
        allocatable, requested = node.allocatable, node.requested
        full = len(node.pods) >= allocatable.get(PODS, 0)
        short = [
            name
            for name, amount in pod.requests.items()
            if amount > allocatable.get(name, 0) - requested.get(name, 0)
            and not self._left_to_devices(name, node)
            and not self._options.ignores(name)
        ]
        if not full and not short:
            return None
        # More than the empty node has: evicting pods cannot help, and preemption skips nodes with this code.
        hopeless = any(pod.requests[name] > allocatable.get(name, 0) for name in short)
        reasons = (*(("Too many pods",) if full else ()), *(f"Insufficient {name}" for name in short))
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE, reasons)

    def node_score(self, pod: PodInfo) -> NodeScore | None:
        """LeastAllocated over cpu and memory, unless another strategy is configured."""
        if self._options.scoring is not LEAST_ALLOCATED:
            return None
        return NodeScore(_least_allocated, pod.scoring_requests)

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Return the scores of the configured strategy, devices included."""
        least_allocated = self.node_score(pod)
        if least_allocated is not None:
            return state.snapshot.values_of(least_allocated.of, least_allocated.given, nodes)
        devices, scoring = self._device_usage(), self._options.scoring
        return [scoring.score(pod, node, devices) for node in nodes]

    def _left_to_devices(self, name: str, node: NodeInfo) -> bool:
        return "/" in name and node.allocatable.get(name, 0) == 0 and self._backed_by_devices(name)

    def _provides(self, pod: Pod, change: ClusterEvent) -> bool:
        """Return True if a device class now provides a resource that the pod requests."""
        old: DeviceClass | None = change.old
        new: DeviceClass = change.new
        requested = PodInfo(pod).requests
        if old is None and f"{IMPLICIT_PREFIX}{new.metadata.name}" in requested:
            return True
        name = new.spec.extended_resource_name
        return bool(name) and name in requested and (old is None or old.spec.extended_resource_name != name)

    def _fits_empty_node(self, pod: Pod, change: ClusterEvent) -> bool:
        allocatable = amounts(change.new.status.allocatable)
        if allocatable.get(PODS, 0) < 1:
            return False
        # A node that shrank, or changed another resource, cannot make the pod fit.
        if change.old is not None and not _grew(amounts(change.old.status.allocatable), allocatable):
            return False
        return all(
            amount <= allocatable.get(name, 0)
            or ("/" in name and self._backed_by_devices(name))
            or self._options.ignores(name)
            for name, amount in PodInfo(pod).requests.items()
        )


class NodeResourcesBalancedAllocation(ScorePlugin):
    """Nodes with balanced use of cpu and memory get higher scores."""

    name = "NodeResourcesBalancedAllocation"
    weight = 1

    def node_score(self, pod: PodInfo) -> NodeScore | None:
        """Return 100 minus the standard deviation of the two fractions, in percent; None for a pod that requests
        neither."""
        cpu, memory = pod.requests.get(CPU, 0), pod.requests.get(MEMORY, 0)
        if not cpu and not memory:
            return None
        return NodeScore(_balance, (cpu, memory))

    def scores_zero(self, pod: PodInfo) -> bool:
        """Return True for pods that request neither cpu nor memory."""
        return not pod.requests.get(CPU) and not pod.requests.get(MEMORY)

    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Return what `node_score` computes, for each of ``nodes``; None for a pod that requests neither."""
        balance = self.node_score(pod)
        return None if balance is None else state.snapshot.values_of(balance.of, balance.given, nodes)


def _room(wanted: tuple[tuple[str, int], ...], backed: tuple[str, ...] = ()) -> NodePredicate:
    return NodePredicate(_has_room, (wanted, backed))


def _has_room(wanted: tuple[tuple[str, int], ...], backed: tuple[str, ...], node: NodeInfo) -> bool:
    """``backed``: what devices provide where the node itself has nothing of it."""
    allocatable, requested = node.allocatable, node.requested
    if len(node.pods) >= allocatable.get(PODS, 0):
        return False
    for name, amount in wanted:
        there = allocatable.get(name, 0)
        if amount > there - requested.get(name, 0) and (there or name not in backed):
            return False
    return True


def _least_allocated(cpu: int, memory: int, node: NodeInfo) -> int:
    # Not in a loop, and in integers as in kube-scheduler: a score in floating point would order some nodes differently.
    cpus, bytes_ = node.allocatable.get(CPU, 0), node.allocatable.get(MEMORY, 0)
    free_cpus, free_bytes = cpus - node.scoring_cpu - cpu, bytes_ - node.scoring_memory - memory
    total = free_cpus * MAX_SCORE // cpus if cpus and free_cpus > 0 else 0
    total += free_bytes * MAX_SCORE // bytes_ if bytes_ and free_bytes > 0 else 0
    return total // 2 if cpus and bytes_ else total


def _balance(cpu: int, memory: int, node: NodeInfo) -> int:
    allocatable, requested = node.allocatable, node.requested
    cpus, bytes_ = allocatable.get(CPU, 0), allocatable.get(MEMORY, 0)
    if not cpus or not bytes_:
        return MAX_SCORE
    # Cut at 1, because requested amounts may exceed a node whose allocatable has shrunk.
    of_cpus = min((requested.get(CPU, 0) + cpu) / cpus, 1.0)
    of_bytes = min((requested.get(MEMORY, 0) + memory) / bytes_, 1.0)
    return int((1 - abs(of_cpus - of_bytes) / 2) * MAX_SCORE)


def _grew(old: dict[str, int], new: dict[str, int]) -> bool:
    return any(amount > old.get(name, 0) for name, amount in new.items())
