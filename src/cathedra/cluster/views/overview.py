"""What a cluster has and who uses it: nodes with their devices, claims with what they got, pods with their claims.

A snapshot read through the client, as plain rows: the source of ``cathedra status`` and of the demo's last screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from cathedra.allocation.supply.merging import merged_rules
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.resource import ResourceClaim
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    EVENTS,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
)
from cathedra.client.transport import ResourceRef
from cathedra.cluster.views.devicestates import DeviceRow, device_rows
from cathedra.cluster.views.waiting import Surroundings, why_waiting
from cathedra.cluster.views.wording import counted
from cathedra.releases import FeatureGates
from cathedra.semantics.nodes import is_node_ready
from cathedra.semantics.podclaims import claim_names

__all__ = ["ClaimRow", "NodeRow", "Overview", "PodRow", "read_overview"]

T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node: whether it is ready, and how many of its devices are held by claims, kept from them, or free."""

    name: str
    ready: bool
    devices: int
    allocated: int
    """Held by claims, whole or in shares."""
    blocked: int
    """Without the counters that they need, or in a pool that is being updated."""
    tainted: int
    free: int


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim, its state as kubectl shows it, its devices and the pods it is reserved for."""

    namespace: str
    name: str
    state: str
    devices: tuple[str, ...]
    reserved_for: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod: where it is, how it does, which claims it uses; and why it waits, if it does."""

    namespace: str
    name: str
    phase: str
    node: str
    claims: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Overview:
    """All rows, each kind sorted by name."""

    nodes: tuple[NodeRow, ...]
    devices: tuple[DeviceRow, ...]
    claims: tuple[ClaimRow, ...]
    pods: tuple[PodRow, ...]

    def of_namespace(self, namespace: str) -> Overview:
        """The same with the claims and pods of one namespace only; "" keeps all."""
        if not namespace:
            return self
        return replace(
            self,
            claims=tuple(row for row in self.claims if row.namespace == namespace),
            pods=tuple(row for row in self.pods if row.namespace == namespace),
        )

    def totals(self) -> str:
        """Everything counted, in one line."""
        ready = sum(node.ready for node in self.nodes)
        devices = Counter(row.state for row in self.devices)
        phases = Counter(row.phase for row in self.pods)
        allocated = sum(row.state.startswith("allocated") for row in self.claims)
        parts = (
            f"{ready} of {counted(len(self.nodes), 'node')} ready",
            counted(len(self.devices), "device") + _by_state(devices),
            f"{counted(len(self.claims), 'claim')}, {allocated} allocated",
            counted(len(self.pods), "pod") + _by_state(phases),
        )
        return "; ".join(parts)

    def to_json(self) -> JSONObject:
        """The machine-readable form, versioned."""
        return {"apiVersion": "cathedra.dev/v1", "kind": "ClusterOverview"} | asdict(self)


async def read_overview(client: Client, gates: FeatureGates) -> Overview:
    """Read everything once; ``gates`` are the cluster's."""
    around = await _read_surroundings(client, gates)
    pods = (await client.resource(PODS).list()).items
    devices = sorted(device_rows(around), key=lambda row: (row.node, row.driver, row.pool, row.name))
    counts = {name: Counter(row.state for row in rows) for name, rows in _by_node(devices).items()}
    cluster = around.allocator_view()
    return Overview(
        nodes=tuple(
            _node(node, counts.get(node.metadata.name, Counter()))
            for node in sorted(around.nodes, key=lambda node: node.metadata.name)
        ),
        devices=tuple(devices),
        claims=tuple(sorted(map(_claim, around.claims), key=lambda row: (row.namespace, row.name))),
        pods=tuple(
            sorted(
                (_pod(pod, why_waiting(pod, around, cluster)) for pod in pods),
                key=lambda row: (row.namespace, row.name),
            )
        ),
    )


async def _read_surroundings(client: Client, gates: FeatureGates) -> Surroundings:
    classes = await _listed(client, DEVICECLASSES)
    slices, rules = merged_rules(
        await _listed(client, RESOURCESLICES), await _listed(client, DEVICETAINTRULES), classes
    )
    return Surroundings(
        nodes=tuple((await client.resource(NODES).list()).items),
        slices=tuple(slices),
        classes=classes,
        claims=await _listed(client, RESOURCECLAIMS),
        templates=await _listed(client, RESOURCECLAIMTEMPLATES),
        rules=tuple(rules),
        warnings=tuple((await client.resource(EVENTS).list(field_selector="type=Warning")).items),
        gates=gates,
    )


async def _listed(client: Client, ref: ResourceRef[T]) -> tuple[T, ...]:
    """All objects of a kind; none where the server does not serve it."""
    try:
        return tuple((await client.resource(ref).list()).items)
    except StatusError as error:
        if not error.is_not_found:
            raise
        return ()


def _by_node(devices: Iterable[DeviceRow]) -> dict[str, list[DeviceRow]]:
    found: dict[str, list[DeviceRow]] = {}
    for row in devices:
        found.setdefault(row.node, []).append(row)
    return found


def _node(node: Node, states: Counter[str]) -> NodeRow:
    return NodeRow(
        name=node.metadata.name,
        ready=is_node_ready(node),
        devices=states.total(),
        allocated=states["allocated"] + states["shared"],
        blocked=states["blocked"] + states["unusable"],
        tainted=states["tainted"],
        free=states["free"],
    )


def _by_state(counts: Counter[str]) -> str:
    return f": {', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}" if counts else ""


def _results(claim: ResourceClaim) -> Iterator[tuple[str, str, str]]:
    if claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            yield result.driver, result.pool, result.device


def _claim(claim: ResourceClaim) -> ClaimRow:
    allocated = claim.status.allocation is not None
    states = [
        word
        for word, holds in (
            ("deleted", claim.metadata.deletion_timestamp is not None),
            ("pending", not allocated and claim.metadata.deletion_timestamp is None),
            ("allocated", allocated),
            ("reserved", allocated and bool(claim.status.reserved_for)),
        )
        if holds
    ]
    return ClaimRow(
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        state=",".join(states),
        devices=tuple("/".join(result) for result in _results(claim)),
        reserved_for=tuple(consumer.name for consumer in claim.status.reserved_for),
    )


def _pod(pod: Pod, why: str) -> PodRow:
    return PodRow(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        phase=pod.status.phase,
        node=pod.spec.node_name,
        claims=tuple(claim_names(pod)),
        why=why,
    )
