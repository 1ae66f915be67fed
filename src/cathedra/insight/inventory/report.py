"""The devices of a cluster as rows, and their totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.reading.state import Note
from cathedra.insight.rendering import API_VERSION, Style, counted, plain, table_lines, wrapped
from cathedra.printable import printable_values

__all__ = ["DeviceEntry", "DeviceHolder", "DeviceList", "Total", "devices_text"]


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
    """«free»; «held»; «shared» (held in part, and there is room); «blocked» (shared counters that it needs are in use);
    «tainted»; «unusable» (its pool is incomplete or invalid); «gone» (held, but in no slice any more)."""
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
    """The selected devices, and totals by node, class, driver and, of those held, namespace."""

    devices: tuple[DeviceEntry, ...]
    total: Total
    nodes: tuple[Total, ...] = ()
    classes: tuple[Total, ...] = ()
    drivers: tuple[Total, ...] = ()
    namespaces: tuple[Total, ...] = ()
    pools: tuple[str, ...] = ()
    """Problems of pools: incomplete, old generations, invalid."""
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> JSONObject:
        """The answer as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "DeviceList", **found}


# --- text


_SHORT: Final = 20
"""Longest value of an attribute outside the wide form."""
_NODES: Final = 12
"""Largest number of nodes with totals outside the wide form."""
_MARKS: Final = {"free": "good", "shared": "good", "held": "", "blocked": "bad", "tainted": "bad"}


def devices_text(found: DeviceList, width: int = 100, style: Style = plain, *, wide: bool = False) -> str:
    """Return the rows and totals as text."""
    found = printable_values(found)
    lines = list(_lines(found, width, style, wide=wide))
    return "\n".join(line.rstrip() for line in lines)


def _lines(found: DeviceList, width: int, style: Style, *, wide: bool) -> Iterator[str]:
    if found.devices:
        name = "DRIVER/POOL/DEVICE" if wide else "DEVICE"
        head = ["NODE", name, "STATE", "HELD BY", "LEFT", "TAINTS", "ATTRIBUTES"]
        if wide:
            head += ["CLASSES", "HEALTH"]
        rows = [_cells(row, wide=wide) for row in found.devices]
        yield from table_lines(head, rows, None if wide else width, style, _MARKS)
        yield ""
    else:
        yield "no device matches"
        yield ""
    for title, totals in (
        ("driver", found.drivers),
        ("class", found.classes),
        ("node", found.nodes if len(found.nodes) <= _NODES or wide else ()),
    ):
        if totals:
            yield from table_lines(_head(title), [_total_cells(one) for one in totals], width, style)
            yield ""
    if found.namespaces:
        yield from table_lines(
            ("NAMESPACE", "DEVICES HELD"), [(one.name, str(one.held)) for one in found.namespaces], width, style
        )
        yield ""
    yield from wrapped(_sentence(found.total), width)
    for text in found.pools:
        yield from wrapped(f"! {text}", width, "", "  ")
    for note in found.notes:
        yield from wrapped(f"! {note.text}", width, "", "  ")


def _head(title: str) -> tuple[str, ...]:
    return (title.upper(), "DEVICES", "FREE", "HELD", "BLOCKED", "TAINTED", "UNUSABLE")


def _total_cells(one: Total) -> tuple[str, ...]:
    return (one.name, *map(str, (one.devices, one.free, one.held, one.blocked, one.tainted, one.unusable)))


def _sentence(total: Total) -> str:
    parts = [f"{getattr(total, name):,} {name}" for name in ("free", "held", "blocked", "tainted", "unusable")]
    return f"{counted(total.devices, 'device')}: {', '.join(part for part in parts if not part.startswith('0 '))}"


def _cells(row: DeviceEntry, *, wide: bool) -> tuple[str, ...]:
    attributes = {
        name: text for name, text in row.attributes.items() if wide or (len(text) <= _SHORT and "/" not in name)
    }
    name = "/".join((row.driver, row.pool, row.device)) if wide else row.device
    if not wide and row.pool not in (row.node, ""):
        name = f"{row.pool}/{row.device}"
    left = {**row.left, **(row.counters if row.state == "blocked" or wide else {})}
    shared = row.left or row.counters
    cells = (
        row.node or "–",
        name,
        row.state + ("" if row.health in ("", "Healthy") else f" {row.health.lower()}"),
        ", ".join(_holder(one) for one in row.holders) or "–",
        " ".join(f"{key}={text}" for key, text in left.items()) if shared else "",
        ",".join(row.taints),
        " ".join(f"{key}={text}" for key, text in {**attributes, **row.capacity}.items()),
    )
    return (*cells, ",".join(row.classes), row.health) if wide else cells


def _holder(one: DeviceHolder) -> str:
    pods = f" ({', '.join(one.pods[:2])}{' …' if len(one.pods) > 2 else ''})" if one.pods else ""
    consumed = " " + " ".join(f"{name}={amount}" for name, amount in one.consumed.items()) if one.consumed else ""
    return f"{one.claim}{consumed}{pods}" + (" admin" if one.admin_access else "")
