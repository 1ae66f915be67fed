"""The interface between controllers and their manager.

A controller registers its handlers in its constructor, before any informer runs, so that it misses nothing; `run` then
works until cancelled. Its state is in the API alone: after a restart it continues from there (docs/spec/controllers.md
§1).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.client.transport import ResourceRef
from cathedra.client.workqueue import WorkQueue
from cathedra.clock import Clock
from cathedra.releases import FeatureGates, UnknownGate

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from cathedra.client.queuemetrics import QueueMetrics
    from cathedra.controllers.certificates import Signer


class ControllerContext(msgspec.Struct, frozen=True):
    """The world as controllers may see it."""

    client: Client
    informers: SharedInformers
    clock: Clock
    random: random.Random
    gates: FeatureGates
    root_ca: str = ""
    """PEM of the certificate authority that pods may trust the API server by."""
    served: tuple[ResourceRef[KubeObject], ...] = ()
    """Every resource that can be listed, watched and deleted."""

    signer: Signer | None = None
    """The authority of the cluster; without it no certificates are signed."""
    metrics: QueueMetrics | None = None
    """Metrics of work queues."""
    queue_name: str = ""
    """The queue's name in Kubernetes' metrics."""
    registry: CollectorRegistry | None = None
    """The metrics of this process; without it nothing is exported."""

    def queue(self) -> WorkQueue[Any]:
        """Return a new work queue of the controller."""
        return WorkQueue(self.clock, observer=self.metrics.of(self.queue_name) if self.metrics is not None else None)

    def recorder(self, component: str) -> EventRecorder:
        """Return a recorder of events that come from ``component``; its `run` belongs to the controller."""
        return EventRecorder(self.client, component, self.clock)

    def count(self, name: str, about: str, labels: Sequence[str], counts: Mapping[tuple[str, ...], int]) -> None:
        """Export ``counts``, keyed by the values of ``labels``, as a counter; the mapping is read at each scrape."""
        if self.registry is not None:
            from cathedra.client.queuemetrics import export_counts  # start-up time: where metrics are served alone

            export_counts(self.registry, name, about, labels, counts)

    def enabled(self, gate: str) -> bool:
        """Return True if a feature gate is on; a gate that this release does not know is off."""
        try:
            return self.gates[gate]
        except UnknownGate:
            return False


class Controller(Protocol):
    """One control loop of the controller manager."""

    @property
    def name(self) -> str:
        """The name under which Kubernetes knows it, as ``job-controller``."""

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
