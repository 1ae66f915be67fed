"""The devices of a cluster as rows, and their totals."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.explanation.model import API_VERSION
from cathedra.insight.reading.state import Note

__all__ = ["DeviceEntry", "DeviceHolder", "DeviceList", "Total"]


class DeviceHolder(msgspec.Struct, frozen=True, rename="camel"):
    """A claim that holds a device, or a share of it."""

    claim: str
    """«namespace/name»."""
    pods: tuple[str, ...] = ()
    request: str = ""
    consumed: Mapping[str, str] = {}
    share_id: str = ""
    admin_access: bool = False
    """Admin access takes nothing away from others."""


class DeviceEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A device: where it is, what holds it, and what is left of it."""

    node: str
    """"" for devices that several nodes can use."""
    driver: str
    pool: str
    device: str
    state: str
    """«free»; «held»; «shared» (held in part, and there is room); «blocked» (what it needs of shared counters is in
    use); «tainted»; «unusable» (its pool is incomplete or invalid); «gone» (held, but in no slice any more)."""
    holders: tuple[DeviceHolder, ...] = ()
    classes: tuple[str, ...] = ()
    attributes: Mapping[str, str] = {}
    capacity: Mapping[str, str] = {}
    left: Mapping[str, str] = {}
    """Of devices that can be shared: capacity → what no claim has taken."""
    counters: Mapping[str, str] = {}
    """«set/counter» → «wanted of left»."""
    taints: tuple[str, ...] = ()
    health: str = ""
    """As pods report it: «Healthy», «Unhealthy», «Unknown»; "" if none does."""


class Total(msgspec.Struct, frozen=True, rename="camel"):
    """Devices counted; devices that block each other are all counted."""

    name: str
    devices: int = 0
    free: int = 0
    held: int = 0
    blocked: int = 0
    tainted: int = 0
    unusable: int = 0


class DeviceList(msgspec.Struct, frozen=True, rename="camel"):
    """All devices that were asked for, and totals by node, class, driver and, of those held, namespace."""

    devices: tuple[DeviceEntry, ...]
    total: Total
    nodes: tuple[Total, ...] = ()
    classes: tuple[Total, ...] = ()
    drivers: tuple[Total, ...] = ()
    namespaces: tuple[Total, ...] = ()
    pools: tuple[str, ...] = ()
    """What is unusual about pools: incomplete, old generations, invalid."""
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> JSONObject:
        """The answer as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "DeviceList", **found}
