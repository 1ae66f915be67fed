"""Planted bugs: each changes one function of the code while its context is active.

They measure whether the simulation finds what it is there to find (docs/reliability.md, «Planted bugs»).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from cathedra.allocation.supply import ledger
from cathedra.apiserver.registry.commitlog import CommitLog
from cathedra.apiserver.registry.deviceholders import DeviceHolders
from cathedra.apiserver.registry.table import Table
from cathedra.controllers.resourceclaim.release import ClaimRelease
from cathedra.faultsim.stores import SharedStore
from cathedra.node.claims import checkpoint
from cathedra.node.claims.checkpoint import MemoryCheckpoint
from cathedra.scheduler import unitcycle

__all__ = ["PLANTED", "unfenced"]


@contextmanager
def double_allocation() -> Iterator[None]:
    """The ledger forgets every fifth claim, and the API server does not compare claims."""
    original = ledger.Ledger._enter
    counts = {"claims": 0}

    def enter(self: Any, uid: str, name: str, results: Any) -> None:
        counts["claims"] += 1
        if counts["claims"] % 5:
            original(self, uid, name, results)

    with patch.object(ledger.Ledger, "_enter", enter), unguarded():
        yield


def unguarded() -> AbstractContextManager[Any]:
    """Take out the guard behind which errors of a scheduler would hide."""
    return patch.object(DeviceHolders, "check", lambda *_: ())


def unfenced() -> AbstractContextManager[Any]:
    """Let the store that several servers share compare the key of a write alone."""

    async def write(self: SharedStore, key: str, value: bytes | None, *, expected: int, **_: Any) -> int:
        return await original(self, key, value, expected=expected, fences={})

    original = SharedStore.write_fenced
    return patch.object(SharedStore, "write_fenced", write)


@contextmanager
def lost_write() -> Iterator[None]:
    """One write in a hundred is acknowledged and never reaches the store."""

    def forgetting(original: Any) -> Any:
        def commit(self: Any, *arguments: Any) -> Any:
            # By revision, so that each run of a plan loses the same writes.
            if (self._assigned + 1) % 100:
                return original(self, *arguments)
            storage, self._storage = self._storage, _Forgetful()
            try:
                return original(self, *arguments)
            finally:
                self._storage = storage

        return commit

    changed = patch.object(CommitLog, "put", forgetting(CommitLog.put))
    with changed, patch.object(CommitLog, "remove", forgetting(CommitLog.remove)):
        yield


class _Forgetful:
    healthy = True

    def commit(self, write: Any, settled: Callable[[None], None]) -> None:
        settled(None)


@contextmanager
def leaked_claim() -> Iterator[None]:
    """The allocation of a claim stays when its last pod goes."""
    with patch.object(ClaimRelease, "unused", lambda self, claim, status: status):
        yield


@contextmanager
def missed_watch_event() -> Iterator[None]:
    """One change in two hundred is entered and not sent to watchers."""
    original = Table.apply
    counts = {"changes": 0}

    def apply(self: Any, change: Any) -> None:
        counts["changes"] += 1
        if counts["changes"] % 200:
            original(self, change)
            return
        with patch.object(type(change), "broadcast", lambda *_: None):
            original(self, change)

    with patch.object(Table, "apply", apply):
        yield


@contextmanager
def gang_below_minimum() -> Iterator[None]:
    """A gang of which two members fit counts as complete, and its others as pods that still come."""
    original = unitcycle.placement_feasible

    def feasible(node: Any, scheduled: int, remaining: int) -> Any:
        return None if scheduled >= 2 else original(node, scheduled, remaining + 3)

    with patch.object(unitcycle, "placement_feasible", feasible):
        yield


@contextmanager
def count_overflow() -> Iterator[None]:
    """Counters that partitions consume are not subtracted, and the API server does not compare claims."""
    original = ledger._charged

    def charged(pool: Any, held: Any) -> Any:
        return dict(pool.counters), original(pool, held)[1]

    with patch.object(ledger, "_charged", charged), unguarded():
        yield


@contextmanager
def null_checkpoint() -> Iterator[None]:
    """The checkpoint has a valid form and no claims."""
    original = checkpoint.encode_checkpoint

    async def save(self: MemoryCheckpoint, infos: Any) -> None:
        self._data = original(())

    with patch.object(MemoryCheckpoint, "save", save):
        yield


@contextmanager
def claim_freed_in_use() -> Iterator[None]:
    """The controller takes every fourth consumer for one that has ended."""
    counts = {"consumers": 0}

    def needs(self: Any, namespace: str, consumer: Any) -> bool:
        counts["consumers"] += 1
        return bool(counts["consumers"] % 4)

    with (
        patch.object(ClaimRelease, "_needs", needs),
        patch.object(ClaimRelease, "may_have_work", lambda self, claim: True),
    ):
        yield


PLANTED: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "double allocation": double_allocation,
    "lost write": lost_write,
    "leaked claim": leaked_claim,
    "missed watch event": missed_watch_event,
    "gang below minimum": gang_below_minimum,
    "count overflow": count_overflow,
    "null checkpoint": null_checkpoint,
    "claim freed while in use": claim_freed_in_use,
}
"""Name → context in which the bug is there."""
