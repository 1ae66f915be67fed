"""A Kubernetes API server's promises for one object: the model to which the histories of clients are compared.

An object is absent, or has a value and a resource version. Writes give it a greater one. A read returns both as they
are at one moment. Lists are reads of each of their keys. A write whose answer was lost leaves the version unknown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tools.linearizability.checker import Operation

__all__ = [
    "ABSENT",
    "Answer",
    "Event",
    "KubernetesOperation",
    "Request",
    "State",
    "Writes",
    "check_revisions",
    "check_watch",
    "step",
    "with_unseen_values",
]


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a client: ``get``, ``list``, ``create``, ``update``, ``patch`` or ``delete``."""

    verb: str
    value: str = ""
    version: int = 0
    """The version that an update, or the precondition of a delete, requires; 0: any."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A status code, and of a success the value (None: not in the list) and version; of a list also the list's."""

    status: int
    value: str | None = None
    version: int = 0
    listed: int = 0


KubernetesOperation = Operation[Request, Answer]


@dataclass(frozen=True, slots=True)
class State:
    """The object. ``version`` 0 is unknown; it is above ``floor`` in any case."""

    value: str | None = None
    version: int = 0
    floor: int = 0


ABSENT: Final = State()
UNSEEN: Final = "unseen"
"""Stands for all values that no answer shows."""
OK: Final = frozenset({200, 201})


def step(state: State, request: Request, answer: Answer | None) -> State | None:
    """Return the state after a request with that answer (None: it was lost); None if no server may answer so."""
    if answer is None:
        return _written_unseen(state, request)
    if request.verb in ("get", "list"):
        return _read(state, answer)
    there = state.value is not None
    if request.verb == "create":
        if answer.status == 409:
            return state if there else None
        return None if there else _written(state, request, answer)
    if not there:
        return state if answer.status == 404 else None
    if request.verb == "patch" and answer.status == 409:
        return state  # the server gave up after other writes came first
    fits = not request.version or state.version in (0, request.version)
    if answer.status == 409:
        return state if request.version and state.version != request.version else None
    if answer.status not in OK or not fits or (request.version and request.version < state.floor):
        return None
    return State(floor=_known(state)) if request.verb == "delete" else _written(state, request, answer)


def _known(state: State) -> int:
    return max(state.version, state.floor)


def _written(state: State, request: Request, answer: Answer) -> State | None:
    if answer.status not in OK or answer.version <= _known(state) or answer.value != request.value:
        return None
    return State(answer.value, answer.version, answer.version)


def _written_unseen(state: State, request: Request) -> State | None:
    """Return the state after a write that took effect without an answer; one without effect need not be explained."""
    there = state.value is not None
    if request.verb in ("get", "list") or there is (request.verb == "create"):
        return None
    if request.version and state.version not in (0, request.version):
        return None
    return State(None if request.verb == "delete" else request.value, 0, _known(state))


def _read(state: State, answer: Answer) -> State | None:
    if answer.listed and answer.listed < _known(state):
        return None
    if answer.status == 404 or answer.value is None:
        return state if state.value is None and answer.status in (404, 200) else None
    if answer.status not in OK or answer.value != state.value:
        return None
    if state.version:
        return state if answer.version == state.version else None
    return State(state.value, answer.version, answer.version) if answer.version > state.floor else None


def with_unseen_values(history: Sequence[KubernetesOperation]) -> list[KubernetesOperation]:
    """Return the history in which all values that no answer shows are one.

    Which of several such writes took effect makes no difference to any answer. With one value they are equal inputs,
    of which the search tries one.
    """
    shown = {one.output.value for one in history if one.output is not None}
    return [
        replace(one, input=replace(one.input, value=UNSEEN))
        if one.output is None and one.input.value and one.input.value not in shown
        else one
        for one in history
    ]


# What holds between keys.


def check_revisions(history: Iterable[KubernetesOperation], *, shared: bool = False) -> list[str]:
    """Return what is wrong with the versions of different objects: they are of one counter, in the order of time.

    ``shared``: writes to different objects may have one version, as on etcd (docs/deviations.md).
    """
    writes = sorted(
        (one for one in history if _is_write(one) and one.output is not None and one.output.status in OK),
        key=lambda one: one.end,
    )
    wrong: list[str] = []
    written: dict[tuple[int, str], str] = {}
    ended = greatest = 0
    for one in sorted(writes, key=lambda one: one.call):
        version, value = _version_of(one), one.input.value
        first = written.setdefault((version, one.key if shared else ""), value)
        if first != value:
            wrong.append(f"version {version} was given to {first} and {value}")
        while ended < len(writes) and writes[ended].end < one.call:
            greatest = max(greatest, _version_of(writes[ended]))
            ended += 1
        if version < greatest or (version == greatest and not shared):
            wrong.append(f"a write that began after version {greatest} was returned got {version}")
    return wrong


def _is_write(one: KubernetesOperation) -> bool:
    return one.input.verb in ("create", "update", "patch")


def _version_of(one: KubernetesOperation) -> int:
    return one.output.version if one.output is not None else 0


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a watch: its type, the key, the value (of a deletion: the last one) and the version."""

    type: str
    key: str
    value: str
    version: int


class Writes:
    """The writes of a history, made once for all watches: a search for each would take minutes in a long one."""

    def __init__(self, history: Iterable[KubernetesOperation]) -> None:
        writes = [one for one in history if _is_write(one)]
        self.values = frozenset(one.input.value for one in writes)
        self._acknowledged = sorted(
            (one for one in writes if one.output is not None and one.output.status in OK), key=_version_of
        )
        self._versions = [_version_of(one) for one in self._acknowledged]

    def acknowledged(self, span: range) -> Sequence[KubernetesOperation]:
        """Return the acknowledged writes with these versions."""
        return self._acknowledged[bisect_left(self._versions, span.start) : bisect_left(self._versions, span.stop)]


def check_watch(events: Sequence[Event], start: int, writes: Writes, *, shared: bool = False) -> list[str]:
    """Return what is wrong with the events of a watch from a version on.

    Versions grow; each acknowledged write up to the last event is there once, with its value; no event is of a value
    that was never written; of each key, an addition follows nothing or a deletion. With ``shared`` versions, events of
    different objects may have one, and those of ``start`` may be sent again.
    """
    wrong: list[str] = []
    last = start - 1 if shared else start
    there: dict[str, bool] = {}
    seen: dict[tuple[int, str], Event] = {}
    for event in events:
        if event.version < last or (event.version == last and not shared) or (event.version, event.key) in seen:
            wrong.append(f"{event} comes after version {last}")
        last = max(last, event.version)
        seen[event.version, event.key] = event
        before = there.get(event.key)
        if before is not None and before is (event.type == "ADDED"):
            wrong.append(f"{event} does not follow the events of its key before it")
        there[event.key] = event.type != "DELETED"
    wrong += [f"{event} shows a value that was not written" for event in events if event.value not in writes.values]
    # Of the last version another event may have been on its way when the connection ended.
    span = range(start + 1, last if shared else last + 1)
    return wrong + _missing(seen, writes.acknowledged(span))


def _missing(seen: Mapping[tuple[int, str], Event], writes: Iterable[KubernetesOperation]) -> list[str]:
    wrong = []
    for one in writes:
        event = seen.get((_version_of(one), one.key))
        if event is None or event.value != one.input.value:
            wrong.append(f"the write {one.input} with version {_version_of(one)} is shown as {event}")
    return wrong
