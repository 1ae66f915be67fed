"""History of holdings in an SQLite file: which namespace held how many devices of a class, and when.

The advisor writes it and `kubectl dra usage` reads it, at the same time if need be. The file is bounded: what ended
longer ago than ``days`` is deleted, and the oldest of more than a million rows.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.api.resource import ResourceClaim
from cathedra.clock import Clock
from cathedra.kinds.resource.claims.usage import classes_by_request

DAYS: Final = 30.0
"""Default number of days for which holdings that have ended are kept."""
MOST_ROWS: Final = 1_000_000
_PRUNED_EVERY: Final = 3600.0
_BUSY_SECONDS: Final = 5.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS holdings (
    uid TEXT NOT NULL, device_class TEXT NOT NULL, driver TEXT NOT NULL, since REAL NOT NULL,
    namespace TEXT NOT NULL, claim TEXT NOT NULL, node TEXT NOT NULL, devices INTEGER NOT NULL, ended REAL,
    PRIMARY KEY (uid, device_class, driver, since)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS holdings_ended ON holdings (ended);
CREATE TABLE IF NOT EXISTS writer (id INTEGER PRIMARY KEY CHECK (id = 0), seen REAL NOT NULL);
"""


class HistoryWriter:
    """Observer of holdings that keeps them in a file. `close` it at the end."""

    def __init__(self, path: Path, clock: Clock, *, days: float = DAYS) -> None:
        """Open or create the file.

        Raises:
            InvalidInput: it cannot be written, or is no such file.
        """
        self._clock, self._days = clock, days
        self._pruned = 0.0
        try:
            self._database = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)
            self._database.execute("PRAGMA journal_mode=WAL")
            # A crash of the machine may lose the last seconds of a history, and a sync for each claim would be slow.
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.executescript(_SCHEMA)
            # What ended while no advisor ran is taken to have ended when the last one wrote; what is held still is
            # reported again, and reopened.
            self._database.execute(
                "UPDATE holdings SET ended = max(since, (SELECT seen FROM writer)) WHERE ended IS NULL "
                "AND EXISTS (SELECT 1 FROM writer)"
            )
        except sqlite3.Error as error:
            raise InvalidInput(f"{path}: {error}") from error

    def begun(self, holding: ClaimHolding) -> None:
        """Enter a holding, or reopen one that an earlier process has closed."""
        values = (holding.uid, holding.device_class, holding.driver, holding.since)
        self._database.execute(
            "INSERT INTO holdings (uid, device_class, driver, since, namespace, claim, node, devices) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET ended = NULL, node = excluded.node, devices = excluded.devices",
            (*values, holding.namespace, holding.claim, holding.node, holding.devices),
        )
        self._note()

    def ended(self, holding: ClaimHolding, at: float) -> None:
        """Enter the end of a holding."""
        self._database.execute(
            "UPDATE holdings SET ended = ? WHERE uid = ? AND device_class = ? AND driver = ? AND ended IS NULL",
            (at, holding.uid, holding.device_class, holding.driver),
        )
        self._note()

    def close(self) -> None:
        """Close the file; the writer is of no use afterwards."""
        self._note()
        self._database.close()

    def _note(self) -> None:
        now = self._clock.now()
        self._database.execute(
            "INSERT INTO writer VALUES (0, ?) ON CONFLICT DO UPDATE SET seen = excluded.seen", (now,)
        )
        if now - self._pruned < _PRUNED_EVERY:
            return
        self._pruned = now
        self._database.execute("DELETE FROM holdings WHERE ended < ?", (now - self._days * 86400,))
        self._database.execute(
            "DELETE FROM holdings WHERE ended <= (SELECT ended FROM holdings WHERE ended IS NOT NULL "
            "ORDER BY ended DESC LIMIT 1 OFFSET ?)",
            (MOST_ROWS,),
        )


def read_history(path: Path, start: float, end: float) -> Iterator[tuple[ClaimHolding, float]]:
    """Yield the holdings between two wall-clock times, with the seconds of each that lie between them.

    Raises:
        InvalidInput: there is no such file, or it is no history.
    """
    if not path.is_file():
        raise InvalidInput(f"{path}: there is no such file")
    try:
        # Read-only: the advisor may be writing at this moment.
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
        try:
            rows = database.execute(
                "SELECT uid, namespace, claim, device_class, driver, node, devices, since, ended FROM holdings "
                "WHERE since < ? AND (ended IS NULL OR ended > ?)",
                (end, start),
            ).fetchall()
        finally:
            database.close()
    except sqlite3.Error as error:
        raise InvalidInput(f"{path}: {error}") from error
    for uid, namespace, claim, device_class, driver, node, devices, since, ended in rows:
        seconds = min(end, end if ended is None else ended) - max(start, since)
        holding = ClaimHolding(uid, namespace, claim, device_class, driver, node, devices, since)
        yield holding, max(seconds, 0.0)


class ClaimHolding(msgspec.Struct, frozen=True):
    """The devices of one class that a claim holds."""

    uid: str
    """UID of the claim."""
    namespace: str
    claim: str
    device_class: str
    driver: str
    node: str
    """"" if the devices can be used on several nodes."""
    devices: int
    since: float
    """Wall-clock time of the allocation, or of the first sight of it. Seconds."""


def holdings_of(claim: ResourceClaim, seen: float) -> Iterator[ClaimHolding]:
    """Yield what a claim holds. ``seen`` is the wall-clock time for allocations that carry none."""
    allocation = claim.status.allocation
    if allocation is None:
        return
    classes = classes_by_request(claim)
    # Admin access takes nothing from others.
    counted = Counter(
        (classes.get(one.request, ""), one.driver) for one in allocation.devices.results if not one.admin_access
    )
    since = allocation.allocation_timestamp.timestamp if allocation.allocation_timestamp else seen
    for (device_class, driver), devices in counted.items():
        metadata = claim.metadata
        node = _node(claim)
        yield ClaimHolding(metadata.uid, metadata.namespace, metadata.name, device_class, driver, node, devices, since)


def _node(claim: ResourceClaim) -> str:
    """Return the only node on which the claim can be used; "" if there are several."""
    allocation = claim.status.allocation
    selector = allocation.node_selector if allocation is not None else None
    for term in selector.node_selector_terms if selector is not None else ():
        for one in term.match_fields:
            if one.key == "metadata.name" and len(one.values) == 1:
                return one.values[0]
    return ""
