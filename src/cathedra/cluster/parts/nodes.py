"""Nodes of a cluster: agent and drivers, and injected faults.

With a real runtime agent and drivers use the unix sockets of the kubelet's plugin protocol, as separate processes
would. On a simulated node there are neither sockets nor files, and drivers are passed as objects.

Faults (``cathedra up --runtime simulated --fail PROFILE[=SHARE]``) show the reactions of scheduler, controllers and
claims. Their times come from the cluster's random numbers, so that a simulation is repeatable.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from cathedra.client.client import Client
from cathedra.clock import Clock
from cathedra.cluster.config import DYING_DEVICES, FLAPPING, SLOW_PREPARE, DriverConfig, NodeFault
from cathedra.cluster.process.logs import NODE
from cathedra.devicemetadata.stream import KNOWN_VERSIONS
from cathedra.driver.driver import Driver
from cathedra.driver.errors import CallFailed
from cathedra.driver.files import MemoryFiles
from cathedra.driver.health import DeviceHealth, Health, HealthBoard
from cathedra.driver.preparing.service import ClaimService
from cathedra.driver.run import DriverPlacement, DriverRunner
from cathedra.driver.serving.registration import DRA_OF_131
from cathedra.drivers.example.controls import Controls
from cathedra.drivers.example.driver import DriverOptions, ExampleDriver
from cathedra.drivers.example.profiles import DeviceOptions, make_profile
from cathedra.drivers.profiled import ProfiledDriver
from cathedra.node.agent import NodeAgent, NodeDependencies
from cathedra.node.config import NodeConfig
from cathedra.node.plugins.client import (
    ClaimReference,
    DeviceCondition,
    MakeDial,
    PluginCallError,
    PluginClient,
    PluginDevice,
    PrepareOutcome,
    ReportedHealth,
)
from cathedra.profiles import HardwareProfile
from cathedra.releases import FeatureGates, behaviours

if TYPE_CHECKING:
    from cathedra.node.runtime.choose import ChosenRuntime

D = TypeVar("D", bound=Driver)
_CONDITIONS: Final = {
    Health.UNKNOWN: DeviceCondition.UNKNOWN,
    Health.HEALTHY: DeviceCondition.HEALTHY,
    Health.UNHEALTHY: DeviceCondition.UNHEALTHY,
}
_FOR_EVER: Final = 10.0**9
"""A duration in seconds that never passes."""
Choosing: TypeAlias = "Callable[[], Awaitable[ChosenRuntime]]"
"""Waits until a node's container runtime has been chosen."""


class ClusterNode(Protocol):
    """A node of a cluster: `run` until cancelled."""

    agent: NodeAgent

    @property
    def devices(self) -> Mapping[str, int]:
        """Number of published devices of each driver on the node."""

    async def run(self) -> None:
        """Run everything on the node until cancelled."""

    async def wait_ready(self) -> None:
        """Wait until the node can be used."""


def driver_for(config: DriverConfig, gates: FeatureGates) -> ExampleDriver:
    """Return the example driver with the configured devices, adapted to the release."""
    devices = DeviceOptions(
        count=config.gpus,
        partitions=config.partitions,
        shared=config.shared,
        memory=config.memory,
        attributes=dict(config.attributes),
        cpus=config.cpus,
    )
    driver = ExampleDriver(
        make_profile(config.profile, devices),
        DriverOptions(
            name=config.name,
            metadata_versions=_metadata_versions(gates),
            publish_status=config.publish_status,
            binding_conditions=config.binding_conditions,
        ),
    )
    return _of_release(driver, gates)


def profiled_drivers(profile: HardwareProfile, gates: FeatureGates) -> tuple[Driver, ...]:
    """Return a driver for each of those that a profile's devices are of."""
    versions = _metadata_versions(gates)
    made = (ProfiledDriver(profile, name, metadata_versions=versions) for name in profile.drivers)
    return tuple(_of_release(driver, gates) for driver in made)


def _of_release(driver: D, gates: FeatureGates) -> D:
    """Return the driver, changed to serve what node agents of the release call."""
    if not gates.has(behaviours.DRA_SERVICE_V1BETA1):
        driver.services = (DRA_OF_131,)
        # Allocations of 1.31 do not mark devices with admin access.
        driver.exclusive = False
    return driver


def _metadata_versions(gates: FeatureGates) -> Sequence[str]:
    return KNOWN_VERSIONS if gates.has(behaviours.METADATA_VERSIONS_ASCENDING) else KNOWN_VERSIONS[::-1]


class InProcessPlugin:
    """A driver of this process in the form in which the node agent calls drivers."""

    def __init__(self, service: ClaimService) -> None:
        self._service = service

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        """Make the claims' devices ready; by claim UID."""
        try:
            answers = await self._service.node_prepare_resources(claims)
        except CallFailed as error:
            raise PluginCallError("Unknown", str(error)) from error
        return {
            uid: PrepareOutcome(
                tuple(
                    PluginDevice(d.pool_name, d.device_name, d.request_names, d.cdi_device_ids, d.share_id)
                    for d in answer.devices
                ),
                answer.error,
            )
            for uid, answer in answers.items()
        }

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Unprepare the claims. Return an error text or "" by claim UID."""
        return await self._service.node_unprepare_resources(claims)


class InProcessHealth:
    """Health of the devices of a driver in this process, as the node agent receives it."""

    def __init__(self, board: HealthBoard, pool_of: Callable[[str], str]) -> None:
        """``pool_of``: the pool of a device whose report names none."""
        self._board = board
        self._pool_of = pool_of

    async def watch_health(self) -> AsyncIterator[tuple[ReportedHealth, ...]]:
        """Yield every device at each change.

        Nothing is repeated in between, so that thousands of idle nodes cost nothing: within one process no report gets
        lost, and each is good until the next. While the driver has nothing to report from, its devices are unknown.
        """
        known: dict[tuple[str, str], ReportedHealth] = {}
        async for reports in self._board.changes():
            unknown = {key: replace(one, health=DeviceCondition.UNKNOWN, message="") for key, one in known.items()}
            known = unknown | {(one.pool, one.device): one for one in map(self._report, reports)}
            yield tuple(known.values())

    def _report(self, report: DeviceHealth) -> ReportedHealth:
        pool = report.pool or self._pool_of(report.device)
        return ReportedHealth(pool, report.device, _CONDITIONS[report.state], _FOR_EVER, report.message)


@dataclasses.dataclass(frozen=True, slots=True)
class NodeEnvironment:
    """A node's access to the API, its time and randomness, its gates, and its runtime."""

    client: Client
    clock: Clock
    random: Random
    gates: FeatureGates
    choosing: Choosing | None = None
    """Returns the container runtime, where its selection has already begun."""

    def agent(self, config: NodeConfig, dependencies: NodeDependencies) -> NodeAgent:
        """Return the agent of a node in this environment."""
        return NodeAgent(
            self.client,
            config,
            clock=self.clock,
            random=self.random,
            gates=self.gates,
            dependencies=dataclasses.replace(dependencies, choosing=self.choosing),
        )


def _placement(config: NodeConfig, driver: str) -> DriverPlacement:
    """Return the place of a driver on a node; on a simulated one it keeps its files in memory."""
    simulated = config.root is None
    root = config.root or Path("/")
    return DriverPlacement(
        node_name=config.name,
        plugin_dir=root / "plugins" / driver,
        registry_dir=None if simulated else root / "plugins_registry",
        cdi_dir=root / "cdi",
        files=MemoryFiles() if simulated else None,
        boot_id="simulated" if simulated else None,
    )


class RunningNode:
    """A node with drivers in this process: `run` until cancelled."""

    def __init__(
        self,
        config: NodeConfig,
        drivers: Sequence[Driver],
        environment: NodeEnvironment,
        *,
        driver_client: Callable[[str], Client],
        faults: frozenset[str] = frozenset(),
    ) -> None:
        """``driver_client`` returns the client of the driver of a name; ``faults``: how the node fails on purpose."""
        clock, random = environment.clock, environment.random
        self.name = config.name
        simulated = config.root is None
        self.drivers = {
            driver.name: DriverRunner(
                driver, driver_client(driver.name), _placement(config, driver.name), clock=clock, random=random
            )
            for driver in drivers
        }
        services: dict[str, PluginClient] = {
            name: InProcessPlugin(runner.service) for name, runner in self.drivers.items()
        }
        if SLOW_PREPARE in faults:
            services = {name: SlowPlugin(each, clock=clock, random=random) for name, each in services.items()}
        plugins = services if simulated else {}
        health = {
            name: InProcessHealth(runner.health, runner.pool_of)
            for name, runner in self.drivers.items()
            if simulated and runner.health is not None
        }
        heard = asyncio.Event()
        heard.set()
        self._failures = NodeFailures(faults, heard, clock=clock, random=random)
        self._controls = [driver.controls for driver in drivers if isinstance(driver, ExampleDriver)]
        self.agent = environment.agent(config, NodeDependencies(plugins=plugins, plugin_health=health, heard=heard))

    @property
    def devices(self) -> dict[str, int]:
        """Number of published devices of each driver; every partition counts."""
        return {name: driver.slices.published()[0] for name, driver in self.drivers.items()}

    async def run(self) -> None:
        """Run agent and drivers until cancelled."""
        NODE.set(self.name)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.agent.run(), name=f"node agent {self.name}")
            # Slices belong to the Node object, so they are published once it exists.
            await self.agent.wait_ready()
            for name, driver in self.drivers.items():
                group.create_task(driver.run(), name=f"driver {name} on {self.name}")
            await self._failures.run(self._controls)

    async def wait_ready(self) -> None:
        """Wait until the node is Ready, and its drivers registered and their slices published."""
        await self.agent.wait_ready()
        for driver in self.drivers.values():
            await driver.wait_ready()


class BareNode:
    """A node whose drivers are programs of their own, which register at its sockets: `run` until cancelled."""

    def __init__(
        self,
        config: NodeConfig,
        environment: NodeEnvironment,
        *,
        make_dial: MakeDial | None,
        plugins: Mapping[str, PluginClient] | None = None,
    ) -> None:
        """``plugins``: on a simulated node, which has no sockets, drivers as objects of this process."""
        self.name = config.name
        self.agent = environment.agent(config, NodeDependencies(make_dial=make_dial, plugins=plugins or {}))

    @property
    def devices(self) -> Mapping[str, int]:
        """None: its drivers are others' programs."""
        return {}

    async def run(self) -> None:
        """Run the agent until cancelled."""
        NODE.set(self.name)
        await self.agent.run()

    async def wait_ready(self) -> None:
        """Wait until the node is Ready."""
        await self.agent.wait_ready()


HEARD_SECONDS: Final = (60.0, 240.0)
SILENT_SECONDS: Final = (60.0, 180.0)
"""Longer than a node may be silent before it counts as lost (40 s), shorter than its pods wait (300 s)."""
PREPARE_SECONDS: Final = (5.0, 60.0)
ALIVE_SECONDS: Final = (60.0, 300.0)
"""Range of seconds until the next device of a node fails."""
DEAD_SECONDS: Final = 600.0
"""Range of seconds until a failed device is replaced."""
TAINT: Final = "simulated.cathedra.dev/dead"


def fails(faults: Iterable[NodeFault], number: int) -> frozenset[str]:
    """Return the ways in which the node of that number (from 0) fails; a share is spread evenly, the first has all."""
    return frozenset(
        fault.profile for fault in faults if math.ceil((number + 1) * fault.share) > math.ceil(number * fault.share)
    )


class NodeFailures:
    """Injects the faults of one node while `run` runs."""

    def __init__(self, profiles: frozenset[str], heard: asyncio.Event, *, clock: Clock, random: Random) -> None:
        """``heard`` is set while the node renews its lease."""
        self._profiles = profiles
        self._heard = heard
        self._clock = clock
        self._random = random

    async def run(self, controls: Sequence[Controls]) -> None:
        """Fail until cancelled; ``controls`` are those of the node's drivers."""
        async with asyncio.TaskGroup() as group:
            if FLAPPING in self._profiles:
                group.create_task(self._flap())
            if DYING_DEVICES in self._profiles:
                for each in controls:
                    group.create_task(self._kill_devices(each))

    async def _flap(self) -> None:
        while True:
            await self._clock.sleep(self._random.uniform(*HEARD_SECONDS))
            self._heard.clear()
            await self._clock.sleep(self._random.uniform(*SILENT_SECONDS))
            self._heard.set()

    async def _kill_devices(self, controls: Controls) -> None:
        async with asyncio.TaskGroup() as group:
            dead: set[str] = set()
            while True:
                await self._clock.sleep(self._random.uniform(*ALIVE_SECONDS))
                alive = [report.device for report in controls.health() if report.device not in dead]
                if alive:
                    group.create_task(self._die(controls, self._random.choice(alive), dead))

    async def _die(self, controls: Controls, device: str, dead: set[str]) -> None:
        dead.add(device)
        controls.carry_out(("health", device, "Unhealthy", "it has died, as requested"))
        controls.carry_out(("taint", device, f"{TAINT}:NoExecute"))
        await self._clock.sleep(DEAD_SECONDS)
        controls.carry_out(("untaint", device, TAINT))
        controls.carry_out(("health", device, "Healthy"))
        dead.discard(device)


class SlowPlugin:
    """A driver that takes its time to prepare claims."""

    def __init__(self, plugin: PluginClient, *, clock: Clock, random: Random) -> None:
        self._plugin = plugin
        self._clock = clock
        self._random = random

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        """Make the claims' devices ready, some time later."""
        await self._clock.sleep(self._random.uniform(*PREPARE_SECONDS))
        return await self._plugin.prepare(claims)

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Unprepare the claims without delay."""
        return await self._plugin.unprepare(claims)
