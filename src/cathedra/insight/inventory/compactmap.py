"""Compact form of the device map: a third of the bytes, with which a page draws first.

Devices of equal form share one entry for driver, classes, attributes and capacity. Each device is an array; what most
devices do not have, as holders and taints, is an object at its end that lists only the fields that differ from their
defaults. `page/static/model.js` expands it to the form of `ClusterMap`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import asdict, astuple

from cathedra.insight.inventory.clustermap import ClusterMap, DeviceMap
from cathedra.insight.inventory.report import DeviceEntry, DeviceHolder
from cathedra.insight.rendering import API_VERSION

_ENCODER: Final = msgspec.json.Encoder()


class DeviceForm(msgspec.Struct, frozen=True, rename="camel"):
    """Properties that interchangeable devices have in common."""

    driver: str
    classes: tuple[str, ...] = ()
    attributes: Mapping[str, str] = {}
    capacity: Mapping[str, str] = {}


class CompactHolder(DeviceHolder, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A `DeviceHolder` without the fields that have their defaults."""


class DeviceRest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """The fields of a `DeviceEntry` that most devices do not have."""

    holders: tuple[CompactHolder, ...] = ()
    left: Mapping[str, str] = {}
    counters: Mapping[str, str] = {}
    counter_set: str = ""
    blocked_by: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    health: str = ""
    binding_conditions: tuple[str, ...] = ()
    at: float = 0.0
    size: float = 1.0
    lane: int = 0
    used: float = 0.0


class CompactDevice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A device as an array."""

    form: int
    """Index into ``forms`` of the map."""
    node: str
    pool: str
    device: str
    state: str
    rest: DeviceRest | None = None


class CompactSubject(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A `MapSubject` as an array of all its fields."""

    kind: str
    namespace: str
    name: str
    state: str
    waits: bool
    claims: tuple[str, ...]
    owner: str
    replicas: int | None
    since: str


class CompactMap(DeviceMap[CompactDevice, CompactSubject], frozen=True, kw_only=True, rename="camel"):
    """A `ClusterMap` in fewer bytes."""

    forms: tuple[DeviceForm, ...]

    def encode(self) -> bytes:
        """Return the map as JSON."""
        head = _ENCODER.encode({"apiVersion": API_VERSION, "kind": "CompactMap"})
        return b"%b,%b" % (head[:-1], _ENCODER.encode(self)[1:])


def compact_map(given: ClusterMap) -> CompactMap:
    """Return the compact form of a map."""
    forms: dict[tuple[str, int, int, tuple[str, ...]], int] = {}
    entries: list[DeviceForm] = []
    found: list[CompactDevice] = []
    for one in given.devices:
        # Rows of one form share these objects (`DeviceListing`), so their identity is enough; the map keeps them alive.
        key = (one.driver, id(one.attributes), id(one.capacity), one.classes)
        number = forms.get(key)
        if number is None:
            number = forms[key] = len(entries)
            entries.append(DeviceForm(one.driver, one.classes, one.attributes, one.capacity))
        found.append(CompactDevice(number, one.node, one.pool, one.device, one.state, _rest(one)))
    return CompactMap(
        **{
            **asdict(given),
            "devices": tuple(found),
            "subjects": tuple(CompactSubject(*astuple(one)) for one in given.subjects),
            "forms": tuple(entries),
        }
    )


def _rest(one: DeviceEntry) -> DeviceRest | None:
    if not (one.holders or one.left or one.counters or one.taints or one.health or one.binding_conditions):
        return None
    return DeviceRest(
        tuple(CompactHolder(*astuple(holder)) for holder in one.holders),
        one.left,
        one.counters,
        one.counter_set,
        one.blocked_by,
        one.taints,
        one.health,
        one.binding_conditions,
        one.at,
        one.size,
        one.lane,
        one.used,
    )
