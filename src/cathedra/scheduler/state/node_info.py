"""A node and the pods on it, with their sums kept up to date.

Adding or removing a pod costs that pod's resources, and reading a sum costs nothing: filters read them for every node
and every pod.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cathedra.allocation.supply.snapshots import Changelog
from cathedra.api.core.core_v1 import Node, Taint
from cathedra.api.selectors import Selector
from cathedra.scheduler.state.pod_info import Amounts, PodInfo, amounts
from cathedra.semantics.tolerations import HARD_EFFECTS

_ANY_ADDRESS = "0.0.0.0"


MOST_REMEMBERED: Final = 64
"""Largest number of selectors whose counts are cached per node."""


class NodeInfo:
    """A node with its pods, the assumed ones included. Only the cache changes it."""

    __slots__ = (
        "alike",
        "allocatable",
        "changes",
        "generation",
        "hard_taints",
        "image_sizes",
        "name",
        "node",
        "order",
        "pods",
        "ports",
        "requested",
        "scoring_cpu",
        "scoring_memory",
        "soft_taints",
        "unschedulable",
        "zone",
    )

    def __init__(self, node: Node | None = None, name: str = "", *, changes: Changelog[NodeInfo] | None = None) -> None:
        """``changes`` is called for every change of the node or of the resources that its pods take."""
        self.name = name
        self.changes = changes
        self.node = Node()
        self.pods: dict[str, PodInfo] = {}
        self.order: list[str] = []
        """UIDs in the order in which kube-scheduler keeps its pods: the last one fills the gap of one that goes."""
        self.requested: Amounts = {}
        self.scoring_cpu = 0
        self.scoring_memory = 0
        self.alike: dict[tuple[str, Selector], int] = {}
        """Results of `selected` for the present pods."""
        self.ports: dict[tuple[str, str, int], int] = {}
        self.allocatable: Amounts = {}
        self.hard_taints: tuple[Taint, ...] = ()
        self.soft_taints: tuple[Taint, ...] = ()
        self.unschedulable = False
        self.image_sizes: dict[str, int] = {}
        self.zone = ""
        """Region and zone; "" if the labels have neither."""
        self.generation = 0
        """Grows with every change; equal generations mean an equal node with equal pods."""
        if node is not None:
            self.set_node(node)

    def set_node(self, node: Node) -> None:
        """Take over a new version of the node itself."""
        self.name = node.metadata.name
        self.node = node
        self.allocatable = amounts(node.status.allocatable)
        self.unschedulable = bool(node.spec.unschedulable)
        taints = node.spec.taints
        self.hard_taints = tuple(taint for taint in taints if taint.effect in HARD_EFFECTS)
        self.soft_taints = tuple(taint for taint in taints if taint.effect == "PreferNoSchedule")
        self.image_sizes = {name: image.size_bytes for image in node.status.images for name in image.names}
        self.zone = _zone(node)
        self._changed()

    def add(self, pod: PodInfo) -> None:
        """Put ``pod`` on the node."""
        self.pods[pod.uid] = pod
        self.order.append(pod.uid)
        self._count(pod, 1)

    def renew(self, pod: PodInfo) -> None:
        """Replace a pod on the node by a new version with equal requests."""
        # kube-scheduler removes and adds an updated pod, which moves it to the end. The order decides between equal
        # victims, so it is imitated.
        if self.order[-1] != pod.uid:
            self._leave_order(pod.uid)
            self.order.append(pod.uid)
        old = self.pods[pod.uid].pod.metadata
        new = pod.pod.metadata
        self.pods[pod.uid] = pod
        # All else that results about nodes read of a pod has stayed. Without this a pod that is being deleted, or that
        # got other labels, would be counted as before.
        if old.labels != new.labels or (old.deletion_timestamp is None) != (new.deletion_timestamp is None):
            self._changed()

    def remove(self, uid: str) -> PodInfo | None:
        """Take a pod off the node; None if it was not there."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._leave_order(uid)
            self._count(pod, -1)
        return pod

    def pods_in_order(self) -> list[PodInfo]:
        """Return the pods as kube-scheduler would list them, which decides between victims that are alike."""
        return [self.pods[uid] for uid in self.order]

    def selected(self, namespace: str, selector: Selector) -> int:
        """Return the number of pods of a namespace that a selector matches, without those that are being deleted."""
        known = self.alike.get((namespace, selector))
        if known is not None:
            return known
        if len(self.alike) >= MOST_REMEMBERED:
            self.alike.clear()
        count = sum(
            pod.namespace == namespace
            and pod.pod.metadata.deletion_timestamp is None
            and selector.matches(pod.pod.metadata.labels)
            for pod in self.pods.values()
        )
        self.alike[namespace, selector] = count
        return count

    def copy(self) -> NodeInfo:
        """Return a copy that can be changed to try something out."""
        # Without `changes`: a copy that is tried out must not invalidate results about the real node.
        made = NodeInfo(self.node)
        made.name = self.name
        made.pods = dict(self.pods)
        made.order = list(self.order)
        made.requested = dict(self.requested)
        made.scoring_cpu, made.scoring_memory = self.scoring_cpu, self.scoring_memory
        made.ports = dict(self.ports)
        made.generation = self.generation
        return made

    def _leave_order(self, uid: str) -> None:
        last = self.order.pop()
        if last != uid:
            self.order[self.order.index(uid)] = last

    def _count(self, pod: PodInfo, sign: int) -> None:
        requested = self.requested
        for name, amount in pod.requests.items():
            requested[name] = requested.get(name, 0) + sign * amount
        cpu, memory = pod.scoring_requests
        self.scoring_cpu += sign * cpu
        self.scoring_memory += sign * memory
        for port in pod.host_ports:
            left = self.ports.get(port, 0) + sign
            if left:
                self.ports[port] = left
            else:
                del self.ports[port]
        self._changed()

    def _changed(self) -> None:
        self.generation += 1
        self.alike.clear()
        if self.changes is not None:
            self.changes.note(self)


def _zone(node: Node) -> str:
    labels = node.metadata.labels
    region = labels.get("topology.kubernetes.io/region", labels.get("failure-domain.beta.kubernetes.io/region", ""))
    zone = labels.get("topology.kubernetes.io/zone", labels.get("failure-domain.beta.kubernetes.io/zone", ""))
    return f"{region}:\x00:{zone}" if region or zone else ""


def ports_conflict(wanted: Iterable[tuple[str, str, int]], used: Iterable[tuple[str, str, int]]) -> bool:
    """Return True if some wanted port is taken; the wildcard address conflicts with every other."""
    taken: dict[tuple[str, int], set[str]] = {}
    for address, protocol, port in used:
        taken.setdefault((protocol, port), set()).add(address)
    for address, protocol, port in wanted:
        holders = taken.get((protocol, port))
        if holders and (address == _ANY_ADDRESS or address in holders or _ANY_ADDRESS in holders):
            return True
    return False
