"""The Node object and its lease: registration, status, heartbeat, and the runtime's condition.

docs/spec/node.md §17.11. The Node is created once. Its status is written when it changes and at an interval, and a
Lease is renewed as heartbeat. The runtime is polled every five seconds, as the kubelet does, because no runtime reports
its failure by itself; one that has not answered for 30 seconds counts as down. Texts are the kubelet's
(``pkg/kubelet/runtime.go``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.core.coordination_v1 import Lease, LeaseSpec
from cathedra.api.core.core_v1 import (
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
)
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.quantity import Quantity
from cathedra.api.status import StatusError
from cathedra.api.struct import MicroTime, Time, replace
from cathedra.client.backoff import DoublingPauses
from cathedra.client.client import Client
from cathedra.client.resources import LEASES, NODES
from cathedra.clock import Clock
from cathedra.node.concurrency import Event
from cathedra.node.config import NodeConfig
from cathedra.node.deviceplugins.manager import DeviceManager
from cathedra.node.runtime.runtime import RuntimeFailure
from cathedra.releases import FeatureGates
from cathedra.releases.fields import is_known
from cathedra.semantics.conditions import find_condition, keep_transition_time

LEASE_NAMESPACE: Final = "kube-node-lease"
_RETRY: Final = (0.2, 7.0)
_CONFLICTS: Final = 5
"""Attempts of a write at once after conflicts."""
_PODS: Final = "110"
_LOG = logging.getLogger(__name__)


def machine_capacity() -> dict[str, str]:
    """Return the machine's CPUs, bytes of memory and disk, and the default number of pods."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    disk = os.statvfs("/")
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{pages * size // 1024}Ki",
        "ephemeral-storage": f"{disk.f_blocks * disk.f_frsize // 1024}Ki",
        "pods": _PODS,
    }


def node_capacity(config: NodeConfig) -> dict[str, str]:
    """Return the node's capacity: the configured one, otherwise the machine's."""
    return {**(machine_capacity() if config.root is not None else _SIMULATED), **config.capacity}


def node_allocatable(config: NodeConfig) -> dict[str, Quantity]:
    """Return the capacity less the reserved quantities, at least zero."""
    return {name: _without(Quantity(value), config.reserved.get(name)) for name, value in node_capacity(config).items()}


def _without(quantity: Quantity, reserved: str | None) -> Quantity:
    if reserved is None:
        return quantity
    left = quantity - Quantity(reserved)
    return left if left.nanos > 0 else Quantity("0")


class RuntimeInfo(msgspec.Struct, frozen=True):
    """Name and version of the container runtime, and the port of the node's server."""

    name: str
    version: str
    port: int


@dataclass(frozen=True, kw_only=True)
class ReportSources:
    """Parts of the node that its reporter follows; None: absent."""

    heard: asyncio.Event | None = None
    """While it is not set, nothing is reported after registration."""
    monitor: RuntimeMonitor | None = None
    """Observes the container runtime; None: the runtime counts as healthy."""
    devices: DeviceManager | None = None
    """Has the resources of device plugins."""


class NodeReporter:
    """Keeps Node and Lease of one node."""

    def __init__(
        self,
        client: Client,
        config: NodeConfig,
        runtime: RuntimeInfo,
        *,
        clock: Clock,
        gates: FeatureGates,
        sources: ReportSources = ReportSources(),
    ) -> None:
        self._devices = sources.devices
        self._monitor = sources.monitor
        self._heard = sources.heard
        self._nodes = client.resource(NODES)
        self._leases = client.resource(LEASES, LEASE_NAMESPACE)
        self._config = config
        self._runtime = runtime
        self._clock = clock
        self._gates = gates
        self._registered = Event()
        self.node: Node | None = None
        self._lease: Lease | None = None
        """As this agent has written it the last time."""

    async def wait_registered(self) -> Node:
        """Wait until the Node object exists; answers it."""
        await self._registered.wait()
        if self.node is None:
            raise RuntimeError("registered without a Node")
        return self.node

    async def run(self) -> None:
        """Register, then report until cancelled."""
        await self._retry(self._register)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report())
            if self._monitor is not None:
                group.create_task(self._monitor.run())
                group.create_task(self._follow(self._monitor.wait_changed))
            if self._devices is not None:
                group.create_task(self._follow(self._devices.wait_changed))
            if self._config.heartbeat_seconds > 0:
                group.create_task(self._beat())
                group.create_task(self._guard())

    async def _retry(self, action: Callable[[], Awaitable[None]]) -> None:
        pauses = DoublingPauses(*_RETRY)
        while True:
            try:
                return await action()
            # Retried without end. A node that gives up would count as lost, and its pods would be evicted.
            except (StatusError, ConnectionError) as error:
                _LOG.warning("node %s: %s", self._config.name, error)
            await self._clock.sleep(pauses.take())

    async def _register(self) -> None:
        try:
            node = await self._nodes.get(self._config.name)
        except StatusError as error:
            if not error.is_not_found or not self._config.register:
                raise
            node = await self._nodes.create(self._new_node())
        # An existing Node may come from an earlier agent with other labels; the scheduler would place pods by them.
        await self._on_fresh(node, self._label)
        await self._refresh()
        # Last: pods must not start before the Node has its labels and capacity.
        self._registered.set()

    async def _label(self, node: Node) -> Node:
        wanted = self._labels()
        if all(node.metadata.labels.get(key) == value for key, value in wanted.items()):
            return node
        metadata = replace(node.metadata, labels=node.metadata.labels | wanted)
        return await self._nodes.update(replace(node, metadata=metadata))

    async def _on_fresh(self, node: Node, write: Callable[[Node], Awaitable[Node]]) -> Node:
        """Write on top of ``node``; if it was changed meanwhile, on top of that.

        The node lifecycle controller adds taints at the very moment a node appears, so that is no news to log. To the
        API server a stale copy then looks as if the node took a taint away: forbidden, not a conflict.
        """
        for _ in range(_CONFLICTS):
            try:
                return await write(node)
            except StatusError as error:
                # See above: a stale copy may be refused with 403.
                if not error.is_conflict and error.code != 403:
                    raise
            node = await self._nodes.get(self._config.name)
        return await write(node)

    async def _report(self) -> None:
        while True:
            await self._clock.sleep(self._config.status_seconds)
            # A node that tests silence must write nothing at all, so that it counts as lost.
            await self._until_heard()
            await self._retry(self._refresh)

    async def _guard(self) -> None:
        """Read the Node as often as the lease is renewed, and write the status if a condition was changed.

        The node lifecycle controller marks a node whose leases it has not seen, for example because it was cut off
        itself. It leaves it to the agent to take that back; until then no pod is placed here. The kubelet reads its
        Node every ten seconds for this reason.
        """
        while True:
            await self._clock.sleep(self._config.heartbeat_seconds)
            await self._until_heard()
            try:
                node = await self._nodes.get(self._config.name)
                if self._was_changed(node.status):
                    self.node = await self._on_fresh(node, self._write_status)
            except (StatusError, ConnectionError) as error:
                _LOG.info("node %s is read again with the next heartbeat: %s", self._config.name, error)

    def _was_changed(self, shown: NodeStatus) -> bool:
        """Return True if a condition of this agent is not as it would write it, whatever its times."""
        found = {one.type: [one.status, one.reason, one.message] for one in shown.conditions}
        return any(found.get(type_) != verdict for type_, *verdict in self._verdicts())

    async def _follow(self, change: Callable[[], Awaitable[None]]) -> None:
        while True:
            await change()
            await self._until_heard()
            await self._retry(self._refresh)

    async def _refresh(self) -> None:
        self.node = await self._on_fresh(await self._nodes.get(self._config.name), self._write_status)

    async def _write_status(self, node: Node) -> Node:
        return await self._nodes.update_status(replace(node, status=self._status(node.status)))

    async def _until_heard(self) -> None:
        if self._heard is not None:
            await self._heard.wait()

    async def _beat(self) -> None:
        while True:
            await self._until_heard()
            await self._retry(self._renew)
            await self._clock.sleep(self._config.heartbeat_seconds)

    async def _renew(self) -> None:
        now = MicroTime(self._clock.now())
        if self._lease is not None:
            try:
                # Without reading it first, as the kubelet does: hardly anything else writes it, and 10,000 nodes would
                # read a thousand leases a second.
                self._lease = await self._leases.update(replace(self._lease, spec=self._lease_spec(now)))
                return
            except StatusError as error:
                _LOG.info("the lease is read again: %s", error)  # it was changed or removed by another client
                self._lease = None
        try:
            lease = await self._leases.get(self._config.name)
        except StatusError as error:
            if not error.is_not_found:
                raise
            self._lease = await self._leases.create(self._new_lease(now))
            return
        self._lease = await self._leases.update(replace(lease, spec=self._lease_spec(now)))

    def _lease_spec(self, now: MicroTime) -> LeaseSpec:
        return LeaseSpec(
            holder_identity=self._config.name,
            lease_duration_seconds=int(self._config.lease_seconds),
            renew_time=now,
        )

    def _new_lease(self, now: MicroTime) -> Lease:
        owners: tuple[OwnerReference, ...] = ()
        if self.node is not None:
            metadata = self.node.metadata
            # Owned by the Node, so that the garbage collector removes the lease with it.
            owners = (OwnerReference(api_version="v1", kind="Node", name=metadata.name, uid=metadata.uid),)
        metadata = ObjectMeta(name=self._config.name, namespace=LEASE_NAMESPACE, owner_references=owners)
        return Lease(metadata=metadata, spec=self._lease_spec(now))

    def _labels(self) -> dict[str, str]:
        return {
            "beta.kubernetes.io/arch": _architecture(),
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": _architecture(),
            "kubernetes.io/hostname": self._config.name,
            "kubernetes.io/os": "linux",
            **self._config.labels,
        }

    def _new_node(self) -> Node:
        metadata = ObjectMeta(name=self._config.name, labels=self._labels())
        return Node(metadata=metadata, spec=NodeSpec(taints=self._config.taints))

    def _status(self, old: NodeStatus) -> NodeStatus:
        given = node_capacity(self._config)
        # What drivers or people have added to the node's capacity stays.
        capacity = {**old.capacity, **{name: Quantity(value) for name, value in given.items()}}
        allocatable = {**old.allocatable, **node_allocatable(self._config)}
        for name, (there, usable) in (self._devices.capacity() if self._devices is not None else {}).items():
            capacity[name], allocatable[name] = Quantity(str(there)), Quantity(str(usable))
        return replace(
            old,
            capacity=capacity,
            allocatable=allocatable,
            conditions=self._conditions(old),
            addresses=(
                NodeAddress(type="InternalIP", address=self._config.address),
                NodeAddress(type="Hostname", address=self._config.name),
            ),
            daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=self._runtime.port)),
            node_info=self._info(),
            declared_features=tuple(name for name in _DECLARED if self._gates[name]),
        )

    def _verdicts(self) -> tuple[tuple[str, str, str, str], ...]:
        """Return type, status, reason and message of each condition of this agent."""
        trouble = self._monitor.message if self._monitor is not None else ""
        return (*_CONDITIONS, ("Ready", "False", "KubeletNotReady", trouble) if trouble else _READY)

    def _conditions(self, old: NodeStatus) -> tuple[NodeCondition, ...]:
        now = Time(self._clock.now())
        made = []
        for type_, status, reason, message in self._verdicts():
            new = NodeCondition(
                type=type_,
                status=status,
                reason=reason,
                message=message,
                last_heartbeat_time=now,
                last_transition_time=now,
            )
            # The transition time changes with the status only. With each heartbeat a node would look as if it had just
            # become ready, and evictions start from that time.
            made.append(keep_transition_time(new, find_condition(old.conditions, type_)))
        # Conditions of other writers, as a problem detector's, are kept.
        names = {condition.type for condition in made}
        return (*(condition for condition in old.conditions if condition.type not in names), *made)

    def _info(self) -> NodeSystemInfo:
        if self._config.root is None:
            return _simulated_info(self._config, self._runtime)
        return NodeSystemInfo(
            machine_id=_first_line(Path("/etc/machine-id")),
            system_uuid=_first_line(Path("/etc/machine-id")),
            boot_id=_first_line(Path("/proc/sys/kernel/random/boot_id")),
            kernel_version=platform.release(),
            os_image=_os_name(),
            container_runtime_version=f"{self._runtime.name}://{self._runtime.version}",
            kubelet_version=self._config.kubelet_version,
            operating_system="linux",
            architecture=_architecture(),
            running_in_user_namespace=(
                in_user_namespace(Path("/proc/self/uid_map"))
                if is_known("NodeSystemInfo", "runningInUserNamespace", self._gates.release)
                else None
            ),
        )


_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_READY: Final = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
_DECLARED: Final = ("DRAOptionalNodeOperations", "ExtendWebSocketsToKubelet")
"""Features by which API server and scheduler choose: WebSockets come as they are, not turned into SPDY (KEP-4006)."""
_SIMULATED: Final[Mapping[str, str]] = {
    "cpu": "32",
    "memory": "256Gi",
    "ephemeral-storage": "1Ti",
    "pods": _PODS,
}


def _simulated_info(config: NodeConfig, runtime: RuntimeInfo) -> NodeSystemInfo:
    """Return information that is the same on every machine, so that simulations repeat."""
    return NodeSystemInfo(
        kernel_version="simulated",
        os_image="simulated",
        container_runtime_version=f"{runtime.name}://{runtime.version}",
        kubelet_version=config.kubelet_version,
        operating_system="linux",
        architecture="amd64",
    )


def _architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _first_line(path: Path) -> str:
    try:
        return path.read_text().partition("\n")[0]
    except OSError:
        return ""


def in_user_namespace(mapping: Path) -> bool:
    """Return True if a process is in a user namespace other than that of the machine, by the mapping of its users.

    The first user namespace maps all users to themselves. Without the file there are no user namespaces.
    """
    try:
        lines = mapping.read_text().splitlines()
    except OSError:
        return False
    return [line.split() for line in lines] != [["0", "0", str(2**32 - 1)]]


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


DOWN: Final = "container runtime is down"
PERIOD: Final = 5.0
"""Seconds between two checks of the container runtime."""
PATIENCE: Final = 30.0
"""Seconds for which a runtime may be silent."""


class RuntimeMonitor:
    """Polls the ``status`` of a runtime and stores the current problem."""

    def __init__(self, status: Callable[[], Awaitable[tuple[str, ...]]], clock: Clock) -> None:
        self._status = status
        self._clock = clock
        self._errors: tuple[str, ...] = ()
        self._changed = asyncio.Event()

    @property
    def message(self) -> str:
        """Message of the node's Ready condition; "" if there is no problem."""
        return self._errors[0] if len(self._errors) == 1 else f"[{', '.join(self._errors)}]" if self._errors else ""

    async def wait_changed(self) -> None:
        """Wait until the problem changes or disappears."""
        await self._changed.wait()

    async def run(self) -> None:
        """Poll the runtime's status until cancelled."""
        # Measured by the monotonic clock: a step of the wall clock must not declare a working runtime down.
        answered = self._clock.monotonic()
        while True:
            await self._clock.sleep(PERIOD)
            try:
                errors = await self._status()
                answered = self._clock.monotonic()
            except RuntimeFailure:
                # A single failed poll proves nothing: the former verdict stays until the runtime was silent for long.
                errors = (DOWN,) if self._clock.monotonic() - answered > PATIENCE else self._errors
            if errors != self._errors:
                self._errors = errors
                # A new event before the old one is set: a waiter that comes back at once waits for the next change.
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()
