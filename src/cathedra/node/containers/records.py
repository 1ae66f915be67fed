"""One container of a pod over all its restarts, as a state machine of immutable records."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from cathedra.api.core.core_v1 import Container, ContainerRestartRule, EphemeralContainer, Pod
from cathedra.node.runtime.runtime import ContainerRun
from cathedra.semantics.pods import is_sidecar

__all__ = [
    "BACKOFF_FIRST",
    "BACKOFF_MAX",
    "BACKOFF_RESET",
    "ContainerRecord",
    "ContainerStage",
    "Waiting",
    "as_container",
    "ephemeral_record",
    "of_kind",
    "records_for",
    "will_restart",
]

BACKOFF_FIRST: Final = 10.0
BACKOFF_MAX: Final = 300.0
BACKOFF_RESET: Final = 600.0
"""Seconds of running after which a container counts as well again."""
_SHARED_FIELDS: Final = tuple(set(Container.__struct_fields__) & set(EphemeralContainer.__struct_fields__))


class Waiting(msgspec.Struct, frozen=True):
    """Why a container does not run."""

    reason: str
    message: str = ""


class ContainerStage(Enum):
    """Where a container is in its life; drawn in docs/node.md."""

    WAITING = "waiting"
    """No run of it has begun."""
    RUNNING = "running"
    STOPPING = "stopping"
    """It runs, and has been asked to end."""
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
    """Whether it was added to the running pod for debugging: it runs once, and nothing depends on it."""
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
        """The container's name."""
        return self.container.name

    @property
    def sidecar(self) -> bool:
        """Whether it is an init container that keeps running beside the others."""
        return self.init and is_sidecar(self.container)

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.current is not None and self.current.running

    @property
    def ended(self) -> ContainerRun | None:
        """How it ended, unless it runs or never ran."""
        return self.current if self.current is not None and not self.current.running else None

    @property
    def stage(self) -> ContainerStage:
        """Where it is in its life."""
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
        """An earlier agent has started it."""
        return replace(self, current=run, attempt=run.attempt)

    def begin(self, run: ContainerRun, now: float) -> ContainerRecord:
        """A run has begun. Without a probe for it, it counts as started, or ready, at once."""
        return replace(
            self,
            attempt=run.attempt,
            current=run,
            previous=self.current or self.previous,
            waiting=None,
            stopping=False,
            # Failures to create it were no runs, so they do not count once it has been created.
            backoff=0.0 if run.attempt == 0 and now >= self.due else self.backoff,
        ).unprobed()

    def unprobed(self) -> ContainerRecord:
        """It is about to be probed, from the beginning."""
        container = self.container
        return replace(self, started=container.startup_probe is None, ready=container.readiness_probe is None)

    def delay(self, waiting: Waiting, now: float) -> ContainerRecord:
        """It could not be created, which is no run of it; the next try comes after a pause that doubles."""
        backoff = min(max(self.backoff * 2, BACKOFF_FIRST), BACKOFF_MAX)
        return replace(self, waiting=waiting, backoff=backoff, due=now + backoff)

    def fail_to_start(self, run: ContainerRun, now: float, *, restarts: bool, waiting: Waiting) -> ContainerRecord:
        """A run of it was created and could not be started: it has ended as ``run`` says."""
        kept = replace(self, previous=self.current or self.previous, attempt=run.attempt)
        ended = kept.end(run, now, restarts=restarts)
        return replace(ended, waiting=waiting) if restarts and ended.due <= now else ended

    def postpone(self, waiting: Waiting, due: float) -> ContainerRecord:
        """It cannot be created before ``due``, which is neither a run nor a failure of it."""
        return replace(self, waiting=waiting, due=due)

    def probed(self, *, started: bool | None = None, ready: bool | None = None) -> ContainerRecord:
        """A probe has come to a verdict; None: nothing about that."""
        return replace(
            self,
            started=self.started if started is None else started,
            ready=self.ready if ready is None else ready,
        )

    def stop(self) -> ContainerRecord:
        """It is being asked to end."""
        return replace(self, stopping=True)

    def end(self, run: ContainerRun, now: float, *, restarts: bool) -> ContainerRecord:
        """It ended; if it ``restarts``, the first time at once, then after pauses that double."""
        ended = replace(self, current=run, ready=False, started=False, waiting=None)
        if not restarts:
            return ended
        ran = (run.finished_at or run.started_at) - run.started_at
        pause = 0.0 if ran >= BACKOFF_RESET else self.backoff
        longer = BACKOFF_FIRST if pause == 0 else min(pause * 2, BACKOFF_MAX)
        return replace(ended, due=now + pause, backoff=longer)

    def wait(self, why: Waiting) -> ContainerRecord:
        """It is not started before ``due``, for the reason given."""
        return replace(self, waiting=why)

    def renew(self) -> ContainerRecord:
        """The pod begins anew: only the count of runs and the last one are kept."""
        if self.current is None:
            return replace(self, waiting=None)
        return replace(self, previous=self.current, attempt=self.attempt + 1, current=None, waiting=None)


def records_for(pod: Pod) -> dict[str, ContainerRecord]:
    """Fresh records of all containers: init containers first, in the order of the spec."""
    found = [ContainerRecord(container, init=True) for container in pod.spec.init_containers]
    found += [ContainerRecord(container) for container in pod.spec.containers]
    found += [ephemeral_record(each) for each in pod.spec.ephemeral_containers]
    return {record.name: record for record in found}


def ephemeral_record(ephemeral: EphemeralContainer) -> ContainerRecord:
    """A fresh record of a container that was added to a running pod."""
    return ContainerRecord(as_container(ephemeral), ephemeral=True)


def as_container(ephemeral: EphemeralContainer) -> Container:
    """An ephemeral container as the container that it is."""
    return Container(**{name: getattr(ephemeral, name) for name in _SHARED_FIELDS})


def will_restart(pod: Pod, record: ContainerRecord, exit_code: int) -> bool:
    """Whether the container is started again after ending with ``exit_code`` (docs/spec/node.md §17.3
    and §17.4)."""
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
    """Whether the rule asks for a restart after that exit code."""
    codes = rule.exit_codes
    return codes is not None and rule.action == "Restart" and (exit_code in codes.values) == (codes.operator == "In")


def of_kind(records: Iterable[ContainerRecord], *, init: bool) -> list[ContainerRecord]:
    """Either the init containers or the regular ones, in order; ephemeral ones are neither."""
    return [record for record in records if record.init == init and not record.ephemeral]
