"""Devices as selectors see them: declared types for the checker, values for the evaluation, sizes for the estimate.

A slice's attributes and capacities are converted once into a `DeviceView`; equal devices share one (by their
signature), and a selector caches its result per view. The hot path of the allocator begins here (docs/spec/cel.md §1 to
§3 and §7.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from cathedra.cel.checking import types
from cathedra.cel.checking.types import Type
from cathedra.cel.environment import BASE_LIBRARIES, Environment
from cathedra.cel.errors import EvaluationError
from cathedra.cel.library.quantity import QuantityValue
from cathedra.cel.library.semver import Semver, SemverError
from cathedra.cel.values import CELValue

if TYPE_CHECKING:
    from cathedra.api.resource import ResourceSlice

Mode = Literal["new", "stored"]

_DRIVER_SIZE: Final = 63
_DOMAIN_SIZE: Final = 63
_ID_SIZE: Final = 32
_ENTRIES: Final = 32
_VALUE_SIZE: Final = 64


class Attribute(Protocol):
    """Value of a device attribute. Exactly one field is set, the others are None or empty lists."""

    @property
    def int_(self) -> int | None: ...
    @property
    def bool_(self) -> bool | None: ...
    @property
    def string(self) -> str | None: ...
    @property
    def version(self) -> str | None: ...
    @property
    def ints(self) -> tuple[int, ...] | None: ...
    @property
    def bools(self) -> tuple[bool, ...] | None: ...
    @property
    def strings(self) -> tuple[str, ...] | None: ...
    @property
    def versions(self) -> tuple[str, ...] | None: ...


class Capacity(Protocol):
    """Value of a device capacity."""

    @property
    def value(self) -> CELValue: ...


class DomainMap(dict[str, CELValue]):
    """Domain → identifier → value. A domain that does not exist gives an empty map, but ``in`` is false for it."""

    __slots__ = ()
    # One empty map for all: evaluation never changes it.
    default: Final[dict[str, CELValue]] = {}

    def __missing__(self, _: str) -> dict[str, CELValue]:
        return self.default


class DeviceView:
    """One device, ready for evaluation. Immutable; ``failure`` is the error of every evaluation, if its data are
    invalid;
    ``first_list`` names an attribute with a list, which selectors without DRAListTypeAttributes do not accept."""

    __slots__ = ("allow_multiple_allocations", "attributes", "capacity", "driver", "failure", "first_list", "root")

    def __init__(
        self,
        driver: str,
        allow_multiple_allocations: bool,
        attributes: DomainMap,
        capacity: DomainMap,
        failure: str,
        first_list: str,
    ) -> None:
        self.driver = driver
        self.allow_multiple_allocations = allow_multiple_allocations
        self.attributes, self.capacity, self.failure = attributes, capacity, failure
        self.first_list = first_list
        self.root = {
            "driver": driver,
            "allowMultipleAllocations": allow_multiple_allocations,
            "attributes": attributes,
            "capacity": capacity,
        }

    @classmethod
    def of(
        cls,
        driver: str,
        allow_multiple_allocations: bool | None,
        attributes: Mapping[str, Attribute],
        capacity: Mapping[str, Capacity],
    ) -> DeviceView:
        """Return the view of a device with the values that its slice declares.

        A name without «/» belongs to the driver's domain; the qualified name of the same attribute wins. Invalid data
        raise no error here: they make every evaluation fail (`EvaluationError`), as in Kubernetes.
        """
        failure = first_list = ""
        attribute_map, capacity_map = DomainMap(), DomainMap()
        # Qualified names last: they overwrite the short form of the same name.
        for name in sorted(attributes, key=_qualified_last):
            try:
                value = _value(attributes[name])
            except EvaluationError as error:
                # Only the first is reported, in sorted order; Go's order is random.
                failure = failure or f"attribute {name}: {error.text}"
                continue
            # Noted for the gate: Kubernetes refuses the device, not the selector.
            if isinstance(value, list):
                first_list = first_list or name
            _file(attribute_map, name, driver, value)
        for name in sorted(capacity, key=_qualified_last):
            _file(capacity_map, name, driver, QuantityValue.of(capacity[name].value))
        return cls(driver, bool(allow_multiple_allocations), attribute_map, capacity_map, failure, first_list)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> DeviceView:
        """Return the view of a device in the form of a ResourceSlice, with its ``driver`` beside.

        Raises:
            TypeError: it has another form.
        """
        # start-up time: the allocator's devices are decoded already
        import msgspec

        from cathedra.api.resource import Device
        from cathedra.api.struct import from_dict

        driver = given.get("driver")
        fields = {name: value for name, value in given.items() if name != "driver"}
        try:
            device = from_dict(Device, fields)
        except (msgspec.MsgspecError, ValueError) as error:
            raise TypeError(f"a device is written as in a ResourceSlice: {error}") from error
        if not isinstance(driver, str) or not driver:
            raise TypeError("a device in a dict needs its driver: {'driver': 'gpu.example.com', 'attributes': …}")
        return cls.of(driver, device.allow_multiple_allocations, device.attributes, device.capacity)

    @classmethod
    def from_slice(cls, piece: ResourceSlice) -> dict[str, DeviceView]:
        """Return the views of all devices of a ResourceSlice, by device name."""
        driver = piece.spec.driver
        return {
            device.name: cls.of(driver, device.allow_multiple_allocations, device.attributes, device.capacity)
            for device in piece.spec.devices
        }


def _qualified_last(name: str) -> tuple[bool, str]:
    return "/" in name, name


def _file(into: DomainMap, name: str, driver: str, value: CELValue) -> None:
    domain, slash, id_ = name.partition("/")
    if not slash:
        domain, id_ = driver, name
    into.setdefault(domain, {})[id_] = value


def _value(attribute: Attribute) -> CELValue:
    if attribute.ints:
        return list(attribute.ints)
    if attribute.bools:
        return list(attribute.bools)
    if attribute.strings:
        return list(attribute.strings)
    if attribute.versions:
        return [_version(text) for text in attribute.versions]
    if attribute.int_ is not None:
        return int(attribute.int_)
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    if attribute.version is not None:
        return _version(attribute.version)
    raise EvaluationError("unsupported attribute value")


def _version(text: str) -> Semver:
    try:
        return Semver.parse(text)
    except SemverError as error:
        raise EvaluationError(f"parse semantic version: {error}") from error


def size_of(path: tuple[str, ...]) -> int | None:
    """Return the largest size of what is found under ``path``, a variable followed by fields, ``@keys``, ``@values``,
    ``@items``."""
    if not path or path[0] != "device":
        return None
    place = "device"
    for name in path[1:]:
        place = _STEPS.get((place, name)) or _STEPS.get((place, "*"), "")
        if not place:
            return None
    return _SIZES[place]


_SIZES: Final = {
    "device": 0,
    "driver": _DRIVER_SIZE,
    "multi": 1,
    "attributes": _ENTRIES,
    "attributes of domain": _ENTRIES,
    "attribute": _VALUE_SIZE,
    "capacity": _ENTRIES,
    "capacity of domain": _ENTRIES,
    "quantity": 0,
    "domain": _DOMAIN_SIZE,
    "id": _ID_SIZE,
}
_STEPS: Final = {
    ("device", "driver"): "driver",
    ("device", "attributes"): "attributes",
    ("device", "capacity"): "capacity",
    ("device", "allowMultipleAllocations"): "multi",
    ("attributes", "@keys"): "domain",
    ("attributes", "@values"): "attributes of domain",
    ("attributes", "@items"): "attributes of domain",
    ("attributes of domain", "@keys"): "id",
    ("attributes of domain", "@values"): "attribute",
    ("attributes of domain", "@items"): "attribute",
    ("attributes of domain", "*"): "attribute",
    ("capacity", "@keys"): "domain",
    ("capacity", "@values"): "capacity of domain",
    ("capacity", "@items"): "capacity of domain",
    ("capacity of domain", "@keys"): "id",
    ("capacity of domain", "@values"): "quantity",
    ("capacity of domain", "@items"): "quantity",
}


@cache
def environment(*, consumable_capacity: bool, list_attributes: bool, mode: Mode) -> Environment:
    """Return the declarations of selectors. Stored expressions see every field and function; only the type of
    attributes follows the gate."""
    everything = mode == "stored"
    attribute = types.DYN if list_attributes else types.ANY
    fields: dict[str, Type] = {
        "driver": types.STRING,
        "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute)),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
    }
    if consumable_capacity or everything:
        fields["allowMultipleAllocations"] = types.BOOL
    libraries: tuple[str, ...] = (*BASE_LIBRARIES, "bindings")
    if list_attributes or everything:
        libraries = (*libraries, "includes")
    return Environment(
        variables={"device": types.struct("kubernetes.DRADevice")},
        objects={"kubernetes.DRADevice": fields},
        libraries=libraries,
        size_of=size_of,
    )
