"""Devices and pools of a driver, as Python values.

    Device("gpu-0", attributes={"model": "A100", "index": 0}, capacity={"memory": "80Gi"})

Values become the typed forms of ``resource.k8s.io/v1`` by their Python type; names without a domain belong to the
driver (docs/spec/driver-sdk.md §10 and §21.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.quantity import Quantity, QuantityError
from cathedra.driver.errors import DeviceError

T = TypeVar("T")


class Version(str):
    """A semantic version as an attribute's value: ``{"driverVersion": Version("1.0.0")}``."""

    __slots__ = ()


AttributeValue = int | bool | str | Sequence[int] | Sequence[bool] | Sequence[str]
"""An attribute's value; a sequence must be of one type."""

Amount = int | str | Quantity
"""A capacity or a counter: ``"80Gi"``, ``100`` or a `Quantity`."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that can be allocated. The name is a DNS label, unique in its pool."""

    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[str, Amount | resource.DeviceCapacity] = field(default_factory=dict)
    """Name → amount; a `DeviceCapacity` where requests follow a policy."""
    taints: Sequence[resource.DeviceTaint] = ()
    consumes: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    """Counter set → counter → what the device takes from it when it is allocated."""
    compatibility_groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Counter set of ``consumes`` → groups; devices that take from one set are allocated together only if they have a
    group in common (1.37, gate DRADeviceCompatibilityGroups)."""
    node_name: str | None = None
    node_selector: core_v1.NodeSelector | None = None
    all_nodes: bool | None = None
    multiple_allocations: bool = False
    """True if several claims may hold a share of it each."""
    binds_to_node: bool | None = None
    binding_conditions: Sequence[str] = ()
    binding_failure_conditions: Sequence[str] = ()
    node_resources: Mapping[str, resource.NodeAllocatableResource] = field(default_factory=dict)
    """Resource of the node (as ``cpu``) → how much of it the device stands for, or needs."""

    def to_api(self) -> resource.Device:
        """Return the device as it stands in a ResourceSlice.

        Raises:
            DeviceError: an attribute's value has a type that attributes cannot have, or an amount is no quantity.
        """
        return resource.Device(
            name=self.name,
            attributes={
                name: self._made(attribute, f'attribute "{name}"', value, name)
                for name, value in self.attributes.items()
            },
            capacity={name: self._made(_capacity, f'capacity "{name}"', v) for name, v in self.capacity.items()},
            taints=tuple(self.taints),
            consumes_counters=tuple(
                resource.DeviceCounterConsumption(
                    counter_set=name,
                    counters=self._made(_counters, f'counters of "{name}"', amounts),
                    compatibility_groups=tuple(self.compatibility_groups.get(name, ())),
                )
                for name, amounts in self.consumes.items()
            ),
            node_name=self.node_name,
            node_selector=self.node_selector,
            all_nodes=self.all_nodes,
            allow_multiple_allocations=True if self.multiple_allocations else None,
            binds_to_node=self.binds_to_node,
            binding_conditions=tuple(self.binding_conditions),
            binding_failure_conditions=tuple(self.binding_failure_conditions),
            node_allocatable_resources=dict(self.node_resources),
        )

    def _made(self, make: Callable[[Any], T], what: str, value: object, attribute: str = "") -> T:
        try:
            return make(value)
        except (TypeError, QuantityError, AttributeError) as error:
            problem = str(error) if isinstance(error, TypeError) else f"{value!r}: {error}"
            raise DeviceError(self.name, f"{what}: {problem}", attribute) from error


@dataclass(frozen=True, slots=True)
class Pool:
    """Devices that belong together. The SDK cuts them into as many slices as they need.

    Their order is the allocator's order of preference and should be stable, so that a restart changes nothing.
    """

    devices: Sequence[Device] = ()
    name: str = ""
    """By default the name of the node. DNS subdomains with slashes between them, at most 253 characters."""
    counters: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    """Counter set → counter → amount, shared by the pool's devices."""
    all_nodes: bool = False
    node_selector: core_v1.NodeSelector | None = None
    generation: int = 0
    """A generation that consumers must see at least; usually left to the SDK."""
    skip_node_operations: Sequence[str] = ()
    """Calls that the node agent need not make for these devices: ``NodePrepareResources``, ``NodeUnprepareResources``
    or ``*`` (docs/spec/node.md §12)."""
    partition_type_attribute: str | None = None
    """Attribute that distinguishes kinds of partitions in the status of the pool."""

    def counter_sets(self) -> tuple[resource.CounterSet, ...]:
        """Return the counter sets as they stand in a ResourceSlice."""
        return tuple(
            resource.CounterSet(name=name, counters=_counters(amounts)) for name, amounts in self.counters.items()
        )


def attribute(value: AttributeValue) -> resource.DeviceAttribute:
    """Return an attribute of the type that the Python value has.

    Raises:
        TypeError: the value is neither int, bool, str, `Version` nor a sequence of one of them.
    """
    if isinstance(value, bool):
        return resource.DeviceAttribute(bool_=value)
    if isinstance(value, int):
        return resource.DeviceAttribute(int_=value)
    if isinstance(value, Version):
        return resource.DeviceAttribute(version=str(value))
    if isinstance(value, str):
        return resource.DeviceAttribute(string=value)
    if not isinstance(value, Sequence) or isinstance(value, (bytes, bytearray)):
        raise TypeError(
            f"{value!r} is of type {type(value).__name__}; an attribute is an int, a bool, a str, a Version, or a list "
            "of one of these"
        )
    return _list_attribute(tuple(value))


def _list_attribute(values: tuple[int | bool | str, ...]) -> resource.DeviceAttribute:
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return resource.DeviceAttribute(bools=tuple(bool(value) for value in values))
    if kinds == {int}:
        return resource.DeviceAttribute(ints=tuple(int(value) for value in values))
    if kinds == {Version}:
        return resource.DeviceAttribute(versions=tuple(str(value) for value in values))
    if kinds == {str}:
        return resource.DeviceAttribute(strings=tuple(str(value) for value in values))
    raise TypeError(f"{list(values)!r}: a list must hold values of one type, each an int, a bool, a str or a Version")


def quantity(amount: Amount) -> Quantity:
    """Return ``amount`` as a quantity.

    Raises:
        QuantityError: it is no quantity.
    """
    return amount if isinstance(amount, Quantity) else Quantity(amount)


def _capacity(value: Amount | resource.DeviceCapacity) -> resource.DeviceCapacity:
    if isinstance(value, resource.DeviceCapacity):
        return value
    return resource.DeviceCapacity(value=quantity(value))


def _counters(amounts: Mapping[str, Amount]) -> dict[str, resource.Counter]:
    return {name: resource.Counter(value=quantity(amount)) for name, amount in amounts.items()}
