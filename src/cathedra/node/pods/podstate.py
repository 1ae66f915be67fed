"""What the node knows of one pod: shared by the worker and those that work for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from cathedra.api.core.core_v1 import Pod
from cathedra.node.containers.records import ContainerRecord, as_container, records_for
from cathedra.node.pods.context import PodContext
from cathedra.node.setup.directories import PodDirectories

__all__ = ["PodState"]


@dataclass(slots=True)
class PodState:
    """Everything lives on one event loop, so whoever finds something out writes it here and sets `changed`."""

    pod: Pod
    directories: PodDirectories | None
    records: dict[str, ContainerRecord]
    volumes: dict[str, str] = field(default_factory=dict)
    """Volume name → path on the node."""
    generation: int = 1
    """How often the pod was set up from the beginning on this node."""
    sandbox: bool = False
    """Whether volumes and claims are there, so that containers may start."""
    started_at: float | None = None
    """When the node first saw the pod, in seconds since the epoch."""
    stopping: bool = False
    """Whether the pod is being ended: nothing of it is started or ready any more."""
    failure: tuple[str, str] | None = None
    """Reason and message of a pod that ran into its deadline: it fails."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when something has happened that the worker has to look at."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the pod's object does not exist any more."""

    @staticmethod
    def of(pod: Pod, context: PodContext) -> PodState:
        """A pod that the node has just heard of."""
        return PodState(pod, context.directories(pod), records_for(pod))

    def look_for_new_containers(self) -> None:
        """Ephemeral containers are put into a pod while it runs."""
        for ephemeral in self.pod.spec.ephemeral_containers:
            if ephemeral.name not in self.records:
                self.records[ephemeral.name] = ContainerRecord(as_container(ephemeral), ephemeral=True)

    @property
    def containers(self) -> tuple[ContainerRecord, ...]:
        """The containers, init containers first."""
        return tuple(self.records.values())

    @property
    def grace_seconds(self) -> float:
        """How long the pod may take to end: what its deletion says, else what its spec says."""
        seconds = self.pod.metadata.deletion_grace_period_seconds
        return self.own_grace_seconds if seconds is None else max(seconds, 1)

    @property
    def own_grace_seconds(self) -> float:
        """How long the pod may take to end when nobody has said anything else."""
        seconds = self.pod.spec.termination_grace_period_seconds
        return 30.0 if seconds is None else seconds
