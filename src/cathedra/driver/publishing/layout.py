"""Layout of pools as ResourceSlices, and the plan of writes from the existing slices to it. Pure functions.

A slice holds at most 128 devices, 64 if one of them uses an expensive feature, and counter sets are in slices of their
own; drivers need not know that. References between devices and counters are checked here, because the API server sees
one slice at a time (docs/spec/driver-sdk.md §10 and §11.7).

Slices that keep their place are updated. One changed slice keeps the generation of the pool, and any larger change
creates a new one, so that no consumer ever mixes two states of a pool (docs/spec/driver-sdk.md §11.3 to §11.5).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from cathedra.api import resource
from cathedra.api.core import core_v1, meta_v1
from cathedra.api.struct import Time, replace
from cathedra.driver.device import Device, Pool
from cathedra.driver.errors import DeviceError, PoolError

MAX_DEVICES = 128
MAX_DEVICES_WITH_FEATURES = 64
"""Limit if a device of the slice has taints, consumes counters or has an attribute with a list."""
MAX_COUNTER_SETS = 8
_DEVICE_FIELD = re.compile(
    # In v1beta1 most fields of a device are below «basic».
    r"spec\.devices\[(?P<device>\d+)\]\.?(?:basic\.)?(?P<field>(?:attributes\[(?P<attribute>[^\]]*)\])?.*)",
    re.DOTALL,
)


class DesiredSlice(msgspec.Struct, frozen=True):
    """Desired content of one slice."""

    devices: tuple[resource.Device, ...] = ()
    shared_counters: tuple[resource.CounterSet, ...] = ()
    per_device_node_selection: bool | None = None


class DesiredPool(msgspec.Struct, frozen=True):
    """Desired slices of one pool."""

    name: str
    slices: tuple[DesiredSlice, ...]
    node_selector: core_v1.NodeSelector | None = None
    all_nodes: bool = False
    generation: int = 0
    skip_node_operations: tuple[str, ...] = ()
    partition_type_attribute: str | None = None


def _raise(error: DeviceError) -> None:
    raise error


def lay_out(
    pools: Iterable[Pool], node_name: str, on_unusable: Callable[[DeviceError], None] = _raise
) -> dict[str, DesiredPool]:
    """Return the slices of all pools. A pool without devices gets one empty slice: «no slice» would mean «no driver».

    If ``on_unusable`` returns, the attribute of the error is left out, or the device if the error is about more.

    Raises:
        PoolError: two pools of one name.
        DeviceError: a device's attribute or amount has no form in the API. By default it is raised.
        QuantityError: a counter of a pool is no quantity.
    """
    desired: dict[str, DesiredPool] = {}
    for pool in pools:
        name = pool.name or node_name
        if name in desired:
            raise PoolError(f'pool "{name}" is given twice')
        desired[name] = DesiredPool(
            name=name,
            slices=_slices(pool, on_unusable),
            node_selector=pool.node_selector,
            all_nodes=pool.all_nodes,
            generation=pool.generation,
            skip_node_operations=tuple(pool.skip_node_operations),
            partition_type_attribute=pool.partition_type_attribute,
        )
    return desired


def _slices(pool: Pool, on_unusable: Callable[[DeviceError], None]) -> tuple[DesiredSlice, ...]:
    devices = tuple(made for device in pool.devices if (made := _usable(device, on_unusable)) is not None)
    per_device = True if any(_selects_node(device) for device in devices) else None
    return slices_of(devices, pool.counter_sets(), per_device)


def slices_of(
    devices: Sequence[resource.Device],
    counters: tuple[resource.CounterSet, ...],
    per_device: bool | None = None,
) -> tuple[DesiredSlice, ...]:
    """Return the slices of a pool: counter sets in slices of their own, then devices; an empty one if there are none.

    ``per_device`` is True if devices select their nodes, else None.
    """
    slices = [
        DesiredSlice(shared_counters=counters[i : i + MAX_COUNTER_SETS], per_device_node_selection=per_device)
        for i in range(0, len(counters), MAX_COUNTER_SETS)
    ]
    slices += [DesiredSlice(devices=part, per_device_node_selection=per_device) for part in _parts(devices)]
    return tuple(slices) or (DesiredSlice(),)


def _usable(device: Device, on_unusable: Callable[[DeviceError], None]) -> resource.Device | None:
    while True:
        try:
            return device.to_api()
        except DeviceError as error:
            on_unusable(error)
            # A device without its taint, capacity or counters would be given to claims that must not have it. Without
            # an attribute it matches fewer selectors.
            if not error.attribute:
                return None
            attributes = {name: value for name, value in device.attributes.items() if name != error.attribute}
            device = dataclasses.replace(device, attributes=attributes)


def without_refused(
    part: DesiredSlice, causes: Iterable[meta_v1.StatusCause]
) -> tuple[DesiredSlice, tuple[DeviceError, ...]]:
    """Leave out the devices and attributes of a slice that the API server has refused. Return the errors too."""
    problems: dict[int, dict[str, str]] = {}
    for cause in causes:
        where = _DEVICE_FIELD.match(cause.field)
        if where is not None and (index := int(where["device"])) < len(part.devices):
            attribute = where["attribute"] or ""
            known = attribute if attribute in part.devices[index].attributes else ""
            problems.setdefault(index, {}).setdefault(known, f"{where['field']}: {cause.message}")
    devices: list[resource.Device] = []
    errors: list[DeviceError] = []
    for index, device in enumerate(part.devices):
        refused = problems.get(index, {})
        if "" in refused:
            refused = {"": refused[""]}
        errors += [DeviceError(device.name, problem, attribute) for attribute, problem in refused.items()]
        if "" not in refused:
            kept = {name: value for name, value in device.attributes.items() if name not in refused}
            devices.append(replace(device, attributes=kept) if refused else device)
    return msgspec.structs.replace(part, devices=tuple(devices)), tuple(errors)


def _parts(devices: Sequence[resource.Device]) -> Iterable[tuple[resource.Device, ...]]:
    part: list[resource.Device] = []
    limit = MAX_DEVICES
    for device in devices:
        limit = min(limit, _limit(device))
        if len(part) >= limit:
            yield tuple(part)
            part, limit = [], _limit(device)
        part.append(device)
    if part:
        yield tuple(part)


def _limit(device: resource.Device) -> int:
    expensive = device.taints or device.consumes_counters or any(map(_is_list, device.attributes.values()))
    return MAX_DEVICES_WITH_FEATURES if expensive else MAX_DEVICES


def _is_list(value: resource.DeviceAttribute) -> bool:
    return bool(value.ints or value.bools or value.strings or value.versions)


def _selects_node(device: resource.Device) -> bool:
    return device.node_name is not None or device.node_selector is not None or device.all_nodes is not None


def check(pools: Iterable[DesiredPool], own_domain: str) -> None:
    """Check what the API server cannot: names and references across the slices of a pool.

    Args: own_domain: the driver's name, which attributes and capacities must not contain; "" if they may.

    Raises:
        PoolError: the first contradiction. Nothing of any pool is published then.
    """
    for pool in pools:
        counters = _check_counters(pool)
        names: set[str] = set()
        for device in (device for part in pool.slices for device in part.devices):
            if device.name in names:
                raise PoolError(f'pool "{pool.name}": duplicate device name "{device.name}"')
            names.add(device.name)
            _check_references(pool, device, counters)
            _check_names(pool, device, own_domain)


def _check_counters(pool: DesiredPool) -> dict[str, frozenset[str]]:
    counters: dict[str, frozenset[str]] = {}
    for counter_set in (counter_set for part in pool.slices for counter_set in part.shared_counters):
        if counter_set.name in counters:
            raise PoolError(f'pool "{pool.name}": duplicate counter set name "{counter_set.name}"')
        counters[counter_set.name] = frozenset(counter_set.counters)
    return counters


def _check_references(pool: DesiredPool, device: resource.Device, counters: dict[str, frozenset[str]]) -> None:
    for consumption in device.consumes_counters:
        name = consumption.counter_set
        if name not in counters:
            raise PoolError(f'pool "{pool.name}": counter set "{name}" referenced by device "{device.name}" not found')
        for counter in consumption.counters:
            if counter not in counters[name]:
                raise PoolError(
                    f'pool "{pool.name}": counter "{counter}" referenced by device "{device.name}" '
                    f'not found in counter set "{name}"'
                )


def _check_names(pool: DesiredPool, device: resource.Device, own_domain: str) -> None:
    if not own_domain:
        return
    for name in (*device.attributes, *device.capacity):
        if name.startswith(f"{own_domain}/"):
            raise PoolError(
                f'pool "{pool.name}": device "{device.name}": "{name}" must be written without the driver\'s own domain'
            )


_TAINT_TOLERANCE = 1.0
"""Seconds by which two times of one taint may differ and still count as equal."""


class Publisher(msgspec.Struct, frozen=True):
    """Owner of the slices: driver, node, and owner reference."""

    driver: str
    owner: meta_v1.OwnerReference | None = None
    node_name: str | None = None
    """Set on every slice; None where the slices are for several nodes."""


class Plan(msgspec.Struct, frozen=True):
    """Writes to execute, in this order. Numbers are positions in the desired pool."""

    generation: int
    delete: tuple[resource.ResourceSlice, ...]
    update: Mapping[int, resource.ResourceSlice]
    create: Mapping[int, resource.ResourceSlice]

    @property
    def empty(self) -> bool:
        """Return True if the cluster shows the desired state already."""
        return not (self.delete or self.update or self.create)


def plan(pool: DesiredPool, existing: Sequence[resource.ResourceSlice], publisher: Publisher) -> Plan:
    """Return the writes that lead from ``existing`` to ``pool``."""
    count = len(pool.slices)
    width = max(5, len(f"{max(count - 1, 0):x}"))
    generation = max((s.spec.pool.generation for s in existing), default=0)
    current, obsolete = _assign(existing, count, width, generation)
    changed = {i for i, found in current.items() if not _same(found, pool, i, publisher)}
    missing = count - len(current)
    if pool.generation > generation:
        generation, everything = pool.generation, True
    elif missing == 0 and len(changed) <= 1:
        everything = False
    else:
        generation, everything = generation + 1, True
    return Plan(
        generation=generation,
        delete=tuple(obsolete),
        update={
            i: replace(found, spec=_spec(pool, i, publisher, generation, found))
            for i, found in sorted(current.items())
            if everything or i in changed
        },
        create={i: _new(pool, i, width, publisher, generation) for i in range(count) if i not in current},
    )


def _assign(
    existing: Sequence[resource.ResourceSlice], count: int, width: int, generation: int
) -> tuple[dict[int, resource.ResourceSlice], list[resource.ResourceSlice]]:
    numbered = re.compile(rf"([0-9a-f]{{{width}}})-")
    current: dict[int, resource.ResourceSlice] = {}
    obsolete: list[resource.ResourceSlice] = []
    for found in sorted(existing, key=lambda s: s.metadata.name):
        match = numbered.match(found.metadata.name)
        index = int(match[1], 16) if match else count
        if found.spec.pool.generation < generation or index >= count or index in current:
            obsolete.append(found)
            continue
        current[index] = found
    return current, obsolete


def _same(found: resource.ResourceSlice, pool: DesiredPool, index: int, publisher: Publisher) -> bool:
    # The generation is not compared: the slice has the pool's highest one, or it would be obsolete.
    return found.spec == _spec(pool, index, publisher, found.spec.pool.generation, found)


def _spec(
    pool: DesiredPool, index: int, publisher: Publisher, generation: int, found: resource.ResourceSlice | None = None
) -> resource.ResourceSliceSpec:
    desired: DesiredSlice = pool.slices[index]
    devices = desired.devices if found is None else adopt_taint_times(desired.devices, found.spec.devices)
    spec = resource.ResourceSliceSpec() if found is None else found.spec
    selects_nodes = desired.per_device_node_selection is None
    return replace(
        spec,
        driver=publisher.driver,
        pool=resource.ResourcePool(name=pool.name, generation=generation, resource_slice_count=len(pool.slices)),
        node_name=publisher.node_name if selects_nodes else None,
        node_selector=pool.node_selector if selects_nodes else None,
        all_nodes=True if pool.all_nodes and selects_nodes else None,
        devices=devices,
        per_device_node_selection=desired.per_device_node_selection,
        shared_counters=desired.shared_counters,
        skip_node_operations=pool.skip_node_operations,
        partition_type_attribute=pool.partition_type_attribute,
    )


def _new(pool: DesiredPool, index: int, width: int, publisher: Publisher, generation: int) -> resource.ResourceSlice:
    prefix = f"{index:0{width}x}-{publisher.driver}-"
    owners: tuple[meta_v1.OwnerReference, ...] = ()
    if publisher.owner is not None:
        prefix += f"{publisher.owner.name}-"
        owners = (publisher.owner,)
    return resource.ResourceSlice(
        metadata=meta_v1.ObjectMeta(generate_name=prefix, owner_references=owners),
        spec=_spec(pool, index, publisher, generation),
    )


def adopt_taint_times(
    desired: Sequence[resource.Device], present: Sequence[resource.Device]
) -> tuple[resource.Device, ...]:
    """Return ``desired`` with the times of existing taints, if the driver gave none or nearly the same.

    The API server sets the time at which a taint appeared; publishing it again must not change that time.
    """
    known = {device.name: device.taints for device in present if device.taints}
    return tuple(_with_times(device, known.get(device.name, ())) if device.taints else device for device in desired)


def _with_times(device: resource.Device, present: Sequence[resource.DeviceTaint]) -> resource.Device:
    return replace(device, taints=tuple(_with_time(taint, present) for taint in device.taints))


def _with_time(taint: resource.DeviceTaint, present: Sequence[resource.DeviceTaint]) -> resource.DeviceTaint:
    wanted = None if taint.time_added is None else Time(round(taint.time_added.timestamp))
    for old in present:
        if (old.key, old.value, old.effect) != (taint.key, taint.value, taint.effect) or old.time_added is None:
            continue
        if wanted is None or abs(old.time_added.timestamp - wanted.timestamp) <= _TAINT_TOLERANCE:
            return replace(taint, time_added=old.time_added)
    return replace(taint, time_added=wanted)
