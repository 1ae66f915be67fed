"""Stages of a pod on its node; docs/node.md has the diagram."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class PodStage(Enum):
    """The stages of a pod, in order. A pod may skip stages, and never returns to an earlier one."""

    NEW = "new"
    """Bound to the node, not admitted yet."""
    REJECTED = "rejected"
    """Rejected by the node: nothing of it was ever created."""
    SETTING_UP = "setting up"
    """Volumes are created and claims prepared."""
    RUNNING = "running"
    """Containers are started, watched and restarted."""
    STOPPING = "stopping"
    """Containers are stopped, and none is started."""
    RELEASING = "releasing"
    """No container runs: claims are unprepared, then the final status is written."""
    OVER = "over"
    """Only its logs are left, until its object is deleted."""


_NEXT: Final[Mapping[PodStage, frozenset[PodStage]]] = {
    PodStage.NEW: frozenset({PodStage.REJECTED, PodStage.SETTING_UP, PodStage.STOPPING}),
    PodStage.REJECTED: frozenset({PodStage.OVER}),
    PodStage.SETTING_UP: frozenset({PodStage.RUNNING, PodStage.STOPPING}),
    PodStage.RUNNING: frozenset({PodStage.STOPPING}),
    PodStage.STOPPING: frozenset({PodStage.RELEASING}),
    PodStage.RELEASING: frozenset({PodStage.OVER}),
    PodStage.OVER: frozenset(),
}


class IllegalStage(Exception):
    """A pod cannot go from one stage to another: a fault in the agent, not in the pod."""

    def __init__(self, stage: PodStage, wanted: PodStage) -> None:
        self.stage, self.wanted = stage, wanted
        super().__init__(f"a pod that is {stage.value} cannot become {wanted.value}; report this with the agent's log")


class PodLifecycle:
    """The stage of one pod, and facts of its earlier stages. Only the pod's worker changes it."""

    __slots__ = ("_address", "_failure", "_set_up", "_stage", "_started_at")

    def __init__(self) -> None:
        self._stage = PodStage.NEW
        self._set_up = False
        self._started_at: float | None = None
        self._failure: tuple[str, str] | None = None
        self._address = ""

    @property
    def stage(self) -> PodStage:
        """Return the pod's current stage."""
        return self._stage

    def advance(self, stage: PodStage) -> None:
        """Enter ``stage``.

        Raises:
            IllegalStage: there is no way from here to there. Nothing has changed.
        """
        if stage not in _NEXT[self._stage]:
            raise IllegalStage(self._stage, stage)
        self._stage = stage
        self._set_up = self._set_up or stage is PodStage.RUNNING

    @property
    def set_up(self) -> bool:
        """Return True if volumes and claims have been ready, so that containers could start."""
        return self._set_up

    @property
    def stopping(self) -> bool:
        """Return True if the pod is stopping or has stopped: nothing of it is started or ready."""
        return self._stage in {PodStage.STOPPING, PodStage.RELEASING, PodStage.OVER}

    @property
    def over(self) -> bool:
        """Return True if nothing of the pod is left on the node."""
        return self._stage is PodStage.OVER

    @property
    def occupies(self) -> bool:
        """Return True if the pod uses resources of the node."""
        return self._stage not in {PodStage.REJECTED, PodStage.OVER}

    @property
    def started_at(self) -> float | None:
        """Time at which the node first acknowledged the pod, in seconds since the epoch."""
        return self._started_at

    def note_acknowledged(self, now: float) -> None:
        """Record ``now`` as the time at which the node acknowledged the pod."""
        self._started_at = now

    @property
    def address(self) -> str:
        """The pod's own address; "" while it has none, or shares the node's network."""
        return self._address

    def note_address(self, address: str) -> None:
        """Record the address of the pod's sandbox."""
        self._address = address

    @property
    def failure(self) -> tuple[str, str] | None:
        """Reason and message of a pod that fails whatever the exit codes of its containers."""
        return self._failure

    def note_failure(self, reason: str, message: str) -> None:
        """Record the reason and message with which the pod fails."""
        self._failure = (reason, message)
