"""What a pod worker remembers of each container."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cathedra.api.core.core_v1 import Container, ContainerRestartRule, EphemeralContainer, Pod
from cathedra.node.runtime.runtime import ContainerRun
from cathedra.semantics.pods import is_sidecar

__all__ = [
    "BACKOFF_FIRST",
    "BACKOFF_MAX",
    "BACKOFF_RESET",
    "ContainerRecord",
    "Waiting",
    "as_container",
    "of_kind",
    "records_for",
    "will_restart",
]

BACKOFF_FIRST: Final = 10.0
BACKOFF_MAX: Final = 300.0
BACKOFF_RESET: Final = 600.0
"""Seconds of running after which a container counts as well again."""
_SHARED_FIELDS: Final = tuple(set(Container.__struct_fields__) & set(EphemeralContainer.__struct_fields__))


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
    ephemeral: bool = False
    """Whether somebody has put it into the running pod, to look around: it runs once, and nothing depends on it."""
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

    def note_end(self, state: ContainerRun, now: float, *, restarts: bool) -> None:
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
    found += [ContainerRecord(as_container(each), ephemeral=True) for each in pod.spec.ephemeral_containers]
    return {record.name: record for record in found}


def as_container(ephemeral: EphemeralContainer) -> Container:
    """An ephemeral container as the container that it is."""
    return Container(**{name: getattr(ephemeral, name) for name in _SHARED_FIELDS})


def will_restart(pod: Pod, record: ContainerRecord, exit_code: int) -> bool:
    """Whether the container is started again after ending with ``exit_code`` (spec: node.md, 17.3 and 17.4)."""
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
