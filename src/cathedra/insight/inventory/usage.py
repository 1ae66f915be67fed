"""Use of devices by namespace, class, driver or node: now, over a time, and beside the quotas."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.core_v1 import ResourceQuota
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.insight.inventory.holdings import ClaimHolding, holdings_of
from cathedra.insight.reading.state import ClusterState, Note
from cathedra.insight.rendering import API_VERSION, Style, plain, table_lines, wrapped
from cathedra.kinds.resource.claims.devicequota import Amounts, amount, held_by_namespace, held_limits
from cathedra.kinds.resource.claims.usage import COUNT_CLAIMS, DEVICES_SUFFIX
from cathedra.printable import printable_values

GROUPS: Final[Mapping[str, Callable[[ClaimHolding], str]]] = {
    "namespace": lambda one: one.namespace,
    "class": lambda one: one.device_class,
    "driver": lambda one: one.driver,
    "node": lambda one: one.node or "–",
}
"""Values of ``--by``, and the name under which a holding is counted."""


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
HIDDEN_NAMESPACE: Final = "(hidden)"
"""Stands for all namespaces whose names the reader may not learn. No namespace has such a name."""


class UsageRow(msgspec.Struct, frozen=True, rename="camel"):
    """Use by one namespace, class, driver or node."""

    name: str
    claims: int
    """Claims that hold devices now."""
    devices: int
    """Devices that they hold now."""
    device_hours: float | None = None
    """Device-hours in the period; None without a history."""


class QuotaUse(msgspec.Struct, frozen=True, rename="camel"):
    """A limit on devices or claims, and the charge against it."""

    namespace: str
    quota: str
    resource: str
    used: str
    hard: str


class UsageReport(msgspec.Struct, frozen=True, rename="camel"):
    """Use of devices, the largest first."""

    by: str
    """«namespace», «class», «driver» or «node»."""
    rows: tuple[UsageRow, ...]
    quotas: tuple[QuotaUse, ...] = ()
    seconds: float | None = None
    """Length of the time for which device-hours are counted."""
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "UsageReport", **found}


class UsagePeriod(msgspec.Struct, frozen=True):
    """A time in the history of an advisor."""

    history: Path
    start: float
    end: float
    """Wall-clock times, in seconds."""
    namespaces: frozenset[str] | None = None
    """Namespaces that are named; others are summed as `HIDDEN_NAMESPACE`. None: all are named."""

    def name(self, holding: ClaimHolding) -> ClaimHolding:
        """Return a holding of the history with the namespace under which it is summed."""
        if self.namespaces is None or holding.namespace in self.namespaces:
            return holding
        return msgspec.structs.replace(holding, namespace=HIDDEN_NAMESPACE)

    @staticmethod
    def seconds(text: str) -> float:
        """Return the length of a time such as ``90m``, ``24h`` or ``7d``.

        Raises:
            ValueError: it has another form.
        """
        number, unit = text[:-1], text[-1:]
        if unit not in _UNITS or not number.isdecimal() or not 0 < int(number) < 100_000:
            raise ValueError(text)
        return float(int(number) * _UNITS[unit])


def usage(
    state: ClusterState, *, by: str = "namespace", namespace: str = "", period: UsagePeriod | None = None
) -> UsageReport:
    """Return the use of devices of one namespace ("": of all), now and in a period.

    Raises:
        InvalidInput: ``by`` is not known, or the history cannot be read.
    """
    if by not in GROUPS:
        raise InvalidInput(f"--by {by!r} is none of {', '.join(GROUPS)}")
    name_of = GROUPS[by]
    held = [
        one for claim in state.all(ResourceClaim) for one in holdings_of(claim, 0.0) if namespace in ("", one.namespace)
    ]
    devices: Counter[str] = Counter()
    claims: dict[str, set[str]] = {}
    for one in held:
        devices[name_of(one)] += one.devices
        claims.setdefault(name_of(one), set()).add(one.uid)
    hours: dict[str, float] = {}
    if period is not None:
        # inside: a history is in SQLite, which the Python of a page lacks
        from cathedra.insight.inventory.history import read_history

        for held_then, seconds in read_history(period.history, period.start, period.end):
            one = period.name(held_then)
            if namespace in ("", one.namespace):
                hours[name_of(one)] = hours.get(name_of(one), 0.0) + one.devices * seconds / 3600
    rows = tuple(
        UsageRow(
            name,
            len(claims.get(name, ())),
            devices[name],
            round(hours.get(name, 0.0), 2) if period is not None else None,
        )
        for name in sorted({*devices, *hours}, key=lambda name: (-devices[name], -hours.get(name, 0.0), name))
    )
    length = period.end - period.start if period is not None else None
    notes = state.notes_on(ResourceClaim, ResourceQuota)
    return UsageReport(by, rows, tuple(_quotas(state, namespace)), length, notes)


def _quotas(state: ClusterState, namespace: str) -> Iterator[QuotaUse]:
    """Yield the limits on devices and claims. What claims hold is counted here: Kubernetes counts requests only."""
    held: dict[str, Amounts] | None = None
    for quota in state.all(ResourceQuota):
        metadata = quota.metadata
        if namespace not in ("", metadata.namespace):
            continue
        if limits := held_limits(quota):
            held = held if held is not None else held_by_namespace(state.all(ResourceClaim), state.all(ResourceSlice))
            for resource, hard in sorted(limits.items()):
                nanos = held.get(metadata.namespace, {}).get(resource, 0)
                yield QuotaUse(metadata.namespace, metadata.name, resource, str(amount(nanos, hard)), str(hard))
        for resource, hard in sorted((quota.status.hard or quota.spec.hard).items()):
            if resource == COUNT_CLAIMS or resource.endswith(DEVICES_SUFFIX):
                used = quota.status.used.get(resource)
                yield QuotaUse(metadata.namespace, metadata.name, resource, str(used or 0), str(hard))


# --- text


def usage_text(found: UsageReport, width: int | None = 100, style: Style = plain) -> str:
    """Return the report as tables."""
    found = printable_values(found)
    return "\n".join(line.rstrip() for line in _lines(found, width, style))


def _lines(found: UsageReport, width: int | None, style: Style) -> Iterator[str]:
    if not found.rows:
        yield "no devices are held"
    else:
        yield from table_lines(*_table(found), width, style)
    if found.quotas:
        yield ""
        rows = [(one.namespace, one.quota, one.resource, one.used, one.hard) for one in found.quotas]
        yield from table_lines(("NAMESPACE", "QUOTA", "RESOURCE", "USED", "HARD"), rows, width, style)
    for note in dict.fromkeys(note.text for note in found.notes):
        yield from wrapped(f"! {note}", width or 100, "", "  ")


def _table(found: UsageReport) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    head = (found.by.upper(), "CLAIMS", "DEVICES", "DEVICE-HOURS")
    rows: list[tuple[str, ...]] = [(one.name, str(one.claims), str(one.devices), _hours(one)) for one in found.rows]
    return head, rows


def _hours(row: UsageRow) -> str:
    return "" if row.device_hours is None else f"{row.device_hours:.2f}"


def usage_csv(found: UsageReport) -> str:
    """Return the rows as CSV, with a head."""
    return _csv((found.by, "claims", "devices", "deviceHours"), _table(found)[1])


def _csv(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(head)
    # A name that begins with a sign of a formula would be run by a spreadsheet; Kubernetes' names cannot.
    writer.writerows(rows)
    return output.getvalue().rstrip("\n")
