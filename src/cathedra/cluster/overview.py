"""What a cluster has and who uses it: nodes with their devices, claims with what they got, pods with their claims.

A snapshot read through the client, as plain rows: the source of ``cathedra status`` and of the demo's last screen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.quantity import Quantity
from cathedra.api.resource import Device, DeviceAttribute, DeviceTaintRule, ResourceClaim, ResourceSlice
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
from cathedra.cluster.waiting import Surroundings, why_waiting
from cathedra.semantics.nodes import is_node_ready
from cathedra.semantics.podclaims import claim_names

__all__ = ["ClaimRow", "DeviceRow", "NodeRow", "Overview", "PodRow", "device_rows", "read_overview"]

DeviceKey: TypeAlias = tuple[str, str, str]
"""Driver, pool, device."""
CounterKey: TypeAlias = tuple[str, str, str, str]
"""Driver, pool, counter set, counter."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node: whether it is ready, and how many of its devices are taken, blocked by others, or free."""

    name: str
    ready: bool
    devices: int
    allocated: int
    blocked: int
    free: int


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device, what it says of itself, its state, and the claims (``namespace/name``) that hold it.

    ``state`` is ``allocated``, ``blocked`` (it needs counters that allocated devices have used up), ``tainted`` (no pod
    without a toleration gets it), or ``free``.
    """

    node: str
    driver: str
    pool: str
    name: str
    attributes: dict[str, str]
    capacity: dict[str, str]
    claims: tuple[str, ...]
    state: str


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
            f"{ready} of {len(self.nodes)} nodes ready",
            f"{len(self.devices)} devices" + _counted(devices),
            f"{len(self.claims)} claims, {allocated} allocated",
            f"{len(self.pods)} pods" + _counted(phases),
        )
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The machine-readable form, versioned."""
        return {"apiVersion": "cathedra.dev/v1", "kind": "ClusterOverview"} | asdict(self)


async def read_overview(client: Client) -> Overview:
    """Read everything once."""
    around = await _read_surroundings(client)
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


async def _read_surroundings(client: Client) -> Surroundings:
    return Surroundings(
        nodes=tuple((await client.resource(NODES).list()).items),
        slices=tuple((await client.resource(RESOURCESLICES).list()).items),
        classes=tuple((await client.resource(DEVICECLASSES).list()).items),
        claims=tuple((await client.resource(RESOURCECLAIMS).list()).items),
        templates=tuple((await client.resource(RESOURCECLAIMTEMPLATES).list()).items),
        rules=await _taint_rules(client),
        warnings=tuple((await client.resource(EVENTS).list(field_selector="type=Warning")).items),
    )


async def _taint_rules(client: Client) -> tuple[DeviceTaintRule, ...]:
    """None where the release does not serve them."""
    try:
        return tuple((await client.resource(DEVICETAINTRULES).list()).items)
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
        allocated=states["allocated"],
        blocked=states["blocked"],
        free=states["free"],
    )


def _counted(counts: Counter[str]) -> str:
    return f": {', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}" if counts else ""


def device_rows(around: Surroundings) -> Iterator[DeviceRow]:
    """The devices of all slices, each with its state."""
    holders: dict[DeviceKey, list[str]] = {}
    for claim in around.claims:
        for result in _results(claim):
            holders.setdefault(result, []).append(f"{claim.metadata.namespace}/{claim.metadata.name}")
    left = _counters_left(around.slices, holders)
    for piece in around.slices:
        spec = piece.spec
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
                state=_state(device, key in holders, left, key[:2]),
            )


def _state(device: Device, held: bool, left: Mapping[CounterKey, Quantity], pool: tuple[str, str]) -> str:
    if held:
        return "allocated"
    for use in device.consumes_counters:
        for name, amount in use.counters.items():
            remaining = left.get((*pool, use.counter_set, name))
            if remaining is not None and remaining < amount.value:
                return "blocked"
    return "tainted" if any(taint.effect in ("NoSchedule", "NoExecute") for taint in device.taints) else "free"


def _counters_left(slices: Iterable[ResourceSlice], held: Collection[DeviceKey]) -> dict[CounterKey, Quantity]:
    """What allocated devices leave of the counters of their pools."""
    slices = tuple(slices)
    left = {
        (piece.spec.driver, piece.spec.pool.name, counters.name, name): counter.value
        for piece in slices
        for counters in piece.spec.shared_counters
        for name, counter in counters.counters.items()
    }
    for piece in slices:
        pool = (piece.spec.driver, piece.spec.pool.name)
        for device in piece.spec.devices:
            if (*pool, device.name) not in held:
                continue
            for use in device.consumes_counters:
                for name, amount in use.counters.items():
                    key = (*pool, use.counter_set, name)
                    if key in left:
                        left[key] = left[key] - amount.value
    return left


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


def _pod(pod: Pod, why: str) -> PodRow:
    return PodRow(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        phase=pod.status.phase,
        node=pod.spec.node_name,
        claims=tuple(claim_names(pod)),
        why=why,
    )
