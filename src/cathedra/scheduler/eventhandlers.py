"""Event handlers: informer events change the cache and wake pods in the queue.

Handlers are called in the order of events. Each first updates the cache and then wakes pods, so a pod that is tried at
once sees the change (docs/spec/scheduling.md §3).
"""

from __future__ import annotations

from collections.abc import Container

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.struct import replace
from cathedra.api.undecodable import Undecodable, rest_of
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import COMPOSITEPODGROUPS, NODES, PODGROUPS, PODS
from cathedra.scheduler.configuration.document import DEFAULT_SCHEDULER
from cathedra.scheduler.framework.events import Action, EventResource
from cathedra.scheduler.queue.queue import SchedulingQueue, pod_actions
from cathedra.scheduler.state.cache import Cache, Nominations
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.semantics.pods import is_terminal

_ASSIGNED_POD, _UNSCHEDULED_POD = EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD
_ADD, _DELETE = Action.ADD, Action.DELETE
"""Read for every event of a pod; reading them off their class takes 0.5 µs."""


class EventHandlers:
    """Follows pods and nodes for the schedulers of some names."""

    def __init__(
        self, cache: Cache, queue: SchedulingQueue, nominations: Nominations, scheduler_names: Container[str]
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._nominations = nominations
        self._scheduler_names = scheduler_names

    def listen(self, informers: SharedInformers, *, groups: bool = False, composites: bool = False) -> None:
        """Register handlers for nodes, pods and pod groups. Nodes come first, so that pods find the node that they are
        on."""
        if groups:
            informers.of(PODGROUPS).add_handler(self.group_added, self.group_updated)
        if composites:
            informers.of(COMPOSITEPODGROUPS).add_handler(self.composite_added, self.composite_updated)
        informers.of(NODES).add_handler(self.node_added, self.node_updated, self.node_deleted)
        informers.of(PODS).add_handler(
            self.pod_added,
            self.pod_updated,
            self.pod_deleted,
            on_undecodable=self.pod_undecodable,
            on_resolved=self.pod_resolved,
        )

    # --- groups

    def group_added(self, group: PodGroup) -> None:
        """Handle a new group."""
        self._queue.move(EventResource.POD_GROUP, Action.ADD, None, group)

    def group_updated(self, old: PodGroup, new: PodGroup) -> None:
        """Handle a changed group; its claims may have been made."""
        self._queue.move(EventResource.POD_GROUP, Action.UPDATE, old, new)

    def composite_added(self, group: CompositePodGroup) -> None:
        """Handle a new group of groups."""
        self._queue.move(EventResource.COMPOSITE_POD_GROUP, Action.ADD, None, group)

    def composite_updated(self, old: CompositePodGroup, new: CompositePodGroup) -> None:
        """Handle a changed group of groups."""
        self._queue.move(EventResource.COMPOSITE_POD_GROUP, Action.UPDATE, old, new)

    # --- nodes

    def node_added(self, node: Node) -> None:
        """Handle a new node."""
        self._cache.set_node(node)
        self._queue.move(EventResource.NODE, Action.ADD, None, node)

    def node_updated(self, old: Node, new: Node) -> None:
        """Handle a changed node; a heartbeat wakes no pod."""
        actions = node_actions(old, new)
        self._cache.set_node(new)
        if actions:
            self._queue.move(EventResource.NODE, actions, old, new)

    def node_deleted(self, node: Node) -> None:
        """Handle a node that has gone."""
        self._cache.remove_node(node.metadata.name)
        self._queue.move(EventResource.NODE, Action.DELETE, node, None)

    # --- pods

    def pod_added(self, pod: Pod) -> None:
        """Handle a new pod: with a node it takes room, without one it waits."""
        if is_terminal(pod):
            return
        if pod.spec.node_name:
            self._occupies(pod, Action.ADD, None)
        elif self._is_ours(pod):
            if pod.status.nominated_node_name:
                self._nominations.set(PodInfo(pod), pod.status.nominated_node_name)
            self._queue.add(pod)
            self._queue.move(_UNSCHEDULED_POD, _ADD, None, pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Handle a pod that has changed, been bound or finished."""
        if is_terminal(new):
            if not is_terminal(old):
                self.pod_deleted(old)
            return
        if not new.spec.node_name:
            self._waiting_pod_updated(old, new)
        elif old.spec.node_name:
            self._occupies(new, pod_actions(old, new), old)
        else:
            self._queue.delete(new.metadata.uid)
            self._nominations.remove(new.metadata.uid)
            self._occupies(new, _ADD, None)

    def pod_deleted(self, pod: Pod) -> None:
        """Handle a deleted pod: its resources are free."""
        if is_terminal(pod):
            return
        if pod.spec.node_name:
            self._cache.remove_pod(pod.metadata.uid)
            self._queue.move(_ASSIGNED_POD, _DELETE, pod, None)
            return
        self._queue.delete(pod.metadata.uid)
        self._nominations.remove(pod.metadata.uid)
        if self._cache.is_assumed(pod.metadata.uid):
            self._assumption_ends(pod)
        elif pod.status.nominated_node_name:
            self._nomination_ends(pod)

    def pod_undecodable(self, what: Undecodable) -> None:
        """Handle a pod that cannot be decoded: it is not scheduled, and on a node it takes the room that is known of
        it.

        That is the room of its last known state, else of what can be read of it. The node's own admission has the last
        word, as it has for pods that bypass the scheduler.
        """
        self._queue.delete(what.uid)
        self._nominations.remove(what.uid)
        read = _readable(what)
        if read is None:
            return
        place = self._cache.place_of(what.uid)
        if is_terminal(read):
            self._frees(read)
        elif place is None and read.spec.node_name:
            self._occupies(read, _ADD, None)

    def pod_resolved(self, what: Undecodable, now: Pod | None) -> None:
        """Handle a pod that could not be decoded and has gone, or is reported as added next."""
        if now is None or is_terminal(now) or not now.spec.node_name:
            read = now or _readable(what)
            if read is not None:
                self._frees(read)

    def _frees(self, pod: Pod) -> None:
        if self._cache.place_of(pod.metadata.uid) is None:
            return
        self._cache.remove_pod(pod.metadata.uid)
        self._queue.move(_ASSIGNED_POD, _DELETE, pod, None)

    def _occupies(self, pod: Pod, actions: Action, old: Pod | None) -> None:
        self._cache.add_pod(pod)
        self._queue.move(_ASSIGNED_POD, actions, old, pod)

    def _waiting_pod_updated(self, old: Pod, new: Pod) -> None:
        if not self._is_ours(new):
            return
        if self._cache.is_assumed(new.metadata.uid):
            if new.metadata.deletion_timestamp is not None and old.metadata.deletion_timestamp is None:
                self._assumption_ends(new)
            return
        if self._nominations.node_of or old.status.nominated_node_name or new.status.nominated_node_name:
            self._nominations.update(old, PodInfo(new))
        self._queue.update(old, new)
        if old.status.nominated_node_name not in ("", new.status.nominated_node_name):
            self._nomination_ends(old)

    def _assumption_ends(self, pod: Pod) -> None:
        """Handle the deletion of a pod on its way to a node: its binding will fail, and its place is free at once."""
        self._cache.forget(pod.metadata.uid)
        self._queue.move(EventResource.ASSIGNED_POD, Action.DELETE, pod, None)

    def _nomination_ends(self, pod: Pod) -> None:
        """Pods of lower or equal priority treated ``pod`` as if it had been on its node."""
        self._queue.move(_ASSIGNED_POD, _DELETE, pod, None, up_to_priority=PodInfo(pod).priority)

    def _is_ours(self, pod: Pod) -> bool:
        return (pod.spec.scheduler_name or DEFAULT_SCHEDULER) in self._scheduler_names


def _readable(what: Undecodable) -> Pod | None:
    """Return a pod without the values that cannot be decoded; None if it cannot be identified."""
    if not what.uid:
        return None
    rest, _ = rest_of(Pod, what)
    pod = rest or Pod(metadata=ObjectMeta(namespace=what.namespace, name=what.name, uid=what.uid))
    spec = (what.values or {}).get("spec")
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    return replace(pod, spec=replace(pod.spec, node_name=node)) if isinstance(node, str) else pod


def node_actions(old: Node, new: Node) -> Action:
    """Return the differences between two versions of a node, as the actions for which plugins register."""
    actions = Action(0)
    if old.metadata.labels != new.metadata.labels:
        actions |= Action.UPDATE_NODE_LABEL
    if old.status.allocatable != new.status.allocatable:
        actions |= Action.UPDATE_NODE_ALLOCATABLE
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        actions |= Action.UPDATE_NODE_TAINT
    return actions
