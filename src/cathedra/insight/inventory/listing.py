"""`devices`: every device of a state with its holders, what is left of it, and totals.

Free devices are computed by the allocator's own inventory and ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import structs

from cathedra.allocation import InvalidInput, Inventory
from cathedra.allocation.checks.selectors import SelectorCache, SelectorList
from cathedra.allocation.supply.devices import DeviceRecord, PoolID, SliceRecord
from cathedra.allocation.supply.inventory import InventorySnapshot
from cathedra.allocation.supply.ledger import qualified
from cathedra.allocation.supply.undecodable import effect_of
from cathedra.api.core.core_v1 import Pod
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, DeviceRequestAllocationResult, ResourceClaim
from cathedra.api.undecodable import Undecodable
from cathedra.insight.explanation.causes import unusual_pools
from cathedra.insight.inventory.placement import CounterKey, PlacedPartition, placements
from cathedra.insight.inventory.report import DeviceEntry, DeviceGroup, DeviceHolder, DeviceList, Total
from cathedra.insight.reading.state import ClusterState, problems_of_slices
from cathedra.semantics.groupdomains import attribute_text
from cathedra.semantics.tolerations import HARD_EFFECTS

DeviceKey = tuple[str, str, str]
_MOST_TEXTS: Final = 100_000
"""Signatures whose texts are kept."""
_STATES: Final = ("free", "held", "blocked", "tainted", "unusable")


def devices(
    state: ClusterState, *, device_class: str = "", node: str = "", driver: str = "", free: bool = False
) -> DeviceList:
    """Return the devices of a state; by choice those of one class, node or driver, or the free ones alone.

    Raises:
        InvalidInput: there is no such class, node or driver.
    """
    _check(state, device_class, node, driver)
    listing = _listing(state)
    rows = [
        row
        for row in listing.rows()
        if (not device_class or device_class in row.classes)
        and (not node or row.node == node or (not row.node and listing.reaches(row, node)))
        and (not driver or row.driver == driver)
    ]
    pools = pool_problems(state, driver)
    shown = tuple(row for row in rows if not free or row.state in ("free", "shared"))
    return DeviceList(
        devices=shown,
        groups=_groups(rows),
        total=_total("", rows),
        nodes=_totals(rows, lambda row: (row.node or "–",)),
        classes=_totals(rows, lambda row: row.classes),
        drivers=_totals(rows, lambda row: (row.driver,)),
        namespaces=_totals(
            [row for row in rows if row.holders],
            lambda row: {one.claim.partition("/")[0] for one in row.holders if not one.admin_access},
        ),
        pools=pools,
        notes=state.notes,
    )


def device_rows(state: ClusterState) -> tuple[DeviceEntry, ...]:
    """Return every device of a state, without the totals."""
    return tuple(_listing(state).rows())


def pool_problems(state: ClusterState, driver: str = "") -> tuple[str, ...]:
    """Return a sentence for each pool that is incomplete, old or invalid; by choice of one driver."""
    return tuple(
        f"pool {pool_driver}/{name} {text}"
        for pool_driver, name, text in unusual_pools(state)
        if not driver or pool_driver == driver
    )


def problems_of_pool(pool: PoolID, snapshot: InventorySnapshot) -> tuple[str, ...]:
    """Return the same sentences for one pool."""
    pieces = [record.source for record in snapshot.pools.get(pool, ())]
    texts = problems_of_slices(pieces) if pieces else ()
    withheld = (f"is {snapshot.withheld[pool]}",) if pool in snapshot.withheld else ()
    return tuple(f"pool {pool[0]}/{pool[1]} {text}" for text in (*withheld, *texts))


def _listing(state: ClusterState) -> DeviceListing:
    return DeviceListing(state, holders(state.all(ResourceClaim), state.undecodable), health_of(state.pods))


def _check(state: ClusterState, device_class: str, node: str, driver: str) -> None:
    for word, name, known in (
        ("device class", device_class, [one.metadata.name for one in state.all(DeviceClass)]),
        ("node", node, [one.metadata.name for one in state.nodes]),
        ("driver", driver, sorted({one.spec.driver for one in state.cluster.inventory.slices()})),
    ):
        if name and name not in known:
            there = ", ".join(known[:5]) + (" …" if len(known) > 5 else "") if known else "none"
            raise InvalidInput(f"there is no {word} {name!r} in {state.source}; there are {there}")


class DeviceListing:
    """The rows of devices, made pool by pool."""

    def __init__(
        self, state: ClusterState, held: Holders, health: Mapping[str, str], cache: SelectorCache | None = None
    ) -> None:
        """``held``: `holders` of the claims in question; ``health``: `health_of` the pods; ``cache`` has the compiled
        selectors of earlier listings."""
        self.state = state
        self.inventory: Inventory = state.cluster.inventory
        self.snapshot = self.inventory.snapshot()
        self.held = held
        self.health = health
        cache, features = cache or SelectorCache(), state.features
        self.classes: list[tuple[str, SelectorList]] = [
            (
                one.metadata.name,
                cache.of([s.cel.expression if s.cel is not None else "" for s in one.spec.selectors], features),
            )
            for one in sorted(state.all(DeviceClass), key=lambda one: one.metadata.name)
        ]
        self.known_classes: dict[int, tuple[str, ...]] = {}
        self.texts: dict[int, tuple[dict[str, str], dict[str, str]]] = {}

    def follow(self, state: ClusterState, health: Mapping[str, str]) -> None:
        """Set the next state, which has the same classes and the same inventory with other slices."""
        self.state, self.health = state, health
        self.snapshot = self.inventory.snapshot()
        # Texts of devices that are gone. Their signatures' numbers are not given again.
        if len(self.texts) > _MOST_TEXTS:
            self.texts, self.known_classes = {}, {}

    def rows(self) -> Iterator[DeviceEntry]:
        """Yield all devices, and those that claims hold and no slice has any more."""
        seen: set[DeviceKey] = set()
        for pool, records in sorted(self.snapshot.pools.items()):
            yield from self._pool(pool, records, seen)
        yield from self._gone(seen)

    def of_pool(self, pool: PoolID) -> Iterator[DeviceEntry]:
        """Yield the devices of one pool; ``held`` has the holders of no other."""
        seen: set[DeviceKey] = set()
        yield from self._pool(pool, self.snapshot.pools.get(pool, ()), seen)
        yield from self._gone(seen)

    def _gone(self, seen: set[DeviceKey]) -> Iterator[DeviceEntry]:
        for key in sorted(self.held.keys() - seen):
            yield DeviceEntry("", *key, "gone", tuple(holder for holder, _ in self.held[key]))

    def _pool(self, pool: PoolID, records: tuple[SliceRecord, ...], seen: set[DeviceKey]) -> Iterator[DeviceEntry]:
        if not records:
            return
        newest = max(record.generation for record in records)
        current = [record for record in records if record.generation == newest]
        usable = len(current) == current[0].count and pool not in self.snapshot.withheld
        totals = counter_totals(current)
        left = counters_left(current, self.held, totals)
        consumers = {device.name: device for record in current for device in record.consumers}
        placed = placements(
            (
                PlacedPartition(name, _needed(device), _is_taken(self.held.get(device.id, ())))
                for name, device in consumers.items()
            ),
            totals,
        )
        for record in current:
            for device in record.devices:
                # A device that appears in two slices of a pool makes the pool invalid; it is listed once.
                if device.id in seen:
                    continue
                seen.add(device.id)
                row = self._row(record, device, left, usable=usable)
                place = placed.get(device.name)
                if place is not None:
                    row = structs.replace(row, at=place.at, size=place.size, lane=place.lane)
                yield row

    def _row(
        self, owner: SliceRecord, device: DeviceRecord, left: Mapping[tuple[str, str], int], *, usable: bool
    ) -> DeviceEntry:
        held = self.held.get(device.id, [])
        number = device.signature.number
        # Devices with equal signatures share their texts: a cluster has thousands of devices and a few signatures.
        if number not in self.texts:
            attributes = {name: attribute_text(one) for name, one in sorted(device.signature.attributes.items())}
            capacity = {name: str(one.value) for name, one in sorted(device.signature.capacity.items())}
            self.texts[number] = (attributes, capacity)
        attributes, capacity = self.texts[number]
        remaining = self._remaining(device, held)
        needed = _needed(device)
        state = _state(device, held, needed, left, remaining, usable=usable)
        return DeviceEntry(
            node=owner.node_name or device.device.node_name or "",
            driver=device.id[0],
            pool=device.id[1],
            device=device.name,
            state=state,
            holders=_holders(device, held),
            classes=self._classes(device),
            attributes=attributes,
            capacity=capacity,
            left={name: str(amount) for name, amount in remaining.items()},
            counters={
                "/".join(key): f"{Quantity.of_nanos(amount)} of {Quantity.of_nanos(left.get(key, 0))} left"
                for key, amount in needed.items()
            },
            counter_set=next((use.counter_set for use in device.device.consumes_counters), ""),
            blocked_by=self._blockers(device.id[:2], needed, left) if state == "blocked" else (),
            taints=tuple(
                f"{one.key}={one.value}:{one.effect}" if one.value else f"{one.key}:{one.effect}"
                for one in device.taints
            ),
            health=self.health.get("/".join(device.id), ""),
            binding_conditions=tuple(device.device.binding_conditions or ()),
            used=_used(device, held, remaining),
        )

    def _blockers(
        self, pool: PoolID, needed: Mapping[tuple[str, str], int], left: Mapping[tuple[str, str], int]
    ) -> tuple[str, ...]:
        """Return the claims that have consumed counters of which less is left than a device needs."""
        short = {name for name, amount in needed.items() if left.get(name, 0) < amount}
        found: dict[str, None] = {}
        for record in self.snapshot.pools.get(pool, ()):
            for other in record.consumers:
                held = self.held.get(other.id)
                if not held:
                    continue
                uses = ((use.counter_set, name) for use in other.device.consumes_counters for name in use.counters)
                if not short.isdisjoint(uses):
                    found.update(dict.fromkeys(holder.claim for holder, _ in held if not holder.admin_access))
        return tuple(found)

    def _classes(self, device: DeviceRecord) -> tuple[str, ...]:
        number = device.signature.number
        if number not in self.known_classes:
            self.known_classes[number] = tuple(
                name for name, selectors in self.classes if selectors.verdict(device.signature) is True
            )
        return self.known_classes[number]

    def _remaining(
        self, device: DeviceRecord, held: list[tuple[DeviceHolder, DeviceRequestAllocationResult]]
    ) -> dict[str, Quantity]:
        if not device.shareable:
            return {}
        left = {name: one.value for name, one in sorted(device.signature.capacity.items())}
        full = {qualified(name, device.id[0]): name for name in left}
        for _, result in held:
            for name, amount in result.consumed_capacity.items():
                known = full.get(qualified(name, device.id[0]))
                if known is not None:
                    left[known] = left[known] - amount
        return left

    def reaches(self, row: DeviceEntry, node: str) -> bool:
        """Return True if a device without a node of its own can be used on ``node``."""
        found = self.state.cluster.nodes.get(node)
        if found is None:
            return False
        records = self.snapshot.pools.get((row.driver, row.pool), ())
        return any(record.target.matches(found) for record in records)


def _needed(device: DeviceRecord) -> dict[CounterKey, int]:
    """Return the counters that a device consumes, in nano-units."""
    if not device.device.consumes_counters:
        return {}
    return {
        (use.counter_set, name): counter.amount.nanos
        for use in device.device.consumes_counters
        for name, counter in use.counters.items()
    }


def _is_taken(held: Sequence[tuple[DeviceHolder, DeviceRequestAllocationResult]]) -> bool:
    return bool(held) and any(not holder.admin_access for holder, _ in held)


def _holders(
    device: DeviceRecord, held: Iterable[tuple[DeviceHolder, DeviceRequestAllocationResult]]
) -> tuple[DeviceHolder, ...]:
    """Return the holders, of a device that can be shared with their shares."""
    if not device.shareable:
        return tuple(holder for holder, _ in held)
    full = {qualified(name, device.id[0]): one.value.nanos for name, one in device.signature.capacity.items()}
    found = []
    for holder, result in held:
        taken = ((qualified(name, device.id[0]), amount.nanos) for name, amount in result.consumed_capacity.items())
        share = max((amount / full[name] for name, amount in taken if full.get(name, 0) > 0), default=0.0)
        found.append(structs.replace(holder, share=round(min(share, 1.0), 6)))
    return tuple(found)


def _used(
    device: DeviceRecord,
    held: Sequence[tuple[DeviceHolder, DeviceRequestAllocationResult]],
    remaining: Mapping[str, Quantity],
) -> float:
    """Return the share of a device that its holders have."""
    if not _is_taken(held):
        return 0.0
    if not device.shareable:
        return 1.0
    full = device.signature.capacity
    shares = (1 - remaining[name].nanos / one.value.nanos for name, one in full.items() if one.value.nanos > 0)
    return round(min(max(shares, default=0.0), 1.0), 6)


def _state(
    device: DeviceRecord,
    held: Sequence[tuple[DeviceHolder, DeviceRequestAllocationResult]],
    needed: Mapping[tuple[str, str], int],
    left: Mapping[tuple[str, str], int],
    remaining: Mapping[str, Quantity],
    *,
    usable: bool,
) -> str:
    if _is_taken(held):
        full = not device.shareable or any(amount.nanos <= 0 for amount in remaining.values())
        return "held" if full else "shared"
    if not usable:
        return "unusable"
    if needed and any(left.get(name, 0) < amount for name, amount in needed.items()):
        return "blocked"
    return "tainted" if device.taints and any(taint.effect in HARD_EFFECTS for taint in device.taints) else "free"


Holders = dict[DeviceKey, list[tuple[DeviceHolder, DeviceRequestAllocationResult]]]


def holders(claims: Iterable[ResourceClaim], undecodable: Iterable[Undecodable] = ()) -> Holders:
    """Return every device that some claim has, in the order of claims."""
    found: Holders = {}
    for claim in sorted(claims, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        allocation = claim.status.allocation
        pods = tuple(one.name for one in claim.status.reserved_for)
        since = str(allocation.allocation_timestamp or "") if allocation is not None else ""
        conditions = _conditions(claim)
        for result in allocation.devices.results if allocation is not None else ():
            holder = DeviceHolder(
                f"{claim.metadata.namespace}/{claim.metadata.name}",
                pods,
                result.request,
                {name: str(amount) for name, amount in sorted(result.consumed_capacity.items())},
                result.share_id or "",
                bool(result.admin_access),
                since=since,
                conditions=conditions.get((result.driver, result.pool, result.device), ()),
            )
            found.setdefault((result.driver, result.pool, result.device), []).append((holder, result))
    for effect in filter(None, map(effect_of, undecodable)):
        for result in effect.held:
            found.setdefault((result.driver, result.pool, result.device), []).append(
                (DeviceHolder(effect.holder), result)
            )
    return found


def _conditions(claim: ResourceClaim) -> dict[DeviceKey, tuple[str, ...]]:
    if not claim.status.devices:
        return {}
    return {
        (one.driver, one.pool, one.device): tuple(f"{each.type}={each.status}" for each in one.conditions or ())
        for one in claim.status.devices
    }


def counter_totals(records: Iterable[SliceRecord]) -> dict[CounterKey, int]:
    """Return the counters of a pool, in nano-units."""
    return {
        (one.name, name): counter.amount.nanos
        for record in records
        for one in record.counter_sets
        for name, counter in one.counters.items()
    }


def counters_left(
    records: Iterable[SliceRecord], held: Holders, totals: Mapping[CounterKey, int]
) -> dict[CounterKey, int]:
    """Return what held devices leave of the counters of a pool, in nano-units."""
    records = list(records)
    left = dict(totals)
    for record in records:
        for device in record.consumers:
            taking = [result for holder, result in held.get(device.id, ()) if not holder.admin_access]
            for result in taking:
                for one in result.consumed_counters:
                    for name, amount in one.counters.items():
                        left[one.counter_set, name] = left.get((one.counter_set, name), 0) - amount.nanos
            if taking:
                for use in device.device.consumes_counters:
                    for name, counter in use.counters.items():
                        key = (use.counter_set, name)
                        left[key] = left.get(key, 0) - counter.amount.nanos
    return left


def health_of(pods: Iterable[Pod]) -> dict[str, str]:
    """Return «driver/pool/device» → what containers report; the worst wins."""
    found: dict[str, str] = {}
    for pod in pods:
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            for one in status.allocated_resources_status:
                for resource in one.resources:
                    if found.get(resource.resource_id) != "Unhealthy":
                        found[resource.resource_id] = resource.health or "Unknown"
    return found


def _groups(rows: Iterable[DeviceEntry]) -> tuple[DeviceGroup, ...]:
    """Return the devices that share counters, by counter set; one that is alone is no group."""
    sharing: dict[tuple[str, str, str], list[DeviceEntry]] = {}
    for row in rows:
        if row.counter_set:
            sharing.setdefault((row.driver, row.pool, row.counter_set), []).append(row)
    return tuple(_group(key, members) for key, members in sharing.items() if len(members) > 1)


def _group(key: tuple[str, str, str], members: list[DeviceEntry]) -> DeviceGroup:
    driver, pool, counter_set = key
    states = Counter(row.state for row in members)
    held, free = states["held"] + states["shared"], states["free"]
    state = ("in part" if free else "full") if held else ("free" if free else "unusable")
    claims = dict.fromkeys(holder.claim for row in members for holder in row.holders if not holder.admin_access)
    name = min((row.device for row in members), key=lambda name: (len(name), name))
    return DeviceGroup(
        members[0].node,
        driver,
        pool,
        counter_set,
        name,
        state,
        len(members),
        free,
        held,
        states["blocked"],
        tuple(claims),
    )


def _totals(rows: Iterable[DeviceEntry], names: Callable[[DeviceEntry], Iterable[str]]) -> tuple[Total, ...]:
    groups: dict[str, list[DeviceEntry]] = {}
    for row in rows:
        for name in names(row):
            groups.setdefault(name, []).append(row)
    return tuple(_total(name, groups[name]) for name in sorted(groups))


def _total(name: str, rows: Iterable[DeviceEntry]) -> Total:
    counts = dict.fromkeys(_STATES, 0)
    number = 0
    for row in rows:
        number += row.state != "gone"
        counts["held" if row.state in ("shared", "gone") else row.state] += 1
    return structs.replace(Total(name, number), **counts)
