"""Extension points of plugins, with the objects that are passed to them.

The extension points are kube-scheduler's. Everything up to Reserve is synchronous: a scheduling cycle runs without
yielding to the event loop, so its state cannot change under it. A cycle that takes too long is abandoned and starts
again (`cathedra.scheduler.framework.attempt`). PostFilter, PreBind, Bind and Unreserve call the API and are coroutines.
Scores are computed for all feasible nodes in one call, because a call for every node would cost more than the sums.

Plugins with informers of their own are `InformedPlugin`. Informers call handlers in the order in which they were added,
and those of plugins come before the queue's, so a plugin's state is up to date when a pod is woken.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from cathedra.api.core.core_v1 import NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.resource import AllocationResult, Device, DeviceRequestAllocationResult, ResourceClaim
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import PODS
from cathedra.client.transport import PatchType
from cathedra.clock import Clock
from cathedra.releases import FeatureGates
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.events import Action, EventRegistration, EventResource
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Given, Snapshot

if TYPE_CHECKING:
    from cathedra.scheduler.narrowing import Narrowing
    from cathedra.scheduler.podplugins import PodPredicates

MAX_SCORE = 100

TOGETHER = "together"
"""Key of `CycleState.group` while JointPlacement searches: decisions for other pods of the group may be changed."""

DeviceUsage = Callable[[str, NodeInfo], tuple[int, int]]
"""For an extended resource and a node: the devices that provide it there, and how many of them are in use."""


def no_devices(resource: str, node: NodeInfo) -> tuple[int, int]:
    """Return (0, 0): the `DeviceUsage` where devices provide nothing."""
    return 0, 0


class Supposition(msgspec.Struct, frozen=True):
    """Difference between a trial and the cluster: pods that are evicted, and nominated pods that are counted."""

    gone: Mapping[str, PodInfo] = msgspec.field(default_factory=dict)
    """UID → a pod that the snapshot of the trial does not have any more."""
    beside: tuple[PodInfo, ...] = ()
    """Nominated pods that the snapshot has on ``node``."""
    node: NodeInfo | None = None
    """The node that the trial is about; None if it is about all nodes."""


class CycleState(msgspec.Struct, eq=False):
    """State of the plugins between the extension points of one cycle of one pod, by plugin name."""

    snapshot: Snapshot
    group: dict[str, Any] | None = None
    """State of the plugins between the pods of a PodGroup that are tried together, by plugin name; None for a pod
    alone."""
    attempt: Attempt | None = None
    """The attempt that the cycle is a turn of; None if there is no limit."""
    supposed: Supposition | None = None
    """Differences between snapshot and cluster; None for an attempt that counts."""
    narrowing: Narrowing | None = None
    """Demands on devices beyond those of the pod's claims; None for the claims as they are."""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    measured: bool = False
    """True if the duration of every plugin is measured in this cycle, filters on every node."""
    predicates: PodPredicates | None = None
    """The predicates of the profile's filters for the pod, once they are known."""
    skipped_filters: set[str] = msgspec.field(default_factory=set)
    taken: dict[str, tuple[NodeAllocatableResourceClaimStatus, ...]] = msgspec.field(default_factory=dict)
    """Node → what the pod's devices would take of its own resources: the pod is counted with it there."""


class Plugin(ABC):
    """Base of all plugins: a name, and one or more of the extension points below."""

    name: str

    def events(self) -> Sequence[EventRegistration]:
        """Changes that may turn this plugin's refusal into a yes. None: nothing but the periodic retry helps."""
        return ()

    def statistics(self) -> Mapping[str, int]:
        """Return numbers of the plugin's state beyond the cycles of pods."""
        return {}


class PreEnqueuePlugin(Plugin):
    """Called before a pod enters the active queue."""

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """None lets the pod in; a rejection makes it wait for one of the plugin's events."""


class Narrowed(msgspec.Struct, frozen=True):
    """Result of PreFilter: only these nodes are feasible, others need not be filtered."""

    nodes: frozenset[str]


class PreFilterPlugin(Plugin):
    """Called once per cycle, before the nodes are filtered."""

    def skips(self, pod: PodInfo) -> bool:
        """Return True if `pre_filter` returns Skip for ``pod`` in any cluster."""
        return False

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | Narrowed | None:
        """Return None to continue, Skip to skip the plugin's filter in this cycle, or a rejection to end the cycle."""


class BatchFilterResult(msgspec.Struct, frozen=True):
    """Nodes of the snapshot for which `filter` need not be called."""

    passing: Set[NodeInfo] = frozenset()
    refused: Mapping[NodeInfo, Status] = MappingProxyType({})
    """Rejections, signed by the plugin."""


NO_BATCH_RESULT = BatchFilterResult()


class NodePredicate(msgspec.Struct, frozen=True, gc=False):
    """A predicate over one node, ``of(*given, node)``. It may depend only on the node, the pods on it, and ``given``.

    Results are kept for each node by ``of`` and ``given``: everything of the pod that the function reads is given.
    """

    of: Callable[..., bool]
    given: Given = ()
    lacking: frozenset[str] = frozenset()
    there: NodePredicate | None = None
    """The same where no node has any of the resources ``lacking``: pods share it that differ only in these."""

    def holds(self, node: NodeInfo) -> bool:
        """Return True if the predicate is true for ``node``."""
        return self.of(*self.given, node)


class NodeScore(msgspec.Struct, frozen=True, gc=False):
    """A score of one node, ``of(*given, node)``. It may depend only on what a `NodePredicate` does."""

    of: Callable[..., int]
    given: Given = ()


class FilterPlugin(Plugin):
    """Called for every node, until the first refusal."""

    def predicate(self, pod: PodInfo) -> NodePredicate | None:
        """Return a condition under which `filter` lets a node pass; None: that depends on more than the node.

        The predicates of all plugins are evaluated together, once for each node that has changed.
        """
        return None

    def filter_batch(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> BatchFilterResult:
        """Return the results of `filter` that are known before it is called for each of ``nodes`` of the snapshot.

        A result for many nodes is often cheaper than many calls. The result may include other nodes.
        """
        predicate = self.predicate(pod)
        if predicate is None:
            return NO_BATCH_RESULT
        return BatchFilterResult(state.snapshot.nodes_that(predicate.of, predicate.given, nodes))

    def refuses_all(self, state: CycleState, pod: PodInfo) -> bool:
        """Return True if it is known that `filter` refuses every node of the snapshot. Nothing is computed for it."""
        return False

    def passed_beside(self, state: CycleState, trial: CycleState, node: str) -> None:
        """Take over from ``trial`` what was found on ``node`` beside the pods nominated for it: `filter`, which does
        not count them, must not choose what is held for them."""
        return

    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """None accepts the node."""


class Nomination(msgspec.Struct, frozen=True):
    """The node on which room is being made for the pod; with "" an older nomination is withdrawn, and why."""

    node: str
    message: str = ""


class PostFilterPlugin(Plugin):
    """Called when no node passed; may free something for the next attempt."""

    @abstractmethod
    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Status | Nomination:
        """Return the nomination, or the reason why nothing could be done."""


class ScorePlugin(Plugin):
    """Called for all feasible nodes when there is more than one."""

    weight: int = 1
    zero_where: NodePredicate | None = None
    """Predicate on the object of a node. If it is true for all nodes, the plugin's score is zero for every pod."""

    def scores_zero(self, pod: PodInfo) -> bool:
        """Return True if the plugin has no opinion on ``pod`` in any cluster."""
        return False

    def node_score(self, pod: PodInfo) -> NodeScore | None:
        """Return the score of a node if it does not depend on other nodes, else None.

        The sum over all such plugins is cached for each node until it changes, by their weights and scores.
        """
        return None

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """Return one score from 0 to 100 per node, or None if the plugin has no opinion on this pod."""


class ReservePlugin(Plugin):
    """Called when a node is chosen for the pod, and again if the pod is not bound to it."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Take hold, in memory, of what the pod needs there."""

    @abstractmethod
    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Release what `reserve` reserved. Must be idempotent, and is also called if `reserve` was not."""


class PermitPlugin(Plugin):
    """Has the last word on a pod of a PodGroup that could have a node."""

    @abstractmethod
    def permit(self, pod: PodInfo) -> Status | None:
        """None: the group may be bound as far as it has nodes; Wait: more of its pods need one first."""


class PreBindPlugin(Plugin):
    """Writes what must be in the API before the pod is bound."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Return True if there is work for this pod; if no plugin has any, `pre_bind` and `settle` are not called."""
        return True

    def has_to_settle(self, state: CycleState, pod: PodInfo) -> bool:
        """Return True if `settle` must be called now that all plugins have written."""
        return False

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """None when everything is written."""

    async def settle(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Wait for what others must do before the pod can be bound. It is called if `has_to_settle` returns True."""
        return None


class BindPlugin(Plugin):
    """Binds the pod to its node."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """None when the pod is bound."""


class PostBindPlugin(Plugin):
    """Called after the pod is bound; the result is ignored."""

    @abstractmethod
    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Clean up what was written for the search."""


@dataclass(frozen=True, slots=True)
class PluginContext:
    """Surroundings of plugins that read or write the API: client, informers, clock and gates."""

    client: Client
    informers: SharedInformers
    recorder: EventRecorder
    """Records events in the name of one profile."""
    clock: Clock
    random: Random
    gates: FeatureGates


class Evaluations:
    """Counter of evaluations of a pod, or of a node for it."""

    # Written for every plugin and pod; the attribute of a struct takes twice as long.
    __slots__ = ("times",)

    def __init__(self) -> None:
        self.times = 0


class PluginObserver(Protocol):
    """Observer of plugin calls, with points and outcomes in kube-scheduler's words."""

    monotonic: Callable[[], float]
    """Seconds that never run backwards."""

    def samples(self, work: str) -> Iterator[bool]:
        """Yield for each piece of work that begins (a cycle, a PreEnqueue, a Permit) whether its plugins are to be
        measured."""

    def evaluations(self, plugins: tuple[str, ...], point: str, profile: str) -> Evaluations:
        """Return a new counter of evaluations by each of these plugins."""

    def ran(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Note the status and the duration of a plugin's call."""

    def waited_for_devices(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """Note that the binding conditions of a driver's devices came true (``success``), or how they did not."""

    def claim_created(self, status: str) -> None:
        """Count an attempt to create a claim for extended resources: ``success`` or ``failure``."""

    def preemption_attempted(self) -> None:
        """Count a search for pods to evict, which has begun."""

    def victims_chosen(self, number: int) -> None:
        """Note the number of pods that are to be evicted."""


Notify = Callable[[EventResource, Action, Any, Any], None]
"""Notify the queue of a change: the parts of a `ClusterEvent`, which is made only if some pod may need it."""


class InformedPlugin(Protocol):
    """A plugin that keeps state of its own from informers."""

    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Add handlers; called once, before the first pod is taken."""


class ClaimPlugin(Plugin):
    """The plugin that sees to the claims of pods, under the name DynamicResources. All profiles share one."""

    @abstractmethod
    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Add handlers; called once, before the first pod is taken."""

    @abstractmethod
    def backs(self, resource: str) -> bool:
        """Return True if claims may provide the extended resource, so that nodes need not have it."""

    def usage(self) -> DeviceUsage:
        """Return a function for the extended resources that devices provide at this moment, for scores."""
        return no_devices

    def room(self) -> Callable[[NodeInfo], tuple[int, int]]:
        """Return a function for the devices of a node at this moment, all and those in use, for scores."""
        return lambda node: (0, 0)

    def is_freeing(self, node: str) -> bool:
        """Return True while devices of ``node`` are held by claims whose pods have gone or are being preempted."""
        return False

    def evicted(self, pod: Pod) -> None:
        """Count the devices of ``pod`` as being freed: the server has accepted its eviction."""
        return

    def held_in(self, namespace: str) -> Iterable[tuple[ResourceClaim, AllocationResult]]:
        """Return the claims of a namespace that hold devices, or for which that is decided."""
        return ()

    def allocation_of(self, claim: ResourceClaim) -> AllocationResult | None:
        """Return what is stored or decided for a claim."""
        return claim.status.allocation

    def pack(self, state: CycleState, node: str) -> None:
        """Exchange the devices that the pod holds on ``node`` for some that leave larger ones free."""

    def device_of(self, result: DeviceRequestAllocationResult) -> Device | None:
        """Return a device that is allocated; None if no driver publishes it any more."""
        return None

    def usable_claims(self, pod: Pod) -> Sequence[ResourceClaim] | None:
        """Return the claims of ``pod``; None if one of them cannot be used."""
        return ()

    def observe(self, observer: PluginObserver) -> None:
        """Call ``observer`` when waits for devices end; a plugin that waits for none never calls it."""
        return


def normalized(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    """Return scores of which the largest is 100, or 0 if ``reverse``; the others follow in proportion, rounded down."""
    top = max(scores, default=0)
    if top == 0:
        return [MAX_SCORE if reverse else 0] * len(scores)
    scaled = [MAX_SCORE * score // top for score in scores]
    return [MAX_SCORE - score for score in scaled] if reverse else scaled


_LOG = logging.getLogger(__name__)


async def write_nomination(client: Client, pod: Pod, node: str) -> None:
    """Have the status of ``pod`` name ``node``; "" takes a nomination back."""
    metadata = pod.metadata
    patch = {"metadata": {"uid": metadata.uid}, "status": {"nominatedNodeName": node or None}}
    try:
        await client.resource(PODS, metadata.namespace).patch(metadata.name, PatchType.MERGE, patch, "status")
    except (StatusError, ConnectionError) as failure:
        _LOG.warning("%s/%s: nomination not written: %s", metadata.namespace, metadata.name, failure)
