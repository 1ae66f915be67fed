"""Containers of a pod over all their restarts: immutable records, their table, and the decision on what to start.

A record is a state machine. The runner changes the table; everything else only reads it. `make_plan` is a pure function
of the records (docs/spec/node.md §17.3 to §17.5): init containers run one after the other, sidecars keep running,
regular containers run together, and an ended container is restarted according to its policy when its back-off has
passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from cathedra.api.core.core_v1 import Container, ContainerRestartRule, EphemeralContainer, Pod
from cathedra.node.concurrency import Event
from cathedra.node.runtime.runtime import ContainerRun
from cathedra.semantics.pods import is_sidecar

BACKOFF_FIRST: Final = 10.0
BACKOFF_MAX: Final = 300.0
BACKOFF_RESET: Final = 600.0
"""Seconds of running after which the back-off starts over."""
_SHARED_FIELDS: Final = tuple(set(Container.__struct_fields__) & set(EphemeralContainer.__struct_fields__))


class Waiting(msgspec.Struct, frozen=True):
    """Reason and message of a container that does not run."""

    reason: str
    message: str = ""


class ContainerStage(Enum):
    """Stage of a container; docs/node.md has the diagram."""

    WAITING = "waiting"
    """No run has started yet."""
    RUNNING = "running"
    STOPPING = "stopping"
    """Running, with its stop requested."""
    ENDED = "ended"
    """Its last run is over; another may follow."""


class ContainerRecord(msgspec.Struct, frozen=True):
    """A container of a pod over all its restarts, as it is at one moment.

    What happens to it makes a new record: `adopt`, `begin`, `fail_to_start`, `delay`, `postpone`, `probed`, `stop`,
    `end`, `wait`, `renew`.
    ``due`` is in monotonic seconds, ``backoff`` in seconds.
    """

    container: Container
    init: bool = False
    ephemeral: bool = False
    """True if it was added for debugging: it runs once, and nothing depends on it."""
    attempt: int = 0
    current: ContainerRun | None = None
    previous: ContainerRun | None = None
    waiting: Waiting | None = None
    due: float = 0.0
    backoff: float = 0.0
    started: bool = False
    ready: bool = False
    stopping: bool = False

    @property
    def name(self) -> str:
        """Name of the container."""
        return self.container.name

    @property
    def sidecar(self) -> bool:
        """Return True if this is a restartable init container."""
        return self.init and is_sidecar(self.container)

    @property
    def running(self) -> bool:
        """Return True if a run is in progress."""
        return self.current is not None and self.current.running

    @property
    def ended(self) -> ContainerRun | None:
        """Return the last run, if it has ended and no other has started."""
        return self.current if self.current is not None and not self.current.running else None

    @property
    def stage(self) -> ContainerStage:
        """Stage that follows from the record's fields."""
        if self.current is None:
            return ContainerStage.WAITING
        if not self.current.running:
            return ContainerStage.ENDED
        return ContainerStage.STOPPING if self.stopping else ContainerStage.RUNNING

    @property
    def next_attempt(self) -> int:
        """The number of its next run, from 0."""
        return self.attempt if self.current is None else self.attempt + 1

    # What happens to it

    def adopt(self, run: ContainerRun) -> ContainerRecord:
        """Note that an earlier agent has started it."""
        return replace(self, current=run, attempt=run.attempt)

    def begin(self, run: ContainerRun, now: float) -> ContainerRecord:
        """Note that a run has begun. Without a probe for it, it counts as started, or ready, at once."""
        return replace(
            self,
            attempt=run.attempt,
            current=run,
            # Shown as the last state. After a failed creation there is no new run, so the one before stays.
            previous=self.current or self.previous,
            waiting=None,
            stopping=False,
            # Failures to create it were no runs, so they do not count once it has been created.
            backoff=0.0 if run.attempt == 0 and now >= self.due else self.backoff,
        ).unprobed()

    def unprobed(self) -> ContainerRecord:
        """Begin the probes of the container."""
        container = self.container
        return replace(self, started=container.startup_probe is None, ready=container.readiness_probe is None)

    def delay(self, waiting: Waiting, now: float) -> ContainerRecord:
        """Note that it could not be created, which is no run of it; the next try comes after a pause that doubles."""
        backoff = min(max(self.backoff * 2, BACKOFF_FIRST), BACKOFF_MAX)
        return replace(self, waiting=waiting, backoff=backoff, due=now + backoff)

    def fail_to_start(self, run: ContainerRun, now: float, *, restarts: bool, waiting: Waiting) -> ContainerRecord:
        """Return the record after a run was created but could not be started; ``run`` has its exit."""
        kept = replace(self, previous=self.current or self.previous, attempt=run.attempt)
        ended = kept.end(run, now, restarts=restarts)
        return replace(ended, waiting=waiting) if restarts and ended.due <= now else ended

    def postpone(self, waiting: Waiting, due: float) -> ContainerRecord:
        """Note that it cannot be created before ``due``, which is neither a run nor a failure of it."""
        return replace(self, waiting=waiting, due=due)

    def probed(self, *, started: bool | None = None, ready: bool | None = None) -> ContainerRecord:
        """Note that a probe has come to a verdict; None: nothing about that."""
        return replace(
            self,
            started=self.started if started is None else started,
            ready=self.ready if ready is None else ready,
        )

    def stop(self) -> ContainerRecord:
        """Return the record with its stop requested."""
        return replace(self, stopping=True)

    def end(self, run: ContainerRun, now: float, *, restarts: bool) -> ContainerRecord:
        """Note that it ended; if it ``restarts``, the first time at once, then after pauses that double."""
        ended = replace(self, current=run, ready=False, started=False, waiting=None)
        if not restarts:
            return ended
        # Both times come from the runtime's wall clock. Comparing one of them with the monotonic clock would give
        # nonsense.
        ran = (run.finished_at or run.started_at) - run.started_at
        # A container that ran for ten minutes has recovered; its next failure is treated as the first.
        pause = 0.0 if ran >= BACKOFF_RESET else self.backoff
        longer = BACKOFF_FIRST if pause == 0 else min(pause * 2, BACKOFF_MAX)
        return replace(ended, due=now + pause, backoff=longer)

    def wait(self, why: Waiting) -> ContainerRecord:
        """Note that it is not started before ``due``, for the reason given."""
        return replace(self, waiting=why)

    def renew(self) -> ContainerRecord:
        """Return the record for a pod that starts over: only the restart count and the last run are kept."""
        if self.current is None:
            return replace(self, waiting=None)
        return replace(self, previous=self.current, attempt=self.attempt + 1, current=None, waiting=None)


def records_for(pod: Pod) -> dict[str, ContainerRecord]:
    """Return fresh records of all containers: init containers first, in the order of the spec."""
    found = [ContainerRecord(container, init=True) for container in pod.spec.init_containers]
    found += [ContainerRecord(container) for container in pod.spec.containers]
    found += [ephemeral_record(each) for each in pod.spec.ephemeral_containers]
    return {record.name: record for record in found}


def ephemeral_record(ephemeral: EphemeralContainer) -> ContainerRecord:
    """Return a fresh record of a container that was added to a running pod."""
    return ContainerRecord(as_container(ephemeral), ephemeral=True)


def as_container(ephemeral: EphemeralContainer) -> Container:
    """Return an ephemeral container as the container that it is."""
    return Container(**{name: getattr(ephemeral, name) for name in _SHARED_FIELDS})


def will_restart(pod: Pod, record: ContainerRecord, exit_code: int) -> bool:
    """Return True if the container restarts after ``exit_code`` (docs/spec/node.md §17.3 and §17.4)."""
    if record.ephemeral:
        return False
    if record.sidecar:
        return True
    if record.init and exit_code == 0:
        return False
    if any(_matches(rule, exit_code) for rule in record.container.restart_policy_rules):
        return True
    policy = record.container.restart_policy or pod.spec.restart_policy or "Always"
    if policy == "Always":
        return True
    return policy == "OnFailure" and exit_code != 0


def _matches(rule: ContainerRestartRule, exit_code: int) -> bool:
    """Return True if the rule requests a restart after ``exit_code``."""
    codes = rule.exit_codes
    return codes is not None and rule.action == "Restart" and (exit_code in codes.values) == (codes.operator == "In")


def of_kind(records: Iterable[ContainerRecord], *, init: bool) -> list[ContainerRecord]:
    """Return either the init containers or the regular ones, in order; ephemeral ones are neither."""
    return [record for record in records if record.init == init and not record.ephemeral]


class ContainerTable:
    """Records by name, in the order of the spec with init containers first; each is replaced, never changed."""

    __slots__ = ("_changed", "_records")

    def __init__(self, records: Iterable[ContainerRecord] = ()) -> None:
        self._records = {record.name: record for record in records}
        self._changed = Event()

    def __getitem__(self, name: str) -> ContainerRecord:
        return self._records[name]

    def get(self, name: str) -> ContainerRecord | None:
        """Return a container; None: the pod has none of that name."""
        return self._records.get(name)

    @property
    def all(self) -> tuple[ContainerRecord, ...]:
        """Records of all containers, in the pod's order."""
        return tuple(self._records.values())

    def put(self, record: ContainerRecord) -> None:
        """Replace a container's record, or add it behind the others."""
        self._records[record.name] = record
        # Replaced before it is set: a waiter that checks and waits again in the same turn gets the next change.
        changed, self._changed = self._changed, Event()
        changed.set()

    @property
    def next_change(self) -> Event:
        """Set when a record is replaced the next time."""
        return self._changed

    async def until_ended(self, name: str) -> None:
        """Wait until a container does not run."""
        while self._records[name].running:
            await self._changed.wait()


class ContainerPlan(msgspec.Struct, frozen=True):
    """Containers to start now, in order; when to look again (monotonic seconds); whether the pod has run its course."""

    start: tuple[str, ...] = ()
    look_again: float | None = None
    finished: bool = False


def initialized(records: Sequence[ContainerRecord]) -> bool:
    """Return True if all init containers are done or started, so that regular containers may start."""
    # Once a regular container has run, init containers are never awaited again, even if their records were lost.
    if any(record.current is not None or record.attempt for record in of_kind(records, init=False)):
        return True
    return all(_done(record) for record in of_kind(records, init=True))


def _done(record: ContainerRecord) -> bool:
    if record.sidecar:
        return record.running and record.started
    return record.ended is not None and record.ended.exit_code == 0


def make_plan(pod: Pod, records: Sequence[ContainerRecord], now: float) -> ContainerPlan:
    """Return the containers to start at ``now`` (monotonic seconds)."""
    begun = initialized(records)
    candidates = [record for record in records if record.ephemeral and record.current is None]
    for record in of_kind(records, init=True):
        # Sidecars restart at any time, beside the init container whose turn it is.
        if record.sidecar and not record.running:
            candidates.append(record)
        if begun or _done(record):
            continue
        ended = record.ended
        if not record.sidecar and not record.running:
            if ended is not None and not will_restart(pod, record, ended.exit_code or 0):
                return ContainerPlan(finished=True)
            candidates.append(record)
        # The first init container that is not done ends the search: those after it may depend on its result.
        return _start_those_due(candidates, now)
    regular = of_kind(records, init=False)
    if regular and all(is_over(pod, record) for record in regular):
        return ContainerPlan(finished=True)
    candidates += [record for record in regular if not record.running and not is_over(pod, record)]
    return _start_those_due(candidates, now)


def is_over(pod: Pod, record: ContainerRecord) -> bool:
    """Return True if the container has ended and does not restart."""
    return record.ended is not None and not will_restart(pod, record, record.ended.exit_code or 0)


def _start_those_due(candidates: Sequence[ContainerRecord], now: float) -> ContainerPlan:
    due = tuple(record.name for record in candidates if record.due <= now)
    later = [record.due for record in candidates if record.due > now]
    return ContainerPlan(start=due, look_again=min(later, default=None))
