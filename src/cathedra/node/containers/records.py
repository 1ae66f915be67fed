"""What a pod worker remembers of each container."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.node.runtime.runtime import ContainerState

__all__ = ["BACKOFF_FIRST", "BACKOFF_MAX", "BACKOFF_RESET", "ContainerRecord", "Waiting", "records_for", "will_restart"]

BACKOFF_FIRST: Final = 10.0
BACKOFF_MAX: Final = 300.0
BACKOFF_RESET: Final = 600.0
"""Seconds of running after which a container counts as well again."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a container does not run."""

    reason: str
    message: str = ""


@dataclass(slots=True)
class ContainerRecord:
    """A container of a pod over all its restarts. ``due`` is in monotonic seconds."""

    container: Container
    init: bool = False
    attempt: int = 0
    current: ContainerState | None = None
    previous: ContainerState | None = None
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
        return self.init and self.container.restart_policy == "Always"

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.current is not None and self.current.running

    @property
    def ended(self) -> ContainerState | None:
        """How it ended, unless it runs or never ran."""
        return self.current if self.current is not None and not self.current.running else None

    def note_end(self, state: ContainerState, now: float, *, restarts: bool) -> None:
        """It ended; if it ``restarts``, the first time at once, then after pauses that double."""
        self.current = state
        self.ready = False
        self.started = False
        self.waiting = None
        if not restarts:
            return
        ran = (state.finished_at or state.started_at) - state.started_at
        if ran >= BACKOFF_RESET:
            self.backoff = 0.0
        self.due = now + self.backoff
        self.backoff = BACKOFF_FIRST if self.backoff == 0 else min(self.backoff * 2, BACKOFF_MAX)


def records_for(pod: Pod) -> dict[str, ContainerRecord]:
    """Fresh records of all containers: init containers first, in the order of the spec."""
    found = [ContainerRecord(container, init=True) for container in pod.spec.init_containers]
    found += [ContainerRecord(container) for container in pod.spec.containers]
    return {record.name: record for record in found}


def will_restart(pod: Pod, record: ContainerRecord, exit_code: int) -> bool:
    """Whether the container is started again after ending with ``exit_code`` (spec: node.md, 17.3 and 17.4)."""
    if record.sidecar:
        return True
    if record.init and exit_code == 0:
        return False
    policy = (None if record.init else record.container.restart_policy) or pod.spec.restart_policy or "Always"
    if policy == "Always":
        return True
    return policy == "OnFailure" and exit_code != 0


def of_kind(records: Iterable[ContainerRecord], *, init: bool) -> list[ContainerRecord]:
    """Either the init containers or the regular ones, in order."""
    return [record for record in records if record.init == init]
