"""Pods for which room is being made: until they get it, others of lower priority must not take it."""

from __future__ import annotations

from collections.abc import Sequence

from cathedra.api.core.core_v1 import Pod
from cathedra.scheduler.state.pod_info import PodInfo

__all__ = ["Nominations"]


class Nominations:
    """Waiting pods by the node that preemption is clearing for them."""

    def __init__(self) -> None:
        self.node_of: dict[str, str] = {}
        """A pod's UID → its node. Mostly there are none, and who is about to ask for every pod looks here first."""
        self._on: dict[str, dict[str, PodInfo]] = {}

    def __len__(self) -> int:
        """How many pods are nominated."""
        return len(self.node_of)

    def set(self, pod: PodInfo, node: str) -> None:
        """``node`` is being cleared for ``pod``; "" takes an older nomination back."""
        self.remove(pod.uid)
        if node:
            self.node_of[pod.uid] = node
            self._on.setdefault(node, {})[pod.uid] = pod

    def update(self, old: Pod, new: PodInfo) -> None:
        """A waiting pod has a new version; its status decides, unless neither version has anything to say.

        An update without a nomination may arrive before the one that was decided on here has been written.
        """
        node = new.pod.status.nominated_node_name
        if not node and not old.status.nominated_node_name:
            node = self.node_of.get(new.uid, "")
        self.set(new, node)

    def remove(self, uid: str) -> None:
        """The pod is placed or gone."""
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
