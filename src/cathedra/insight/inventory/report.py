"""The devices of a cluster as rows, and their totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.insight.drawing.devices import WIDTH, devices_svg
from cathedra.insight.reading.state import Note
from cathedra.insight.rendering import API_VERSION, Style, plain, table_lines, wrapped
from cathedra.printable import counted, printable_values


# A cluster has tens of thousands of rows, and the collector would traverse them while more are made: a third of the
# time of a list. They refer to texts, numbers and each other in one direction, so there are no cycles to collect.
class DeviceHolder(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A claim that holds a device, or a share of it."""

    claim: str
    """The claim as «namespace/name»."""
    pods: tuple[str, ...] = ()
    request: str = ""
    consumed: Mapping[str, str] = {}
    share_id: str = ""
    admin_access: bool = False
    """Admin access takes nothing away from others."""
    share: float = 1.0
    """The share of the device that it takes: the largest of any capacity."""
    since: str = ""
    """Time of the allocation, if known."""
    conditions: tuple[str, ...] = ()
    """Conditions of the device in the claim's status, as «Attached=True»."""


class DeviceEntry(msgspec.Struct, frozen=True, rename="camel", gc=False):
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
    counter_set: str = ""
    """Of devices that share counters, as a GPU and its partitions do: the first counter set that it needs."""
    blocked_by: tuple[str, ...] = ()
    """Of blocked devices: the claims that have consumed the counters."""
    taints: tuple[str, ...] = ()
    health: str = ""
    """As pods report it: «Healthy», «Unhealthy», «Unknown»; "" if none does."""
    binding_conditions: tuple[str, ...] = ()
    """Conditions that have to be true before a pod with this device is bound."""
    at: float = 0.0
    """Of partitions: where they lie in the whole device, as a fraction of it."""
    size: float = 1.0
    """Of partitions: their share of the whole device."""
    lane: int = 0
    """Of partitions: the row in which no other partition lies at the same place."""
    used: float = 0.0
    """The share of the device that its holders have: 1 if it cannot be shared, else the largest share of a capacity."""


class DeviceGroup(msgspec.Struct, frozen=True, rename="camel"):
    """Devices that share a counter set, such as a GPU and its partitions: as many as fit can be held at a time."""

    node: str
    driver: str
    pool: str
    counter_set: str
    name: str
    """The shortest name of its devices, which is the whole device's."""
    state: str
    """«free»; «in part» (something is held, and there is room); «full»; «unusable» (nothing is held or free)."""
    devices: int
    free: int
    held: int
    blocked: int
    claims: tuple[str, ...]


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
    groups: tuple[DeviceGroup, ...] = ()
    """Of the selected devices those that share counters, by counter set."""
    pools: tuple[str, ...] = ()
    """Problems of pools: incomplete, old generations, invalid."""
    notes: tuple[Note, ...] = ()

    def __repr__(self) -> str:
        return f"DeviceList({len(self.devices)} devices on {len(self.nodes)} nodes)"

    def to_dict(self) -> JSONObject:
        """Return the answer as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "DeviceList", **found}

    def svg(self, width: int = WIDTH) -> str:
        """Return a picture of the devices, ``width`` pixels wide."""
        return devices_svg(self.to_dict(), width)

    def _repr_html_(self) -> str:
        return self.svg()


# --- text


_SHORT: Final = 20
"""Longest value of an attribute outside the wide form."""
_NODES: Final = 12
"""Largest number of nodes with totals outside the wide form."""
_MARKS: Final = {"free": "good", "shared": "good", "in part": "good", "held": "", "blocked": "bad", "tainted": "bad"}


def devices_text(found: DeviceList, width: int = 100, style: Style = plain, *, wide: bool = False) -> str:
    """Return the rows and totals as text."""
    found = printable_values(found)
    lines = list(_lines(found, width, style, wide=wide))
    return "\n".join(line.rstrip() for line in lines)


def _lines(found: DeviceList, width: int, style: Style, *, wide: bool) -> Iterator[str]:
    if found.devices and wide:
        for row in found.devices:
            yield from _block(row, width, style)
        yield ""
    elif found.devices:
        head = ("NODE", "DEVICE", "STATE", "HELD BY", "LEFT", "TAINTS", "ATTRIBUTES")
        yield from table_lines(head, list(_rows(found)), width, style, _MARKS)
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
    if found.groups:
        yield from wrapped(_partitioned(found), width)
        yield from wrapped(f"with partitions {_sentence(found.total)}", width)
    else:
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


def _partitioned(found: DeviceList) -> str:
    """Return the devices that can be partitioned, counted: 24 GPUs with 600 partitions are not 624 free devices."""
    states = Counter(group.state for group in found.groups)
    counts = ", ".join(
        f"{states[state]:,} {state}" for state in ("free", "in part", "full", "unusable") if states[state]
    )
    return f"{counted(len(found.groups), 'partitionable device')}: {counts}"


def _rows(found: DeviceList) -> Iterator[tuple[str, ...]]:
    """Yield a row for each device, and one for each group of devices that share counters."""
    groups = {(group.driver, group.pool, group.counter_set): group for group in found.groups}
    shown = set()
    for row in found.devices:
        key = (row.driver, row.pool, row.counter_set)
        if key not in groups:
            yield _cells(row)
        elif key not in shown:
            shown.add(key)
            yield _group_cells(groups[key])


def _group_cells(group: DeviceGroup) -> tuple[str, ...]:
    name = group.name if group.pool in (group.node, "") else f"{group.pool}/{group.name}"
    counts = (("free", group.free), ("held", group.held), ("blocked", group.blocked))
    left = ", ".join(f"{count} {state}" for state, count in counts if count)
    return (group.node or "–", name, group.state, ", ".join(group.claims) or "–", f"{left} of {group.devices}", "", "")


def _cells(row: DeviceEntry) -> tuple[str, ...]:
    attributes = {name: text for name, text in row.attributes.items() if len(text) <= _SHORT and "/" not in name}
    name = row.device if row.pool in (row.node, "") else f"{row.pool}/{row.device}"
    left = {**row.left, **(row.counters if row.state == "blocked" else {})}
    shared = row.left or row.counters
    return (
        row.node or "–",
        name,
        _state(row),
        _held_by(row),
        " ".join(f"{key}={text}" for key, text in left.items()) if shared else "",
        ",".join(row.taints),
        " ".join(f"{key}={text}" for key, text in {**attributes, **row.capacity}.items()),
    )


def _block(row: DeviceEntry, width: int, style: Style) -> Iterator[str]:
    """Yield the lines of one device with all that is known of it, within the width of a screen."""
    name = "/".join((row.driver, row.pool, row.device))
    where = f" on {row.node}" if row.node else ""
    yield f"{style(name, 'title')}{where}: {style(_state(row), _MARKS.get(row.state, ''))}"
    for word, text in (
        ("held by", ", ".join(_holder(one) for one in row.holders)),
        ("blocked by", ", ".join(row.blocked_by)),
        ("left", " ".join(f"{key}={text}" for key, text in row.left.items())),
        ("counters", ", ".join(f"{key} {text}" for key, text in row.counters.items())),
        ("taints", ",".join(row.taints)),
        ("attributes", " ".join(f"{key}={text}" for key, text in row.attributes.items())),
        ("capacity", " ".join(f"{key}={text}" for key, text in row.capacity.items())),
        ("classes", ", ".join(row.classes)),
        ("health", row.health),
    ):
        if text:
            yield from wrapped(f"{word}: {text}", width, "  ", "    ")


def _state(row: DeviceEntry) -> str:
    return row.state + ("" if row.health in ("", "Healthy") else f" {row.health.lower()}")


def _held_by(row: DeviceEntry) -> str:
    if row.blocked_by:
        return f"blocked by {', '.join(row.blocked_by)}"
    return ", ".join(_holder(one) for one in row.holders) or "–"


def _holder(one: DeviceHolder) -> str:
    pods = f" ({', '.join(one.pods[:2])}{' …' if len(one.pods) > 2 else ''})" if one.pods else ""
    consumed = " " + " ".join(f"{name}={amount}" for name, amount in one.consumed.items()) if one.consumed else ""
    return f"{one.claim}{consumed}{pods}" + (" admin" if one.admin_access else "")
