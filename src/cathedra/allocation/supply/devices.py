"""Devices in the allocator's form: prepared once when their slice arrives, read millions of times after.

A *signature* is the part of a device that a selector can read: driver, attributes, capacity, and whether it may be
shared. Devices with equal signatures share one object, and with it every value that was ever computed from it: CEL
results, attribute values, consumed capacity. A *kind* adds everything else that matters to the search except the name;
two devices of one kind are interchangeable (docs/spec/allocation.md §15.4).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from cathedra.allocation.supply.caches import Caches
from cathedra.allocation.supply.nodes import NodeTarget
from cathedra.api.resource import (
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceTaint,
    DeviceTaintRule,
    ResourceSlice,
)
from cathedra.api.struct import encode
from cathedra.remembering import remembered

PoolID: TypeAlias = tuple[str, str]
"""Driver and pool name."""
DeviceID: TypeAlias = tuple[str, str, str]
"""Driver, pool name and device name."""


Projection: TypeAlias = tuple[str, ...]
"""Qualified names of the attributes that selectors and constraints read, sorted."""


class Signature:
    """The part of a device that selectors, constraints and capacity checks can read; shared by all equal devices.

    ``caches`` holds values that are computed from a signature alone.
    """

    __slots__ = (
        "__weakref__",
        "_by_name",
        "allow_multiple",
        "attributes",
        "caches",
        "capacity",
        "driver",
        "frame",
        "number",
    )

    def __init__(self, number: int, driver: str, device: Device, frame: int) -> None:
        self.number = number
        self.driver = driver
        self.attributes: Mapping[str, DeviceAttribute] = device.attributes or {}
        self.capacity: Mapping[str, DeviceCapacity] = device.capacity or {}
        self.allow_multiple = bool(device.allow_multiple_allocations)
        self.caches = Caches()
        self.frame = frame
        """A number for everything but the attributes; -1 if the attributes can disturb selectors that do not read them,
        so that every selector has to read them all."""
        self._by_name = self.attributes
        prefix = f"{driver}/"
        if "/" in "".join(self.attributes) and any(name.startswith(prefix) for name in self.attributes):
            self._by_name = {name.removeprefix(prefix): value for name, value in self.attributes.items()}

    def attribute(self, name: str) -> DeviceAttribute | None:
        """Return the attribute with the qualified ``name``, or None; a bare one counts as the driver's
        (docs/spec/allocation.md §10.2)."""
        found = self.attributes.get(name)
        if found is not None:
            return found
        domain, _, bare = name.rpartition("/")
        return self.attributes.get(bare) if domain == self.driver else None

    def seen(self, projection: Projection) -> Any:
        """Return the part of the signature that remains under ``projection``: its attributes, and capacity.

        Devices with equal remainders are equal to selectors that read no more. A device with an attribute that fails
        every selector, or that can be read in two ways, is equal only to itself.
        """
        return self.kind_under(short_names(projection, self.driver), 0)

    def kind_under(self, names: Projection, variant: int) -> Any:
        """Return `seen` for a projection in `short_names` of the driver, with the ``variant`` of a device."""
        if self.frame < 0:
            return variant, self.number
        # Attributes are compared in C: a cluster has hundreds of thousands, and a new node brings all of its own.
        return variant, self.frame, *map(self._by_name.get, names)


@remembered("allocation.supply.devices.short_names", size=256)
def short_names(projection: Projection, driver: str) -> Projection:
    """Return the names of a projection without the domain of the driver, as it writes them mostly."""
    prefix = f"{driver}/"
    return tuple([name.removeprefix(prefix) for name in projection])


def _content(value: DeviceAttribute) -> Any:
    if value.string is not None:
        return value.string
    # The position distinguishes them from strings, and True from 1.
    return (value.int_, value.bool_, value.version, value.ints, value.bools, value.strings, value.versions)


_PLAIN_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})", re.ASCII)


def _is_plain(name: str, driver: str, attributes: Mapping[str, DeviceAttribute]) -> bool:
    """Return True if an attribute cannot disturb selectors that do not read it."""
    value = attributes[name]
    given = [one for one in (value.int_, value.bool_, value.string, value.version) if one is not None]
    lists = [one for one in (value.ints, value.bools, value.strings, value.versions) if one]
    if len(given) + len(lists) != 1:
        return False
    versions = value.versions if value.version is None else (value.version,)
    if versions and not all(map(_PLAIN_VERSION.fullmatch, versions)):
        return False
    return "/" in name or f"{driver}/{name}" not in attributes


def _is_simple(value: DeviceAttribute) -> bool:
    """Return True if a value is one text, number or truth value and nothing else: plain, if its name has no domain and
    no other name has one."""
    if value.version is not None or value.ints or value.bools or value.strings or value.versions:
        return False
    return (value.string is not None) + (value.int_ is not None) + (value.bool_ is not None) == 1


def _is_list(value: DeviceAttribute) -> bool:
    return bool(value.ints or value.bools or value.strings or value.versions)


class DeviceRecord:
    """One device of one slice, with the taints of the rules that apply to it."""

    __slots__ = (
        "device",
        "draws",
        "id",
        "kind",
        "name",
        "own_target",
        "shareable",
        "signature",
        "slice",
        "taints",
        "variant",
    )

    def __init__(
        self,
        slice_record: SliceRecord,
        device: Device,
        taints: tuple[DeviceTaint, ...],
        interner: Interner,
    ) -> None:
        self.slice = slice_record
        self.device = device
        self.name = device.name
        self.id: DeviceID = (*slice_record.pool, device.name)
        self.taints = taints
        signature = self.signature = interner.signature(slice_record.pool[0], device)
        self.variant = interner.variant(device, taints, slice_record)
        """A number for all that matters beside signature and name."""
        self.kind = interner.shape((signature.number, self.variant))
        self.own_target = (
            NodeTarget(device.node_name, device.all_nodes, device.node_selector) if slice_record.per_device else None
        )
        self.shareable = signature.allow_multiple
        self.draws = any(
            counter.value_from is not None for one in device.consumes_counters for counter in one.counters.values()
        )
        """True if what the device takes of counters depends on the request."""

    def __str__(self) -> str:
        return "/".join(self.id)


class SliceRecord:
    """One slice, taken apart."""

    __slots__ = (
        "asks_name",
        "consumers",
        "count",
        "counter_sets",
        "devices",
        "generation",
        "has_binding",
        "has_groups",
        "kinds",
        "label_keys",
        "name",
        "names_differ",
        "node_name",
        "per_device",
        "pool",
        "sequence",
        "serial",
        "skip_operations",
        "source",
        "target",
    )

    def __init__(
        self, source: ResourceSlice, rules: Sequence[DeviceTaintRule], interner: Interner, sequence: int
    ) -> None:
        spec = source.spec
        self.source = source
        self.name = source.metadata.name
        self.sequence = sequence
        self.pool: PoolID = (spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.count = spec.pool.resource_slice_count
        self.target = NodeTarget(spec.node_name, spec.all_nodes, spec.node_selector)
        self.node_name = spec.node_name or ""
        self.per_device = bool(spec.per_device_node_selection)
        self.skip_operations = bool(spec.skip_node_operations)
        self.counter_sets: tuple[CounterSet, ...] = spec.shared_counters or ()
        devices = spec.devices or ()
        self.has_binding = any(device.binding_conditions for device in devices)
        self.devices = tuple([self._record(device, rules, interner) for device in devices])
        self.kinds = tuple([record.kind for record in self.devices])
        self.names_differ = len({record.name for record in self.devices}) == len(devices)
        self.consumers = tuple([record for record in self.devices if record.device.consumes_counters])
        self.has_groups = any(
            groups_of(entry) for record in self.consumers for entry in record.device.consumes_counters
        )
        self.label_keys = self.target.label_keys
        self.asks_name = self.target.asks_name or any(
            record.own_target is not None and record.own_target.asks_name for record in self.devices
        )
        """True if the name of a node determines whether it can use the slice or some of its devices."""
        if self.per_device:
            own = (record.own_target.label_keys for record in self.devices if record.own_target is not None)
            self.label_keys = self.label_keys.union(*own)
        self.serial = interner.next_number()

    def _record(self, device: Device, rules: Sequence[DeviceTaintRule], interner: Interner) -> DeviceRecord:
        taints = device.taints or ()
        for rule in rules:
            if selects(rule, *self.pool, device.name):
                # In the order of the rules' names, as Kubernetes appends them: the first untolerated taint is named in
                # texts.
                taints = (*taints, rule.spec.taint)
        return DeviceRecord(self, device, taints, interner)


def selects(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    """Return True if ``rule`` taints that device; a rule without a selector taints every one (docs/spec/allocation.md
    §4)."""
    selector = rule.spec.device_selector
    if selector is None:
        return True
    return selector.driver in (None, driver) and selector.pool in (None, pool) and selector.device in (None, device)


def groups_of(consumption: object) -> tuple[str, ...]:
    """Return the compatibility groups that an entry of consumesCounters names."""
    groups: tuple[str, ...] = getattr(consumption, "compatibility_groups", ()) or ()
    return groups


class Interner:
    """Gives equal things equal numbers, for as long as the inventory lives.

    Numbers are never given twice; a thing that has not been used for long may get another one the next time.
    """

    __slots__ = ("_common", "_crowded", "_numbers", "_projected", "_shapes", "_signatures", "_values")

    SHAPES: Final = 1_000_000
    """Largest number of cached values."""
    CROWD: Final = 64
    """Number of values from which an attribute identifies devices, rather than classifying them."""

    def __init__(self) -> None:
        self._signatures: WeakValueDictionary[object, Signature] = WeakValueDictionary()
        self._shapes: dict[object, int] = {}
        self._projected: dict[tuple[int, Projection], int] = {}
        self._numbers = count(1)
        self._values: dict[str, set[Any]] = {}
        self._crowded: set[str] = set()
        self._common: Projection | None = ()

    def next_number(self) -> int:
        """Return a number that was never returned before."""
        # One call into C: two threads never get the same number.
        return next(self._numbers)

    def signature(self, driver: str, device: Device) -> Signature:
        """Return the signature of a device; devices that are equal in all that a signature holds share one."""
        frame = self.shape(
            (
                driver,
                bool(device.allow_multiple_allocations),
                # Encoded bytes are hashed and compared in C; a key of structs would cost far more per device.
                encode(device.capacity) if device.capacity else b"",
            )
        )
        key = (frame, encode(device.attributes) if device.attributes else b"")
        # Weak values: signatures of devices that are gone are collected with them, and their caches too.
        found = self._signatures.get(key)
        if found is None:
            attributes = device.attributes or {}
            # Fast path for the attributes of nearly every device; a large cluster has hundreds of thousands.
            simple = "/" not in "".join(attributes) and all(map(_is_simple, attributes.values()))
            plain = simple or all(_is_plain(name, driver, attributes) for name in attributes)
            lists = [] if simple else [name for name, value in attributes.items() if _is_list(value)]
            if lists:
                # Selectors without the gate for lists fail on such a device, naming the first of them.
                frame = self.shape(("lists", frame, min(lists, key=lambda name: ("/" in name, name))))
            found = Signature(self.next_number(), driver, device, frame if plain else -1)
            self._signatures[key] = found
            if plain:
                self._count(driver, attributes)
        return found

    def variant(self, device: Device, taints: Sequence[DeviceTaint], owner: SliceRecord) -> int:
        """Return a number that two devices share if and only if they differ in nothing but name and signature."""
        return self.shape(
            (
                "variant",
                tuple([(taint.key, taint.value, taint.effect) for taint in taints]),
                encode(device.consumes_counters) if device.consumes_counters else b"",
                bool(device.binding_conditions),
                owner.skip_operations,
                encode((device.node_name, device.all_nodes, device.node_selector)) if owner.per_device else None,
            )
        )

    def shape(self, key: object) -> int:
        """Return a number for any other value that is compared often."""
        known = self._shapes.get(key)
        if known is None:
            # Numbers are never reused, so dropping them makes equal things unequal for a while and never the reverse.
            if len(self._shapes) >= self.SHAPES:
                self._shapes.clear()
            known = self._shapes[key] = self.next_number()
        return known

    def projected(self, shape: int, projection: Projection, project: Callable[[Projection], object]) -> int:
        """Return a number for the result of ``project`` on values of that shape."""
        key = (shape, projection)
        known = self._projected.get(key)
        if known is None:
            if len(self._projected) >= self.SHAPES:
                self._projected.clear()
            known = self._projected[key] = self.shape(project(projection))
        return known

    def widened(self, projection: Projection) -> Projection:
        """Return a projection that includes at least as much, and is the same for most pods.

        Selectors that read attributes with few different values are given all of these attributes. That distinguishes
        hardly more nodes, and values that are cached for that projection serve every reader.
        """
        # An attribute such as a serial number identifies devices; with it classes of nodes are per node anyway.
        if not self._crowded.isdisjoint(projection):
            return projection
        if self._common is None:
            self._common = tuple(sorted(self._values))
        return self._common

    def _count(self, driver: str, attributes: Mapping[str, DeviceAttribute]) -> None:
        for name, value in attributes.items():
            full = name if "/" in name else f"{driver}/{name}"
            if full in self._crowded:
                continue
            values = self._values.get(full)
            if values is None:
                values = self._values[full] = set()
                self._common = None
            values.add(_content(value))
            if len(values) > self.CROWD:
                self._crowded.add(full)
                del self._values[full]
                self._common = None
