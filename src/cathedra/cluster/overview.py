"""What a cluster has and who uses it: nodes with their devices, claims with what they got, pods with their claims.

A snapshot read through the client, as plain rows: the source of ``cathedra status`` and of the demo's last screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceAttribute, ResourceClaim, ResourceSlice
from cathedra.client.client import Client
from cathedra.client.resources import NODES, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.nodes import is_node_ready
from cathedra.semantics.podclaims import claim_names

__all__ = ["ClaimRow", "DeviceRow", "NodeRow", "Overview", "PodRow", "read_overview"]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node: whether it is ready, and how many of its devices are taken."""

    name: str
    ready: bool
    devices: int
    allocated: int


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device, what it says of itself, and the claims (``namespace/name``) that hold it."""

    node: str
    driver: str
    pool: str
    name: str
    attributes: dict[str, str]
    capacity: dict[str, str]
    claims: tuple[str, ...]


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

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form, versioned."""
        return {"apiVersion": "cathedra.dev/v1", "kind": "ClusterOverview"} | asdict(self)


async def read_overview(client: Client) -> Overview:
    """Read everything once."""
    nodes = (await client.resource(NODES).list()).items
    slices = (await client.resource(RESOURCESLICES).list()).items
    claims = (await client.resource(RESOURCECLAIMS).list()).items
    pods = (await client.resource(PODS).list()).items
    devices = sorted(_devices(slices, claims), key=lambda row: (row.node, row.driver, row.pool, row.name))
    total = Counter(row.node for row in devices)
    taken = Counter(row.node for row in devices if row.claims)
    return Overview(
        nodes=tuple(
            NodeRow(n.metadata.name, is_node_ready(n), total[n.metadata.name], taken[n.metadata.name])
            for n in sorted(nodes, key=lambda n: n.metadata.name)
        ),
        devices=tuple(devices),
        claims=tuple(sorted(map(_claim, claims), key=lambda row: (row.namespace, row.name))),
        pods=tuple(sorted(map(_pod, pods), key=lambda row: (row.namespace, row.name))),
    )


def _devices(slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim]) -> Iterator[DeviceRow]:
    holders: dict[tuple[str, str, str], list[str]] = {}
    for claim in claims:
        for result in _results(claim):
            holders.setdefault(result, []).append(f"{claim.metadata.namespace}/{claim.metadata.name}")
    for part in slices:
        spec = part.spec
        for device in spec.devices:
            key = (spec.driver, spec.pool.name, device.name)
            yield DeviceRow(
                node=spec.node_name or device.node_name or "",
                driver=spec.driver,
                pool=spec.pool.name,
                name=device.name,
                attributes={name: _attribute_text(value) for name, value in sorted(device.attributes.items())},
                capacity={name: str(amount.value) for name, amount in sorted(device.capacity.items())},
                claims=tuple(holders.get(key, ())),
            )


def _attribute_text(attribute: DeviceAttribute) -> str:
    values = (attribute.string, attribute.version, attribute.int_, attribute.bool_)
    scalar = next((value for value in values if value is not None), None)
    if scalar is not None:
        return str(scalar).lower() if isinstance(scalar, bool) else str(scalar)
    several = attribute.strings or attribute.versions or attribute.ints or attribute.bools
    return ",".join(map(str, several))


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


def _pod(pod: Pod) -> PodRow:
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    why = scheduled.message if scheduled is not None and scheduled.status == "False" else ""
    return PodRow(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        phase=pod.status.phase,
        node=pod.spec.node_name,
        claims=tuple(claim_names(pod)),
        why=why if pod.status.phase == "Pending" else "",
    )
