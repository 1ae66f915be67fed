"""Admission of pods that are bound to the node (docs/spec/node.md §17.1).

The scheduler may have been wrong, or may not have been involved. Checks, reasons and texts are the kubelet's. The Node
is read for the first pod; before a pod is rejected it is read again, because labels and taints of a node change in its
first seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from cathedra.api.core.core_v1 import ContainerPort, Node, Pod
from cathedra.api.selectors import SelectorError, node_selector_matches
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import NODES
from cathedra.node.resources import pod_requests
from cathedra.releases import FeatureGates
from cathedra.semantics.pods import long_running_containers
from cathedra.semantics.tolerations import first_untolerated

_MILLI: Final = 10**6
_NANO: Final = 10**9
_ANY: Final = "0.0.0.0"
_LOG = logging.getLogger(__name__)


class Rejection(NamedTuple):
    """Reason and message of a pod that is not admitted."""

    reason: str
    message: str


class PodAdmission:
    """Admits pods to one node."""

    def __init__(self, client: Client, node_name: str, gates: FeatureGates) -> None:
        self._nodes = client.resource(NODES)
        self._name = node_name
        self._gates = gates
        self._node: Node | None = None

    async def check(self, pod: Pod, others: Callable[[], Iterable[Pod]]) -> Rejection | None:
        """Return the reason not to admit ``pod`` beside ``others``; None if it is admitted.

        If the Node cannot be read, the pod is admitted.
        """
        # The cached Node may be outdated; a rejection is final, so it is only made by a fresh one.
        if self._node is None or self._rejection(pod, others) is not None:
            await self._look()
        return self._rejection(pod, others)

    def _rejection(self, pod: Pod, others: Callable[[], Iterable[Pod]]) -> Rejection | None:
        return rejection(pod, self._node, tuple(others()), self._gates) if self._node is not None else None

    async def _look(self) -> None:
        try:
            self._node = await self._nodes.get(self._name)
        except (StatusError, ConnectionError) as error:
            _LOG.info("node %s cannot be read, pods are admitted unseen: %s", self._name, error)


def rejection(pod: Pod, node: Node, others: Iterable[Pod], gates: FeatureGates) -> Rejection | None:
    """Return the first reason why ``node`` cannot run ``pod`` beside ``others``."""
    others = tuple(others)
    system = pod.spec.os.name if pod.spec.os is not None else "linux"
    if system != "linux":
        return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    short = next(_insufficient(pod, node, others, gates), None)
    if short is not None:
        return short
    if not _wants(pod, node):
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if _port_clash(pod, others):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    # NoSchedule does not count here: pods that name their node, as daemon pods did, have skipped the scheduler on
    # purpose.
    if first_untolerated(node.spec.taints, pod.spec.tolerations, {"NoExecute"}) is not None:
        return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _failed(predicate: str, description: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {description}")


def _insufficient(pod: Pod, node: Node, others: tuple[Pod, ...], gates: FeatureGates) -> Iterator[Rejection]:
    allocatable = node.status.allocatable
    room = allocatable.get("pods")
    if room is not None and len(others) + 1 > room.value():
        yield _short("pods", 1, len(others), room.value())
    wanted = pod_requests(pod, gates)
    by_devices = _served_by_devices(pod, gates)
    used = [pod_requests(other, gates) for other in others]
    # In a fixed order, since only the first shortage is reported.
    for name in sorted(wanted, key=_rank):
        have = allocatable.get(name)
        # What the node does not have at all is a cluster-wide resource, or served by a claim.
        if not wanted[name] or name in by_devices or have is None:
            continue
        taken = sum(amounts.get(name, 0) for amounts in used)
        if wanted[name] + taken > have.nanos:
            unit = _MILLI if name == "cpu" else _NANO
            yield _short(name, -(-wanted[name] // unit), -(-taken // unit), have.nanos // unit)


def _short(resource: str, requested: int, used: int, capacity: int) -> Rejection:
    message = (
        f"Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    )
    return Rejection(f"OutOf{resource}", message)


def _rank(resource: str) -> tuple[int, str]:
    first = ("cpu", "memory", "ephemeral-storage")
    return (first.index(resource) if resource in first else len(first), resource)


def _served_by_devices(pod: Pod, gates: FeatureGates) -> set[str]:
    status = pod.status.extended_resource_claim_status
    if status is None or not gates["DRAExtendedResource"]:
        return set()
    return {mapping.resource_name for mapping in status.request_mappings}


def _wants(pod: Pod, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return True
    try:
        return node_selector_matches(required, node)
    except SelectorError:
        return False


def _host_ports(pod: Pod) -> Iterator[tuple[str, str, int]]:
    for port in _ports(pod):
        if port.host_port:
            yield port.host_ip or _ANY, port.protocol or "TCP", port.host_port


def _ports(pod: Pod) -> Iterator[ContainerPort]:
    for container in long_running_containers(pod):
        yield from container.ports


def _port_clash(pod: Pod, others: tuple[Pod, ...]) -> bool:
    """Return True if a host port is taken: on the same address, or on all addresses on either side."""
    taken = [port for other in others for port in _host_ports(other)]
    return any(
        (protocol, number) == (other_protocol, other_number) and (address == other or _ANY in (address, other))
        for address, protocol, number in _host_ports(pod)
        for other, other_protocol, other_number in taken
    )
