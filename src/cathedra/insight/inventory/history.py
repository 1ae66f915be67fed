"""History of holdings in an SQLite file: which namespace held how many devices of a class, and when.

The advisor writes it and `kubectl dra usage` reads it, also at the same time. The file is bounded: what ended longer
ago than ``days`` is deleted, and the oldest of more than a million rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cathedra.allocation.errors import InvalidInput
from cathedra.clock import Clock
from cathedra.insight.inventory.holdings import ClaimHolding

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
    """Observer of holdings that stores them in a file. Call `close` at the end."""

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
        """Insert a holding, or reopen one that an earlier process has closed."""
        values = (holding.uid, holding.device_class, holding.driver, holding.since)
        self._database.execute(
            "INSERT INTO holdings (uid, device_class, driver, since, namespace, claim, node, devices) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET ended = NULL, node = excluded.node, devices = excluded.devices",
            (*values, holding.namespace, holding.claim, holding.node, holding.devices),
        )
        self._note()

    def ended(self, holding: ClaimHolding, at: float) -> None:
        """Record the end of a holding."""
        self._database.execute(
            "UPDATE holdings SET ended = ? WHERE uid = ? AND device_class = ? AND driver = ? AND ended IS NULL",
            (at, holding.uid, holding.device_class, holding.driver),
        )
        self._note()

    def close(self) -> None:
        """Close the file. The observer must not be used afterwards."""
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
