"""Diagnosis of an attempt without a node: the refusal of every node as data, and kube-scheduler's sentence about them.

The event ``FailedScheduling``, the pod's condition and `explain` are three views of one `Diagnosis`
(docs/spec/scheduling.md §16).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import msgspec

from cathedra.scheduler.framework.status import Code, Status


class Diagnosis(msgspec.Struct):
    """The refusals of all nodes and plugins for a pod that found no node."""

    nodes: int
    """Number of nodes in the cluster."""
    refusals: dict[str, Status] = msgspec.field(default_factory=dict)
    """Node → the first refusal of a filter."""
    absent: Status | None = None
    """The refusal of nodes without an entry in ``refusals``, which were excluded before the filters ran."""
    prefilter_message: str = ""
    postfilter_message: str = ""
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    _blamed: Status | None = None
    """The last one that was blamed: many nodes in a row give the same refusal."""
    _shared: Status | None = None
    """The refusal of all nodes in ``refusals``, if they were entered by `refuse_alike`."""

    def refuse(self, node: str, status: Status) -> None:
        """Enter the refusal of one node."""
        self.refusals[node] = status
        if status is not self._blamed:
            self._blamed, self._shared = status, None
            self.blame(status)

    def refuse_all(self, refusals: Iterable[tuple[str, Status]]) -> None:
        """Enter the refusals of many nodes, most of which share a status."""
        entered = dict(refusals)
        self.refusals.update(entered)
        self._shared = None
        for status in _distinct(entered.values()):
            self.blame(status)

    def refuse_alike(self, refusals: dict[str, Status], status: Status) -> None:
        """Enter the refusals of many nodes, each of which is ``status``. ``refusals`` is copied."""
        self._shared = None if self.refusals else status
        self.refusals = {**self.refusals, **refusals} if self.refusals else refusals.copy()
        self.blame(status)

    def blame(self, status: Status) -> None:
        """Record the plugin whose events may wake the pod."""
        if not status.plugin:
            return
        if status.code is Code.PENDING:
            self.pending_plugins |= {status.plugin}
            return
        self.unschedulable_plugins |= {status.plugin}

    def status_of(self, node: str) -> Status | None:
        """Return the refusal that holds for ``node``, or None."""
        return self.refusals.get(node, self.absent)

    def any_has(self, code: Code) -> bool:
        """Return True if some node was refused with ``code``."""
        absent = self.absent is not None and len(self.refusals) < self.nodes and self.absent.code is code
        return absent or any(status.code is code for status in self._statuses())

    def reasons(self) -> Counter[str]:
        """Return the number of nodes for each reason."""
        counted: Counter[str] = Counter()
        statuses = self._statuses()
        numbers = Counter(map(id, self.refusals.values())) if len(statuses) > 1 else {}
        for status in statuses:
            for reason in status.reasons:
                counted[reason] += numbers.get(id(status), len(self.refusals))
        missing = self.nodes - len(self.refusals)
        if self.absent is not None and missing > 0:
            counted.update(dict.fromkeys(self.absent.reasons, missing))
        return counted

    def _statuses(self) -> Collection[Status]:
        return _distinct(self.refusals.values()) if self._shared is None else (self._shared,)

    def message(self) -> str:
        """Return one sentence as kube-scheduler forms it: «0/3 nodes are available: 3 cannot allocate all claims.
        …»."""
        return " ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        yield f"0/{self.nodes} nodes are available:"
        if self.prefilter_message:
            yield f"{self.prefilter_message}."
        elif histogram := sorted(f"{count} {reason}" for reason, count in self.reasons().items()):
            yield f"{', '.join(histogram)}."
        if self.postfilter_message:
            yield self.postfilter_message


def _distinct(statuses: Collection[Status]) -> Collection[Status]:
    """Return statuses without repetitions of one object: mostly thousands of nodes share a few of them."""
    # Without a step of Python for each node.
    if len(set(map(id, statuses))) == 1:
        return (next(iter(statuses)),)
    return dict(zip(map(id, statuses), statuses, strict=True)).values()


class UnschedulablePod(msgspec.Struct, frozen=True):
    """No node will do for the pod now."""

    diagnosis: Diagnosis
    nominated: str | None = None
    """The node being cleared for the pod; "" takes an older nomination back; None leaves it."""

    @property
    def message(self) -> str:
        """The reason in one sentence."""
        return self.diagnosis.message() if self.diagnosis.nodes else "no nodes available to schedule pods"
