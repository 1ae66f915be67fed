"""The form of a profile: a YAML document with ``apiVersion: cathedra.dev/v1`` and ``kind: Profile``.

Devices stand in it as they do in a ResourceSlice of ``resource.k8s.io/v1``, with placeholders where devices or nodes
differ (`cathedra.profiles.loading`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from cathedra.api.resource import DeviceClass

API_VERSION: Final = "cathedra.dev/v1"
KIND: Final = "Profile"
PARTITIONED: Final = "-mig"
"""Suffix of the name of a profile whose devices are offered in all their partitions."""


class ProfileError(ValueError):
    """There is no such profile, or a file is not valid; the text names it and the error."""


class _ProfilePart(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A part of a profile; a field that is not known is an error."""


class Follows(_ProfilePart, frozen=True, kw_only=True):
    """The driver that publishes such devices."""

    driver: str
    version: str = ""
    """Version of the source, in the vendor's words."""
    source: str = ""


class NodeShape(_ProfilePart, frozen=True, kw_only=True):
    """Labels and capacity of such a node."""

    labels: dict[str, str] = {}
    capacity: dict[str, str] = {}
    """Resources by name, as quantities."""


class ProfileAmount(_ProfilePart, frozen=True, kw_only=True):
    """A capacity of a partition, and the counter that it is taken from."""

    capacity: str
    counter: str


class PartitionKind(_ProfilePart, frozen=True, kw_only=True):
    """One way to cut a part out of a device."""

    values: dict[str, str | int]
    """Placeholders of the partition's template."""
    amounts: dict[str, str | int]
    """Amount of each capacity."""
    starts: tuple[int, ...]
    """The slices at which such a part can begin."""
    size: int
    """Number of adjacent slices that it takes."""


class Partitions(_ProfilePart, frozen=True, kw_only=True):
    """The parts into which a device can be cut; all of them consume one counter set."""

    counter_set: str
    slices: int
    slice_counter: str
    """The counter of a slice, with the placeholder ``{slice}``."""
    whole: bool
    """True if the driver offers the uncut device beside its parts."""
    device: dict[str, Any]
    """The template of a part: a device without capacity and counters."""
    amounts: tuple[ProfileAmount, ...]
    kinds: tuple[PartitionKind, ...]


class Group(_ProfilePart, frozen=True, kw_only=True):
    """Devices that are there ``count`` times."""

    count: int = 1
    values: dict[str, tuple[str | int, ...]] = {}
    """Placeholder → its value in each repetition."""
    shared_counters: tuple[dict[str, Any], ...] = ()
    """Counter sets, as in a ResourceSlice."""
    devices: tuple[dict[str, Any], ...]
    partitions: Partitions | None = None


class PoolTemplate(_ProfilePart, frozen=True, kw_only=True):
    """A pool of a node, in the order of preference in which its driver publishes the devices."""

    driver: str
    name: str = "{node}"
    groups: tuple[Group, ...]


class HardwareProfile(_ProfilePart, frozen=True, kw_only=True):
    """A kind of node with its devices."""

    name: str
    description: str
    follows: tuple[Follows, ...] = ()
    sources: tuple[str, ...] = ()
    """Sources of figures that the driver's own sources do not have."""
    unconfirmed: tuple[str, ...] = ()
    """Figures that may differ on real machines."""
    node: NodeShape = NodeShape()
    device_classes: tuple[DeviceClass, ...] = ()
    """The classes that come with the drivers."""
    pools: tuple[PoolTemplate, ...]
    partitioned: bool = False
    """True if devices are offered in partitions, where they have any."""

    @property
    def can_be_partitioned(self) -> bool:
        """True if some of its devices can be partitioned."""
        return any(group.partitions is not None for pool in self.pools for group in pool.groups)

    @property
    def uses_counters(self) -> bool:
        """True if its devices consume shared counters (feature gate DRAPartitionableDevices)."""
        if self.partitioned:
            return True
        return any(group.shared_counters for pool in self.pools for group in pool.groups)

    @property
    def drivers(self) -> tuple[str, ...]:
        """The names of the drivers, each once, in the order of the pools."""
        return tuple(dict.fromkeys(pool.driver for pool in self.pools))
