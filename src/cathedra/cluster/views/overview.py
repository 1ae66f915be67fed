"""Overview of a cluster: nodes with devices, claims with allocations, pods with claims, and the state of each device.

A snapshot read through the client, as plain rows, for ``cathedra status`` and the demo.

A device can be unusable although no claim holds it: by a taint of its own or of a DeviceTaintRule, by counters that
allocated devices have consumed, or because its pool is being updated. Devices of older generations of a pool do not
exist, as for the allocator (docs/spec/allocation.md §4 and §5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TypeAlias, TypeVar

from cathedra.allocation.checks.requestedcounters import least_drawn
from cathedra.allocation.supply.devices import selects
from cathedra.allocation.supply.merging import merged_rules
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    Counter as DeviceCounter,
)
from cathedra.api.resource import (
    Device,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
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
from cathedra.cluster.views.waiting import Surroundings, why_waiting
from cathedra.printable import counted
from cathedra.releases import FeatureGates, behaviours
from cathedra.semantics.groupdomains import attribute_text
from cathedra.semantics.nodes import is_node_ready
from cathedra.semantics.podclaims import claim_names
from cathedra.semantics.tolerations import HARD_EFFECTS

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
    warnings: tuple[str, ...] = ()
    """Problems of the whole cluster, one line each."""

    def of_namespace(self, namespace: str) -> Overview:
        """Return the same with the claims and pods of one namespace only; "" keeps all."""
        if not namespace:
            return self
        return replace(
            self,
            claims=tuple(row for row in self.claims if row.namespace == namespace),
            pods=tuple(row for row in self.pods if row.namespace == namespace),
        )

    def totals(self) -> str:
        """Return everything counted, in one line."""
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
        """Return the machine-readable form, versioned."""
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
    """Return all objects of a kind; none if the server does not serve it."""
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


DeviceKey: TypeAlias = tuple[str, str, str]
"""Driver, pool and name of a device."""
PoolKey: TypeAlias = tuple[str, str]
"""Driver and name of a pool."""
CounterKey: TypeAlias = tuple[str, str, str, str]
"""Driver, pool, counter set, counter."""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device with its attributes, its state, and the claims (``namespace/name``) that hold it.

    ``state`` is ``allocated``, ``shared`` (claims hold shares of it, and more may), ``unusable`` (its pool is being
    updated), ``blocked`` (allocated devices have consumed its counters), ``tainted`` (only pods with a toleration get
    it), or ``free``.
    """

    node: str
    driver: str
    pool: str
    name: str
    attributes: dict[str, str]
    capacity: dict[str, str]
    claims: tuple[str, ...]
    state: str
    taints: tuple[str, ...] = ()
    """Taints that prevent allocation, as ``key=value:effect``: the device's own first, then those of rules."""


def device_rows(around: Surroundings) -> Iterator[DeviceRow]:
    """Yield the devices of all pools, each with its state."""
    holders: dict[DeviceKey, list[str]] = {}
    for claim in around.claims:
        for key in _held(claim):
            holders.setdefault(key, []).append(f"{claim.metadata.namespace}/{claim.metadata.name}")
    slices = tuple(_newest(around.slices))
    incomplete = set(_incomplete(slices))
    left = _counters_left(slices, holders, around.claims)
    least = _least_drawn(slices)
    heeds_taints = around.features.device_taints
    need_selector = around.gates.has(behaviours.TAINT_RULES_NEED_SELECTOR)
    rules = [rule for rule in around.rules if rule.spec.device_selector is not None or not need_selector]
    for piece in slices:
        spec = piece.spec
        pool = (spec.driver, spec.pool.name)
        for device in spec.devices:
            taints = tuple(_hard_taints(device, pool, rules)) if heeds_taints else ()
            held = (*pool, device.name) in holders
            yield DeviceRow(
                node=spec.node_name or device.node_name or "",
                driver=spec.driver,
                pool=spec.pool.name,
                name=device.name,
                attributes={name: attribute_text(value) for name, value in sorted(device.attributes.items())},
                capacity={name: str(amount.value) for name, amount in sorted(device.capacity.items())},
                claims=tuple(holders.get((*pool, device.name), ())),
                state=_state(
                    held=held,
                    shareable=device.allow_multiple_allocations,
                    complete=pool not in incomplete,
                    lacks=_lacks_counters(device, pool, left, least),
                    tainted=bool(taints),
                ),
                taints=tuple(map(_taint_text, taints)),
            )


def _held(claim: ResourceClaim) -> Iterator[DeviceKey]:
    """Return the devices that a claim holds; those under admin access stay free."""
    return ((one.driver, one.pool, one.device) for one in _holding(claim))


def _holding(claim: ResourceClaim) -> Iterator[DeviceRequestAllocationResult]:
    if claim.status.allocation is not None:
        yield from (result for result in claim.status.allocation.devices.results if not result.admin_access)


def _newest(slices: Collection[ResourceSlice]) -> Iterator[ResourceSlice]:
    newest: dict[PoolKey, int] = {}
    for piece in slices:
        key = (piece.spec.driver, piece.spec.pool.name)
        newest[key] = max(newest.get(key, 0), piece.spec.pool.generation)
    return (piece for piece in slices if piece.spec.pool.generation == newest[piece.spec.driver, piece.spec.pool.name])


def _incomplete(slices: Iterable[ResourceSlice]) -> Iterator[PoolKey]:
    found: dict[PoolKey, list[int]] = {}
    for piece in slices:
        found.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece.spec.pool.resource_slice_count)
    return (pool for pool, counts in found.items() if len(counts) != max(counts))


def _state(*, held: bool, shareable: bool | None, complete: bool, lacks: bool, tainted: bool) -> str:
    if held:
        return "shared" if shareable else "allocated"
    if not complete:
        return "unusable"
    if lacks:
        return "blocked"
    return "tainted" if tainted else "free"


def _lacks_counters(
    device: Device, pool: PoolKey, left: Mapping[CounterKey, Quantity], least: Mapping[CounterKey, Quantity]
) -> bool:
    """Return True if a counter has too little left for the device, however little is requested."""
    for use in device.consumes_counters:
        for name, counter in use.counters.items():
            key = (*pool, use.counter_set, name)
            needed = counter.amount if counter.value_from is None else least.get(key)
            if key in left and needed is not None and left[key] < needed:
                return True
    return False


def _hard_taints(device: Device, pool: PoolKey, rules: Iterable[DeviceTaintRule]) -> Iterator[DeviceTaint]:
    of_rules = (rule.spec.taint for rule in rules if selects(rule, *pool, device.name))
    return (taint for taint in (*device.taints, *of_rules) if taint.effect in HARD_EFFECTS)


def _taint_text(taint: DeviceTaint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _defined(slices: Iterable[ResourceSlice]) -> Iterator[tuple[CounterKey, DeviceCounter]]:
    return (
        ((piece.spec.driver, piece.spec.pool.name, counters.name, name), counter)
        for piece in slices
        for counters in piece.spec.shared_counters
        for name, counter in counters.counters.items()
    )


def _least_drawn(slices: Iterable[ResourceSlice]) -> dict[CounterKey, Quantity]:
    return {key: least_drawn(counter) for key, counter in _defined(slices)}


def _counters_left(
    slices: Collection[ResourceSlice], held: Collection[DeviceKey], claims: Iterable[ResourceClaim]
) -> dict[CounterKey, Quantity]:
    """Return the rest of the counters: held devices consume fixed amounts once, and each allocation consumes its
    requested amounts."""
    left = {key: counter.amount for key, counter in _defined(slices)}
    for key, amount in (*_fixed(slices, held), *_requested(claims)):
        if key in left:
            left[key] = left[key] - amount
    return left


def _fixed(slices: Iterable[ResourceSlice], held: Collection[DeviceKey]) -> Iterator[tuple[CounterKey, Quantity]]:
    for piece in slices:
        pool = (piece.spec.driver, piece.spec.pool.name)
        for device in piece.spec.devices:
            for use in device.consumes_counters if (*pool, device.name) in held else ():
                yield from (((*pool, use.counter_set, name), one.amount) for name, one in use.counters.items())


def _requested(claims: Iterable[ResourceClaim]) -> Iterator[tuple[CounterKey, Quantity]]:
    for claim in claims:
        for result in _holding(claim):
            for use in result.consumed_counters:
                for name, amount in use.counters.items():
                    yield (result.driver, result.pool, use.counter_set, name), amount
