"""The node agent: all its parts, put together and run.

One process may run several; each has its own directory, port and registry. Without a directory (``NodeConfig.root`` is
None) an agent has no sockets and no files: then drivers are handed in as objects, and thousands of agents fit into one
process and run in virtual time.
"""

from __future__ import annotations

import asyncio
import logging
import random as randoms
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cathedra.api.jsonvalue import JSONObject
from cathedra.api.quantity import Quantity
from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import Informer, InformerSelection
from cathedra.client.resources import PODS
from cathedra.clock import Clock
from cathedra.node.claims.checkpoint import CheckpointStore, FileCheckpoint, MemoryCheckpoint
from cathedra.node.claims.manager import ClaimManager
from cathedra.node.concurrency import Event
from cathedra.node.config import NodeConfig
from cathedra.node.deviceplugins.manager import DeviceManager, DevicePluginClient
from cathedra.node.faultpoints import FaultPoints
from cathedra.node.metrics import NodeMetrics
from cathedra.node.nodestatus import (
    NodeReporter,
    ReportSources,
    RuntimeInfo,
    RuntimeMonitor,
    node_allocatable,
    node_capacity,
)
from cathedra.node.plugins.client import HealthClient, LimitedPlugin, MakeDial, PluginClient
from cathedra.node.plugins.health import HealthCache, HealthFollower
from cathedra.node.plugins.registry import PluginInstance, PluginRegistry, RegistryListener, SliceWiper
from cathedra.node.pods.context import PodContext
from cathedra.node.pods.podmanager import InformerPods, PodManager, PodSource
from cathedra.node.pods.usage import UsageMeter
from cathedra.node.resources import MOUNT, NodeFacts, PodCgroups, is_usable
from cathedra.node.runtime.runtime import ContainerRun, Runtime
from cathedra.node.runtime.simulated import SimulatedRuntime
from cathedra.releases import FeatureGates, behaviours

if TYPE_CHECKING:
    from cathedra.asgi.listener import Listener, TLSFiles
    from cathedra.node.runtime.choose import ChosenRuntime
    from cathedra.node.server.app import NodeApp

FIELD_MANAGER: Final = "kubelet"
"""The name under which a node owns the fields that it writes."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class NodeDependencies:
    """Objects that an agent uses instead of making its own. None: the agent makes them."""

    runtime: Runtime | None = None
    """Runs the containers; None: the runtime that the configuration names."""
    choosing: Callable[[], Awaitable[ChosenRuntime]] | None = None
    """Returns the container runtime, if its selection has begun already; None: it is selected when the agent starts."""
    pods: PodSource | None = None
    """Source of the node's pods; None: an informer of the agent."""
    plugins: Mapping[str, PluginClient] = field(default_factory=dict)
    """Drivers in this process, by name. They need no registration."""
    plugin_health: Mapping[str, HealthClient] = field(default_factory=dict)
    """Sources of the health of these drivers' devices, by driver name."""
    device_plugins: Mapping[str, DevicePluginClient] = field(default_factory=dict)
    """Device plugins in this process, by resource."""
    recorder: EventRecorder | None = None
    """Writes events; the caller runs it."""
    checkpoint: CheckpointStore | None = None
    """Stores prepared claims; None: a file in the node's directory."""
    faults: FaultPoints | None = None
    """Points at which the process dies, in tests of recovery; None: nowhere."""
    heard: asyncio.Event | None = None
    """While it is not set, the node renews no lease and writes no status; None: it always does."""
    make_dial: MakeDial | None = None
    """Connects to drivers that register; None: with the current versions of the protocol."""


class NodeAgent:
    """Runs the pods of one node."""

    def __init__(
        self,
        client: Client,
        config: NodeConfig,
        *,
        clock: Clock,
        random: randoms.Random,
        gates: FeatureGates,
        dependencies: NodeDependencies = NodeDependencies(),
    ) -> None:
        """``client`` is the Kubernetes API as this node's user. Nothing runs before `run`."""
        # Without a name of its own the API server would name the owner of the fields after this program's user agent.
        client = client.as_manager(FIELD_MANAGER)
        self.config = config
        self.registry = PluginRegistry()
        self.metrics = NodeMetrics(clock)
        self.metrics.node = config.name
        self.missing = ""
        """Missing features of the chosen runtime, in one line; "" if none. Set before the node is ready."""
        self.port = 0
        """Port of the node's server; 0 while it is not listening."""
        self._client = client
        self._clock = clock
        self._random = random
        self._gates = gates
        self._given = dependencies
        self._faults = dependencies.faults or FaultPoints()
        self._manager: PodManager | None = None
        self._meter: UsageMeter | None = None
        self._ready = Event()
        self._listener: Listener | None = None
        root = config.root
        if root is not None:
            root.mkdir(mode=0o750, parents=True, exist_ok=True)
        file = FileCheckpoint(root / "dra_manager_state") if root is not None else MemoryCheckpoint()
        self.claims = ClaimManager(
            client, self.registry, dependencies.checkpoint or file, clock=clock, gates=gates, metrics=self.metrics
        )
        self.health = HealthCache(clock, gates, root / "dra_health_state" if root is not None else None)

    async def usage(self) -> JSONObject | None:
        """Return the resource usage of the node's pods for ``/stats/summary``; None before the agent runs pods."""
        return await self._meter.summary() if self._meter is not None else None

    def show_certificate(self, pair: Path) -> None:
        """Let the node's server show another certificate from the next connection on; ``pair`` has it with its key.

        Raises:
            ssl.SSLError: it holds no certificate with its key.
        """
        if self._listener is not None:
            self._listener.show_certificate(pair)

    @property
    def is_ready(self) -> bool:
        """Return True if `wait_ready` would return at once."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        """Wait until the Node object exists with a Ready status, pods are run, and drivers may publish.

        Slices of an earlier life are gone then; what a driver publishes before would be removed with them.
        """
        await self._ready.wait()

    async def run(self) -> None:
        """Run until cancelled.

        Raises:
            UnprotectedServer: the node's server cannot authenticate callers. Nothing was started.
            NotPrivate: a directory for Secrets belongs to another user. Nothing was started.
            CorruptCheckpoint: the checkpoint of prepared claims is damaged. Nothing was started.
            ShimLost: the container shim cannot be started.
            IncompatibleShim: a shim of another version holds the node's containers.
            UnusableRuntime: the configured runtime cannot be used on this machine.
        """
        # Before anything is started: an agent without a certificate must not first adopt containers and then fail.
        tls = self._prepare()
        # Before the runtime reports containers: they may use claims that only the checkpoint knows.
        self.claims.recover()
        runtime = await self._open_runtime()
        try:
            found = await runtime.open(self._container_ended)
            await self._run_parts(runtime, found, tls)
        finally:
            # Usually containers go on running: the next agent adopts them, as after a kubelet's restart.
            await runtime.close(stop_containers=self.config.stop_containers)

    def _prepare(self) -> TLSFiles | None:
        """Make directories and files private, even if they existed before. Return the server's certificate files."""
        root = self.config.root
        if root is None:
            return None
        # Here and below: a simulated node has neither server nor sockets nor processes, and loads no modules for them.
        from cathedra.node.runtime.choose import open_root
        from cathedra.node.server.tls import node_tls

        open_root(root)
        return node_tls(self.config, root, self._clock.now())

    async def _open_runtime(self) -> Runtime:
        if self._given.runtime is not None:
            return self._given.runtime
        if self.config.root is None:
            return SimulatedRuntime(self._clock)
        # start-up time: a simulated node runs no containers
        from cathedra.node.runtime.choose import choose_configured

        choosing = self._given.choosing
        chosen = await (choose_configured(self.config, self._clock) if choosing is None else choosing())
        self.missing = chosen.missing
        return chosen.runtime

    def _container_ended(self, state: ContainerRun) -> None:
        if self._manager is not None:
            self._manager.container_ended(state)

    async def _run_parts(self, runtime: Runtime, found: tuple[ContainerRun, ...], tls: TLSFiles | None) -> None:
        config = self.config
        recorder = self._given.recorder or EventRecorder(self._client, "kubelet", self._clock, host=config.name)
        devices = self._device_manager()
        context = self._pod_context(runtime, recorder, devices)
        source = self._given.pods
        async with asyncio.TaskGroup() as group:
            group.create_task(runtime.supervise())
            if source is None:
                source = self._informer_pods(group)
            self._manager = manager = PodManager(context, source)
            self.metrics.count_pods = manager.counts
            self._meter = meter = UsageMeter(config.name, manager, runtime, self._clock)
            if config.root is not None and tls is not None:
                self._serve(group, config.root, runtime, manager, meter, tls)
            reporter = self._reporter(runtime, devices)
            if devices is not None:
                self._follow_devices(group, devices)
            wiper = self._slice_wiper(reporter)
            self.registry.listen(RegistryListener(on_usable=lambda _: self._driver_usable(manager)))
            follower = HealthFollower(self.health, self.registry, self._clock, self._health_changed)
            if self._given.recorder is None:
                group.create_task(recorder.run())
            group.create_task(reporter.run())
            # Before 1.31 the kubelet published slices itself (classic/nodes/listing.py).
            wipes = config.root is not None and self._gates.has(behaviours.KUBELET_WIPES_SLICES)
            if wipes:
                group.create_task(wiper.run())
            group.create_task(follower.run())
            # One turn for the tasks above: drivers that register at once must find their listeners.
            await asyncio.sleep(0)
            self._register_plugins(group)
            group.create_task(self._become_ready(reporter, wiper if wipes else None))
            group.create_task(self._reconcile(source, manager))
            await manager.run(found)

    def _informer_pods(self, group: asyncio.TaskGroup) -> InformerPods:
        """Return the pods of the node in the API, whose informer runs in ``group``."""
        selection = InformerSelection(field_selector=f"spec.nodeName={self.config.name}")
        informer = Informer(self._client, PODS, selection, clock=self._clock, observer=self.metrics)
        group.create_task(informer.run())
        return InformerPods(informer)

    def _slice_wiper(self, reporter: NodeReporter) -> SliceWiper:
        """Return the wiper of slices whose driver is gone, which follows the registry."""
        wiper = SliceWiper(
            self._client,
            self.config.name,
            clock=self._clock,
            random=self._random,
            wait_for_node=reporter.wait_registered,
            delay=self.config.wiping_seconds,
        )
        wiper.follow(self.registry)
        return wiper

    def _pod_context(self, runtime: Runtime, recorder: EventRecorder, devices: DeviceManager | None) -> PodContext:
        """Return the parts that all pods of the node share."""
        config = self.config
        facts = NodeFacts(
            config.address,
            node_allocatable(config),
            self._gates,
            capacity={name: Quantity(value) for name, value in node_capacity(config).items()},
        )
        return PodContext(
            client=self._client,
            config=config,
            clock=self._clock,
            random=self._random,
            gates=self._gates,
            runtime=runtime,
            claims=self.claims,
            recorder=recorder,
            health=self.health,
            facts=facts,
            metrics=self.metrics,
            devices=devices,
            cgroups=self._cgroups(runtime, facts),
            faults=self._faults,
            inherited_environment=_service_environment(config),
        )

    def _reporter(self, runtime: Runtime, devices: DeviceManager | None) -> NodeReporter:
        # The runtime of a simulated node cannot fail, and polling thousands of them would cost time.
        monitor = RuntimeMonitor(runtime.status, self._clock) if self.config.root is not None else None
        return NodeReporter(
            self._client,
            self.config,
            RuntimeInfo(runtime.name, runtime.version, self.port),
            clock=self._clock,
            gates=self._gates,
            sources=ReportSources(heard=self._given.heard, monitor=monitor, devices=devices),
        )

    def _device_manager(self) -> DeviceManager | None:
        """Return the device manager; None on a simulated node without device plugins, to save memory on thousands of
        them.
        """
        root = self.config.root
        if root is None and not self._given.device_plugins:
            return None
        return DeviceManager(self._clock, self.metrics, root / "device-plugins" if root is not None else None)

    def _follow_devices(self, group: asyncio.TaskGroup, devices: DeviceManager) -> None:
        for resource, client in self._given.device_plugins.items():
            devices.register(resource, client)
        group.create_task(devices.run())
        if self.config.root is not None:
            # start-up time: gRPC, with sockets alone
            from cathedra.node.deviceplugins.registration import DIRECTORY, PluginRegistration

            group.create_task(PluginRegistration(self.config.root / DIRECTORY, devices).run())

    def _cgroups(self, runtime: Runtime, facts: NodeFacts) -> PodCgroups | None:
        """Return the cgroups of pods; None without a usable hierarchy, or if the runtime chooses cgroups itself."""
        mount = self.config.cgroup_mount
        if mount is None and self.config.root is not None and is_usable(MOUNT):
            mount = MOUNT
        if mount is None or not runtime.cgroup:
            return None
        cgroups = PodCgroups(mount, runtime.cgroup, facts.allocatable, self._gates)
        try:
            cgroups.open()
        # Cgroups are missing inside many containers. Pods run without limits of their own then, which is
        # logged.
        except OSError as error:
            _LOG.warning("pods get no cgroups of their own: %s", error)
            return None
        return cgroups

    def _driver_usable(self, manager: PodManager) -> None:
        manager.retry_all()
        self.claims.look_again()

    async def _become_ready(self, reporter: NodeReporter, wiper: SliceWiper | None) -> None:
        await reporter.wait_registered()
        if wiper is not None:
            await wiper.wait_wiped()
        self._ready.set()

    async def _reconcile(self, source: PodSource, manager: PodManager) -> None:
        # Before the first list every prepared claim looks unused, and would be unprepared under its running pod.
        await source.wait_synced()
        await self.claims.reconcile(manager.active, every=self.config.reconcile_seconds)

    def _health_changed(self, driver: str, devices: set[tuple[str, str]]) -> None:
        if self._manager is not None:
            self._manager.look_again(self.claims.cache.with_device(driver, devices))

    def _register_plugins(self, group: asyncio.TaskGroup) -> None:
        for driver, client in self._given.plugins.items():
            health = self._given.plugin_health.get(driver)
            self.registry.add(PluginInstance(driver, "in-process", LimitedPlugin(client), health, connected=True))
        root = self.config.root
        if root is None:
            return
        # start-up time: gRPC, with sockets alone
        from cathedra.node.plugins.registration import CurrentDial, PluginRegistrar, services_of

        (root / "plugins").mkdir(mode=0o750, exist_ok=True)
        if self._given.make_dial is not None:
            dial = self._given.make_dial(self._clock, self.metrics)
        else:
            dial = CurrentDial(self._clock, self.metrics, services_of(self._gates))
        registrar = PluginRegistrar(
            root / "plugins_registry",
            self.registry,
            plugins=root / "plugins",
            clock=self._clock,
            metrics=self.metrics,
            dial=dial,
        )
        group.create_task(registrar.run())

    def _serve(
        self,
        group: asyncio.TaskGroup,
        root: Path,
        runtime: Runtime,
        manager: PodManager,
        meter: UsageMeter,
        tls: TLSFiles,
    ) -> None:
        # start-up time: a simulated node serves nothing
        from cathedra.asgi.listener import Listener, bind
        from cathedra.client.reviews import RequestAuthenticator
        from cathedra.node.server.app import NodeApp, RequestAuthorizer, ServedNode
        from cathedra.node.server.podresources import PodResourcesServer

        listening = bind(self.config.listen_address or self.config.address, self.config.port)
        self.port = listening.getsockname()[1]
        app = NodeApp(
            ServedNode(manager, runtime, meter, root),
            authenticator=RequestAuthenticator(self._client, self._clock),
            authorizer=RequestAuthorizer(self._client, self.config.name, self._clock),
            metrics=self.metrics,
            clock=self._clock,
        )
        self._listener = Listener(app, listening, tls)
        group.create_task(_serve_until_cancelled(app, self._listener))
        resources = PodResourcesServer(
            root / "pod-resources", manager, self.claims, clock=self._clock, gates=self._gates, metrics=self.metrics
        )
        group.create_task(resources.run())


async def _serve_until_cancelled(app: NodeApp, listener: Listener) -> None:
    await listener.start()
    try:
        await listener.ended()
    finally:
        app.close()  # first, so that logs that are followed end and their connections need no grace
        await listener.stop()


def _service_environment(config: NodeConfig) -> dict[str, str]:
    if config.api_server is None:
        return {}
    host, port = config.api_server
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
