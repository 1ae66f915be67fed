"""Cache of nodes and pods: the API's state, plus the pods that are being bound; and nominations.

A pod is *assumed* on its node as soon as a cycle has chosen it, so that the next cycle counts it although its binding
is not written yet. The informer's event confirms it; a failed binding drops it.

A nominated pod is one for which room is being made. Until it gets it, pods of lower priority must not take it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cathedra.allocation.supply.snapshots import Changelog
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot, zone_by_zone


class Cache:
    """All nodes, and all pods that have or are about to get one."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._changes: Changelog[NodeInfo] = Changelog()
        self._object_changes: Changelog[NodeInfo] = Changelog()
        self._known: dict[str, None] = {}
        self._places: dict[str, str] = {}
        self._assumed: set[str] = set()
        self._with_affinity: dict[str, int] = {}
        self._snapshot: Snapshot | None = None

    # --- nodes

    def set_node(self, node: Node) -> None:
        """Add a node, or take over its new version."""
        name = node.metadata.name
        info = self._nodes.get(name)
        if info is None:
            info = self._nodes[name] = NodeInfo(name=name, changes=self._changes)
        # The order of search depends on names and zones, so only these changes need a new snapshot.
        moved = name not in self._known or info.node.metadata.labels != node.metadata.labels
        info.set_node(node)
        self._object_changes.note(info)
        self._known[name] = None
        if moved:
            self._snapshot = None

    def remove_node(self, name: str) -> None:
        """Forget a node. Pods on it are remembered until they go too."""
        info = self._nodes.get(name)
        if info is None or name not in self._known:
            return
        del self._known[name]
        self._snapshot = None
        if not info.pods:
            del self._nodes[name]

    def node(self, name: str) -> NodeInfo | None:
        """Return the node of that name, or None if it does not exist."""
        return self._nodes[name] if name in self._known else None

    # --- pods

    def add_pod(self, pod: Pod) -> None:
        """Add a pod that has a node, or confirm an assumed one."""
        uid = pod.metadata.uid
        place = self._places.get(uid)
        if place is not None:
            self._assumed.discard(uid)
            info = self._nodes[place]
            later = info.pods[uid].taking_the_same(pod) if pod.spec.node_name == place else None
            if later is not None:
                # Most updates of a running pod change its status only. The generation of the node stays, so that
                # results about the node are not computed again for each of them.
                info.renew(later)
                return
            self._take(uid)
        self._put(PodInfo(pod))

    def remove_pod(self, uid: str) -> None:
        """Remove a pod that has gone."""
        self._assumed.discard(uid)
        self._take(uid)

    def assume(self, pod: PodInfo) -> None:
        """Count ``pod`` on the node that its spec names, before the binding is written."""
        self._put(pod)
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> None:
        """Take back an assumption; a pod that has been confirmed meanwhile stays."""
        if uid in self._assumed:
            self._assumed.discard(uid)
            self._take(uid)

    def is_assumed(self, uid: str) -> bool:
        """Return True if the pod is counted although the API does not have its binding yet."""
        return uid in self._assumed

    def place_of(self, uid: str) -> str | None:
        """Return the name of the node on which the pod is counted, or None."""
        return self._places.get(uid)

    def __len__(self) -> int:
        """Return the number of pods that are counted."""
        return len(self._places)

    def statistics(self) -> dict[str, int]:
        """Return the numbers of nodes, of pods counted on them, and of those that are only assumed there."""
        return {"nodes": len(self._known), "counted": len(self._places), "assumed": len(self._assumed)}

    # --- views

    def snapshot(self) -> Snapshot:
        """Return the nodes as they are now, for one cycle."""
        if self._snapshot is None:
            nodes = zone_by_zone(self._nodes[name] for name in self._known)
            self._snapshot = Snapshot.of(nodes, self._with_affinity, self._changes, self._object_changes)
        return self._snapshot

    def _put(self, pod: PodInfo) -> None:
        name = pod.pod.spec.node_name
        info = self._nodes.get(name)
        if info is None:
            info = self._nodes[name] = NodeInfo(name=name, changes=self._changes)
        info.add(pod)
        self._places[pod.uid] = name
        if pod.has_affinity:
            self._with_affinity[name] = self._with_affinity.get(name, 0) + 1

    def _take(self, uid: str) -> None:
        name = self._places.pop(uid, None)
        if name is None:
            return
        info = self._nodes[name]
        pod = info.remove(uid)
        if pod is not None and pod.has_affinity:
            left = self._with_affinity[name] - 1
            if left:
                self._with_affinity[name] = left
            else:
                del self._with_affinity[name]
        if not info.pods and name not in self._known:
            del self._nodes[name]


# --- nominations


class Nominations:
    """Waiting pods by the node that preemption is clearing for them."""

    def __init__(self) -> None:
        self.node_of: dict[str, str] = {}
        """A pod's UID → its node. Mostly it is empty, so callers on hot paths test it first."""
        self._on: dict[str, dict[str, PodInfo]] = {}

    def __len__(self) -> int:
        """Return the number of nominated pods."""
        return len(self.node_of)

    def of(self, pod: PodInfo) -> str:
        """Return the node that is being cleared for ``pod``; "" if there is none.

        A pod is often tried again before its status names the node: the write of the nomination is not awaited.
        """
        return self.node_of.get(pod.uid) or pod.pod.status.nominated_node_name

    def set(self, pod: PodInfo, node: str) -> None:
        """``node`` is being cleared for ``pod``; "" takes an older nomination back."""
        self.remove(pod.uid)
        if node:
            self.node_of[pod.uid] = node
            self._on.setdefault(node, {})[pod.uid] = pod

    def update(self, old: Pod, new: PodInfo) -> None:
        """Handle a new version of a waiting pod. Its status decides, unless neither version has a nomination.

        An update without a nomination may arrive before the one that was decided here has been written.
        """
        node = new.pod.status.nominated_node_name
        if not node and not old.status.nominated_node_name:
            node = self.node_of.get(new.uid, "")
        self.set(new, node)

    def remove(self, uid: str) -> None:
        """Remove the nomination of a pod that is placed or gone."""
        node = self.node_of.pop(uid, None) if self.node_of else None
        if node is not None:
            del self._on[node][uid]
            if not self._on[node]:
                del self._on[node]

    def ahead_of(self, pod: PodInfo, node: str) -> Sequence[PodInfo]:
        """Pods that have a claim on ``node`` which ``pod`` must respect: those of equal or higher priority."""
        waiting = self._on.get(node)
        if not waiting:
            return ()
        return [other for other in waiting.values() if other.priority >= pod.priority and other.uid != pod.uid]

    def behind(self, pod: PodInfo, node: str) -> Sequence[PodInfo]:
        """Pods of lower priority that are nominated for ``node``."""
        return [other for other in self._on.get(node, {}).values() if other.priority < pod.priority]
