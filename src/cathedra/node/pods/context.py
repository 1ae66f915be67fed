"""Objects that all pod workers of a node share."""

from __future__ import annotations

import random

import msgspec

from cathedra.api.core.core_v1 import Container, Pod, ResourceStatus
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.clock import Clock
from cathedra.node.claims.manager import ClaimManager
from cathedra.node.config import NodeConfig
from cathedra.node.deviceplugins.manager import DeviceManager
from cathedra.node.faultpoints import FaultPoints
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.health import HealthCache
from cathedra.node.resources import NodeFacts, PodCgroups
from cathedra.node.runtime.runtime import Runtime
from cathedra.node.setup.directories import PodDirectories
from cathedra.releases import FeatureGates


class PodContext(msgspec.Struct, frozen=True):
    """The node around a pod."""

    client: Client
    config: NodeConfig
    clock: Clock
    random: random.Random
    gates: FeatureGates
    runtime: Runtime
    claims: ClaimManager
    recorder: EventRecorder
    health: HealthCache
    facts: NodeFacts
    metrics: NodeMetrics
    faults: FaultPoints = msgspec.field(default_factory=FaultPoints)
    devices: DeviceManager | None = None
    """The devices of classic device plugins; None: there are none."""
    cgroups: PodCgroups | None = None
    """None: pods have no cgroups of their own."""
    inherited_environment: dict[str, str] = msgspec.field(default_factory=dict)

    def directories(self, pod: Pod) -> PodDirectories | None:
        """Return the pod's directories; None on a node without a disk."""
        return PodDirectories(self.config.root, pod) if self.config.root is not None else None

    def device_health(self, pod: Pod, container: Container) -> tuple[ResourceStatus, ...]:
        """Return the health of a container's devices, for its status."""
        return self.health.resource_status(pod, container, self.claims.cache)
