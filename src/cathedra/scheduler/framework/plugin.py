"""When a plugin is asked, and with what.

The extension points are kube-scheduler's. Everything up to Reserve is synchronous: one scheduling cycle runs without
giving way to the event loop, so the state it looks at cannot change under it. A cycle that takes too long is given up
and starts again (`cathedra.scheduler.framework.attempt`). PostFilter, PreBind, Bind and Unreserve
talk to the API and are coroutines. Scores are asked for all feasible nodes at once, because a call for every node
would cost more than the sums.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from cathedra.api.core.core_v1 import NodeAllocatableResourceClaimStatus, Pod
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import PODS
from cathedra.client.transport import PatchType
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.framework.diagnosis import Diagnosis
from cathedra.scheduler.framework.events import ClusterEvent, EventRegistration
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot

if TYPE_CHECKING:
    from cathedra.scheduler.podplugins import PodPlugins

__all__ = [
    "MAX_SCORE",
    "NO_BATCH_RESULT",
    "BatchFilterResult",
    "BindPlugin",
    "ClaimPlugin",
    "CycleState",
    "DeviceUsage",
    "FilterPlugin",
    "InformedPlugin",
    "Narrowed",
    "NodePredicate",
    "NodeScore",
    "Nomination",
    "Notify",
    "PermitPlugin",
    "Plugin",
    "PluginObserver",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "ReservePlugin",
    "ScorePlugin",
    "no_devices",
    "normalized",
    "write_nomination",
]

MAX_SCORE = 100

DeviceUsage = Callable[[str, NodeInfo], tuple[int, int]]
"""For an extended resource and a node: the devices that provide it there, and how many of them are in use."""


def no_devices(resource: str, node: NodeInfo) -> tuple[int, int]:
    """The `DeviceUsage` where devices provide nothing."""
    return 0, 0


class CycleState:
    """What plugins remember between the extension points of one cycle of one pod, by plugin name."""

    __slots__ = ("attempt", "data", "group", "measured", "plugins", "skipped_filters", "snapshot", "taken")

    def __init__(self, snapshot: Snapshot, group: dict[str, Any] | None = None, attempt: Attempt | None = None) -> None:
        self.snapshot = snapshot
        self.attempt = attempt
        """The attempt that the cycle is a turn of; None if there is no limit."""
        self.data: dict[str, Any] = {}
        self.group = group
        """What plugins remember between the pods of a PodGroup that are tried together, by plugin name; None: alone."""
        self.measured = False
        """Whether every plugin is measured in this cycle, filters on every node."""
        self.plugins: PodPlugins | None = None
        """The profile's plugins that take part for the pod."""
        self.skipped_filters: set[str] = set()
        self.taken: dict[str, tuple[NodeAllocatableResourceClaimStatus, ...]] = {}
        """Node → what the pod's devices would take of its own resources: the pod is counted with it there."""


class Plugin(ABC):
    """Something with a name that implements one or more of the extension points below."""

    name: str

    def events(self) -> Sequence[EventRegistration]:
        """Changes that may turn this plugin's refusal into a yes. None: nothing but the periodic retry helps."""
        return ()

    def statistics(self) -> Mapping[str, int]:
        """What the plugin holds beyond the cycles of pods, in numbers."""
        return {}


class PreEnqueuePlugin(Plugin):
    """Asked before a pod enters the active queue."""

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """None lets the pod in; a rejection makes it wait for one of the plugin's events."""


class Narrowed(msgspec.Struct, frozen=True):
    """Only these nodes can be meant; the filters need not look at others."""

    nodes: frozenset[str]


class PreFilterPlugin(Plugin):
    """Asked once per cycle, before the nodes are looked at."""

    def skips(self, pod: PodInfo) -> bool:
        """Return True if `pre_filter` returns Skip for ``pod`` in any cluster."""
        return False

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | Narrowed | None:
        """None goes on; Skip takes the plugin's filter out of this cycle; a rejection ends it."""


class BatchFilterResult(msgspec.Struct, frozen=True):
    """Nodes of the snapshot about which a filter need not be asked."""

    passing: Set[NodeInfo] = frozenset()
    refused: Mapping[NodeInfo, Status] = msgspec.field(default_factory=dict)
    """Rejections, signed by the plugin."""


NO_BATCH_RESULT = BatchFilterResult()


class NodePredicate(msgspec.Struct, frozen=True):
    """A predicate over one node. Its result may depend only on the node, the pods on it, and ``key``.

    Results are kept for each node by the plugin's name and the key: everything of the pod that `holds` reads is in it.
    """

    key: Hashable
    holds: Callable[[NodeInfo], bool]
    lacking: frozenset[str] = frozenset()
    there: NodePredicate | None = None
    """The same where no node has any of the resources ``lacking``: pods share it that differ only in these."""


class NodeScore(msgspec.Struct, frozen=True):
    """A score of one node. It may depend only on the node, the pods on it, and ``key``, as `NodePredicate`."""

    key: Hashable
    of: Callable[[NodeInfo], int]


class FilterPlugin(Plugin):
    """Asked for every node, until the first refusal."""

    def predicate(self, pod: PodInfo) -> NodePredicate | None:
        """Return a condition under which `filter` lets a node pass; None: that depends on more than the node.

        The predicates of all plugins are evaluated together, once for each node that has changed and each key.
        """
        return None

    def filter_batch(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> BatchFilterResult:
        """What `filter` is known to answer, before it is asked about ``nodes`` of the snapshot one by one.

        What holds for many nodes is cheaper found out at once. The answer may speak of other nodes as well.
        """
        predicate = self.predicate(pod)
        if predicate is None:
            return NO_BATCH_RESULT
        key = self.name, predicate.key
        return BatchFilterResult(state.snapshot.nodes_that(key, predicate.holds, nodes))

    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """None accepts the node."""


class Nomination(msgspec.Struct, frozen=True):
    """The node on which room is being made for the pod; with "" an older nomination is withdrawn, and why."""

    node: str
    message: str = ""


class PostFilterPlugin(Plugin):
    """Asked when no node passed; may free something for the next attempt."""

    @abstractmethod
    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Status | Nomination:
        """What was done, or why nothing could be done."""


class ScorePlugin(Plugin):
    """Asked for all feasible nodes when there is more than one."""

    weight: int = 1
    silent_where: NodePredicate | None = None
    """The plugin has no opinion on any pod where this, which asks for nothing but a node's object, holds for all."""

    def is_silent(self, pod: PodInfo) -> bool:
        """Return True if the plugin has no opinion on ``pod`` in any cluster."""
        return False

    def node_score(self, pod: PodInfo) -> NodeScore | None:
        """Return what `score` returns for a node, whichever others there are; None: that depends on more than the node.

        The sum over all such plugins is kept for each node until it changes, by their names, weights and keys.
        """
        return None

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
        """One score from 0 to 100 per node, or None when the plugin has no opinion on this pod."""


class ReservePlugin(Plugin):
    """Told that the pod will go to a node, and told again if it does not."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Take hold, in memory, of what the pod needs there."""

    @abstractmethod
    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Let go again. Must work any number of times, and also when `reserve` was never called."""


class PermitPlugin(Plugin):
    """Has the last word on a pod of a PodGroup that could have a node."""

    @abstractmethod
    def permit(self, pod: PodInfo) -> Status | None:
        """None: the group may be bound as far as it has nodes; Wait: more of its pods need one first."""


class PreBindPlugin(Plugin):
    """Writes what must be in the API before the pod is bound."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Whether there is anything to do for this pod; if no plugin has, `pre_bind` and `settle` are not called."""
        return True

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """None when everything is written."""

    async def settle(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Wait, after all plugins have written, for what others must do before the pod can be bound."""
        return None


class BindPlugin(Plugin):
    """Binds the pod to its node."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """None when the pod is bound."""


class PostBindPlugin(Plugin):
    """Told that the pod is bound; too late for an answer."""

    @abstractmethod
    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Clean up what was written for the search."""


class PluginObserver(Protocol):
    """Hears which plugins ran at which extension points; points and outcomes in kube-scheduler's words."""

    monotonic: Callable[[], float]
    """Seconds that never run backwards."""

    def sampled(self, work: str) -> bool:
        """Whether plugins are to be measured in what begins now: a cycle, a pod's way into the queue, its permit."""
        ...

    def evaluated(self, plugins: tuple[str, ...], point: str, profile: str, times: int = 1) -> None:
        """Each of these plugins has judged a pod, or so many nodes for it."""
        ...

    def ran(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """A plugin has run."""
        ...

    def waited_for_devices(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """The binding conditions of a driver's devices came true (``success``), or how they did not."""
        ...


Notify = Callable[[ClusterEvent], None]
"""Tells the queue of a change."""


class InformedPlugin(Protocol):
    """A plugin that keeps state of its own from informers."""

    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Add handlers; called once, before the first pod is taken."""
        ...


class ClaimPlugin(Plugin):
    """The plugin that sees to the claims of pods, under the name DynamicResources. All profiles share one."""

    @abstractmethod
    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Add handlers; called once, before the first pod is taken."""

    @abstractmethod
    def backs(self, resource: str) -> bool:
        """Whether claims may provide the extended resource, so that nodes need not have it."""

    def usage(self) -> DeviceUsage:
        """What devices provide of extended resources at this moment, for scores."""
        return no_devices

    def observe(self, observer: PluginObserver) -> None:
        """Tell ``observer`` of waits for devices; a plugin that waits for none tells nothing."""
        return


def normalized(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    """The largest score becomes 100, or 0 if ``reverse``; the others follow in proportion, rounded down."""
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
