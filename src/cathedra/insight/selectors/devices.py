"""Names that selectors can use: the attributes and capacities of devices in a state, with their types."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from cathedra.allocation.checks.selectors import cel_device
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.api.resource import DeviceAttribute
from cathedra.cel.errors import EvaluationError
from cathedra.cel.selector import CompiledSelector
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.selectors.reads import Read

_FIELDS = {
    "int_": "int",
    "bool_": "bool",
    "string": "string",
    "version": "version",
    "ints": "list",
    "bools": "list",
    "strings": "list",
    "versions": "list",
}


class DeviceCatalog:
    """The devices of the newest generation of every pool, and the names they have."""

    def __init__(self, state: ClusterState, driver: str = "") -> None:
        self.devices: tuple[DeviceRecord, ...] = tuple(
            device
            for _, records in sorted(state.cluster.inventory.snapshot().pools.items())
            for record in records
            if record.generation == max(one.generation for one in records)
            for device in record.devices
            if not driver or device.id[0] == driver
        )
        self._types: dict[Read, set[str]] = {}
        seen: set[int] = set()
        for device in self.devices:
            if device.signature.number not in seen:
                seen.add(device.signature.number)
                self._enter(device)

    def _enter(self, device: DeviceRecord) -> None:
        for name, value in device.signature.attributes.items():
            self._types.setdefault(_read("attributes", name, device.id[0]), set()).add(_type_of(value))
        for name in device.signature.capacity:
            self._types.setdefault(_read("capacity", name, device.id[0]), set()).add("quantity")

    @property
    def reads(self) -> Mapping[Read, set[str]]:
        """Every attribute and capacity that some device has, and its types."""
        return self._types

    def types(self, read: Read) -> set[str]:
        """Return the types that devices have there; empty if none has it."""
        return self._types.get(read, set())

    def absence(self, read: Read) -> str:
        """Return a sentence with the reason why a read finds nothing."""
        what = "attribute" if read.map == "attributes" else "capacity"
        other = Read("capacity" if read.map == "attributes" else "attributes", read.domain, read.name)
        if self.types(other):
            one, not_one = ("a capacity", "an attribute") if other.map == "capacity" else ("an attribute", "a capacity")
            return f"{read} is {one} of the devices, not {not_one}"
        if not any(one.domain == read.domain for one in self._types):
            domains = sorted({one.domain for one in self._types})
            return f"no device has anything of domain {read.domain}; there are {', '.join(domains[:4])}"
        return f"no device has the {what} {read}"

    def suggestion(self, read: Read) -> str:
        """Return the expression that was probably meant; "" if nothing is near."""
        if self.types(Read("capacity", read.domain, read.name)):
            return f'device.capacity["{read.domain}"].{read.name}'
        if self.types(Read("attributes", read.domain, read.name)):
            return f'device.attributes["{read.domain}"].{read.name}'
        near = {one.name: one for one in self._types if one.map == read.map and one.domain == read.domain}
        elsewhere = {one.domain: one for one in self._types if one.map == read.map and one.name == read.name}
        close = difflib.get_close_matches(read.name, near, 1) or [*elsewhere][:1]
        if not close:
            return ""
        meant = near.get(close[0]) or elsewhere[close[0]]
        return f'did you mean device.{read.map}["{meant.domain}"].{meant.name}?'


def matching_devices(
    selector: CompiledSelector, devices: Iterable[DeviceRecord]
) -> tuple[list[DeviceRecord], list[tuple[DeviceRecord, str]]]:
    """Return the devices that match, and those on which the selector fails, with the error's text."""
    passed: list[DeviceRecord] = []
    failed: list[tuple[DeviceRecord, str]] = []
    known: dict[int, bool | str] = {}
    for device in devices:
        number = device.signature.number
        # Devices with equal signatures have equal results; a cluster has many devices and few signatures.
        if number not in known:
            try:
                known[number] = selector.matches(cel_device(device.signature))
            except EvaluationError as error:
                known[number] = error.text
        verdict = known[number]
        if isinstance(verdict, str):
            failed.append((device, verdict))
        elif verdict:
            passed.append(device)
    return passed, failed


def _read(kind: str, name: str, driver: str) -> Read:
    domain, slash, rest = name.partition("/")
    return Read(kind, domain, rest) if slash else Read(kind, driver, name)


def _type_of(value: DeviceAttribute) -> str:
    for field, name in _FIELDS.items():
        if getattr(value, field) not in (None, ()):
            return name
    return "unknown"
