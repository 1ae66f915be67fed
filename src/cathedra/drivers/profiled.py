"""Devices of a hardware profile, published as their vendor's driver would, for simulated nodes.

Prepare only passes the names of the devices to containers, in environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cathedra.api import resource
from cathedra.devicemetadata.stream import KNOWN_VERSIONS
from cathedra.driver import Claim, Device, Driver, Edits, Pool, Prepared, Version
from cathedra.driver.device import AttributeValue
from cathedra.profiles import HardwareProfile, NodePool, expanded_pools


class ProfiledDriver(Driver):
    """Simulates one of a profile's drivers, on a node that has the profile's devices."""

    cdi_class = "simulated"
    # Some drivers write their own domain in names; a profile has their names literally.
    validate_names = False

    def __init__(
        self, profile: HardwareProfile, name: str, *, metadata_versions: Sequence[str] = KNOWN_VERSIONS
    ) -> None:
        self.name = name
        self.metadata_versions = metadata_versions
        self._profile = profile
        self._pools: tuple[NodePool, ...] | None = None

    def resources(self) -> list[Pool]:
        """Return the pools of this node, equal at every start."""
        return [_pool(pool, self.node_name) for pool in self._own()]

    def prepare(self, claim: Claim) -> Iterator[Prepared]:
        """Yield a variable for each device: ``DRA_DEVICE_<NAME>`` is its driver, pool and name."""
        attributes = {(pool.name, device.name): _attributes(device) for pool in self._own() for device in pool.devices}
        for allocation in claim.allocations:
            variable = "DRA_DEVICE_" + re.sub(r"[^A-Z0-9]", "_", allocation.device.upper())
            edits = Edits(env={variable: f"{self.name}/{allocation.pool}/{allocation.device}"})
            yield allocation.prepared(edits, metadata=attributes.get((allocation.pool, allocation.device)))

    def _own(self) -> tuple[NodePool, ...]:
        """Return the node's pools. Cached: eight GPUs with all partitions are two hundred devices, and each prepare
        needs them.
        """
        if self._pools is None:
            every = expanded_pools(self._profile, self.node_name)
            self._pools = tuple(pool for pool in every if pool.driver == self.name)
        return self._pools


def _pool(pool: NodePool, node: str) -> Pool:
    counters = {one.name: {name: counter.amount for name, counter in one.counters.items()} for one in pool.counter_sets}
    name = "" if pool.name == node else pool.name
    return Pool(devices=[_device(one) for one in pool.devices], name=name, counters=counters)


def _device(device: resource.Device) -> Device:
    return Device(
        device.name,
        attributes=_attributes(device),
        capacity=device.capacity,
        taints=device.taints,
        consumes={
            one.counter_set: {name: counter.amount for name, counter in one.counters.items()}
            for one in device.consumes_counters
        },
        multiple_allocations=bool(device.allow_multiple_allocations),
        binds_to_node=device.binds_to_node,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        node_resources=device.node_allocatable_resources,
    )


def _attributes(device: resource.Device) -> dict[str, AttributeValue]:
    return {name: _value(attribute) for name, attribute in device.attributes.items()}


def _value(attribute: resource.DeviceAttribute) -> AttributeValue:
    if attribute.int_ is not None:
        return int(attribute.int_)
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    if attribute.version is not None:
        return Version(attribute.version)
    lists = (attribute.ints, attribute.bools, attribute.strings, tuple(map(Version, attribute.versions)))
    return next((one for one in lists if one), ())
