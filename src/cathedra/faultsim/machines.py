"""Simulated machines: what survives the programs that run there, and the drivers' answers with their faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol, TypeVar

from cathedra.client.client import Client
from cathedra.clock import Clock
from cathedra.cluster.config import DriverConfig
from cathedra.cluster.parts.nodes import InProcessHealth, InProcessPlugin, driver_for
from cathedra.driver.files import MemoryFiles
from cathedra.driver.run import DriverPlacement, DriverRunner
from cathedra.drivers.example.controls import OrderError
from cathedra.drivers.example.driver import ExampleDriver
from cathedra.faultsim.observation import DeviceName, NodeView
from cathedra.faultsim.plan import Setup
from cathedra.node.agent import NodeAgent, NodeDependencies
from cathedra.node.claims.checkpoint import ClaimInfo, MemoryCheckpoint
from cathedra.node.config import NodeConfig
from cathedra.node.plugins.client import ClaimReference, PluginCallError, PrepareOutcome, ReportedHealth
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec
from cathedra.node.runtime.simulated import SimulatedRuntime
from cathedra.releases import FeatureGates

T = TypeVar("T")

PARTITIONS: Final = 2
"""Parts into which a GPU with partitions can be cut."""
_CAPACITY: Final = {"cpu": "16", "memory": "64Gi", "pods": "110"}
_DYING_SECONDS: Final = 0.5
HEARTBEAT_SECONDS: Final = 80.0
"""Interval of the nodes' lease renewals. With the default of ten seconds they would be most of a run."""


class NodeWitness(Protocol):
    """Notified of what happens on nodes."""

    def preparing(self, node: NodeView, driver: str, claim: str, recorded: frozenset[str]) -> None:
        """Note that a driver is called."""

    def prepared(self, node: NodeView, driver: str, claim: str) -> None:
        """Note that a driver has made the devices of a claim ready."""

    def unprepared(self, node: NodeView, driver: str, claim: str) -> None:
        """Note that a driver has taken a claim's devices back."""

    def started(self, node: NodeView, container: ContainerSpec) -> None:
        """Note that a container has started."""

    def stopped(self, node: NodeView, container: ContainerSpec) -> None:
        """Note that a container has ended."""


class Machine:
    """A node's hardware, files and containers. Agents and drivers come and go on it."""

    def __init__(self, name: str, setup: Setup, clock: Clock, random: Random, witness: NodeWitness) -> None:
        self.view = NodeView(name)
        self.faults = DriverFaults(random)
        self.runner: DriverRunner | None = None
        """The driver that runs."""
        self.driver_gone = asyncio.Event()
        """Set when the driver that runs ends."""
        self._name = name
        self._setup = setup
        self._clock = clock
        self._random = random
        self._witness = witness
        self._boots = 1
        self.agent_death = DeathAtStep()
        self.driver_death = DeathAtStep()
        self._files = MortalFiles(self.driver_death)
        self.checkpoint = FaultyCheckpoint(self.agent_death)
        self._runtime = WitnessedRuntime(clock, self.view, witness, self.agent_death)

    def agent(self, client: Client, clock: Clock, gates: FeatureGates) -> NodeAgent:
        """Return a new agent on this machine."""
        config = NodeConfig(
            name=self._name,
            root=None,
            capacity=_CAPACITY,
            stop_containers=False,
            heartbeat_seconds=HEARTBEAT_SECONDS,
            lease_seconds=HEARTBEAT_SECONDS * 4,
            status_seconds=3600.0,
        )
        plugin = MachinePlugin(self, self._witness)
        return NodeAgent(
            client,
            config,
            clock=clock,
            random=self._random,
            gates=gates,
            dependencies=NodeDependencies(
                plugins={plugin.driver: plugin},
                plugin_health={plugin.driver: MachineHealth(self)},
                runtime=self._runtime,
                checkpoint=self.checkpoint,
            ),
        )

    def driver(self, client: Client, clock: Clock, gates: FeatureGates) -> DriverRunner:
        """Return a new driver on this machine; it serves the agent while it is `runner`."""
        return DriverRunner(
            device_driver(self._setup, gates),
            client,
            DriverPlacement(
                node_name=self._name,
                plugin_dir=Path("/plugins/gpu"),
                cdi_dir=Path("/cdi"),
                files=self._files,
                boot_id=f"boot-{self._boots}",
            ),
            clock=clock,
            random=self._random,
        )

    def reboot(self) -> None:
        """Lose containers, devices made ready, and the files of the run directory."""
        self._boots += 1
        self._runtime.lose_power()
        self._runtime = WitnessedRuntime(self._clock, self.view, self._witness, self.agent_death)
        self.view.running.clear()
        self.view.prepared.clear()
        self._files.remove_tree(Path("/cdi"))

    def order(self, *words: str) -> None:
        """Give the driver an order, if it runs. ``gpu-N`` stands for its Nth device."""
        if self.runner is None or not isinstance(self.runner.driver, ExampleDriver):
            return
        devices = [device.name for device in self.runner.driver.devices()]
        named = (devices[int(word[4:]) % len(devices)] if word.startswith("gpu-") else word for word in words)
        # A driver that was started again has forgotten its taints: then there is none to take away.
        with contextlib.suppress(OrderError):
            self.runner.driver.controls.carry_out(tuple(named))


def device_driver(setup: Setup, gates: FeatureGates) -> ExampleDriver:
    """Return the driver with the devices of a cluster."""
    config = DriverConfig(
        gpus=setup.devices,
        partitions=PARTITIONS if setup.supply == "partitions" else 0,
        shared=setup.supply == "shares",
        publish_status=setup.reports,
        binding_conditions=setup.binding,
    )
    return driver_for(config, gates)


class WitnessedRuntime(SimulatedRuntime):
    """A simulated runtime that reports what starts and ends."""

    def __init__(self, clock: Clock, view: NodeView, witness: NodeWitness, death: DeathAtStep) -> None:
        super().__init__(clock)
        self._death = death
        self._view = view
        self._witness = witness
        self._report_end: Callable[[ContainerRun], None] = lambda _: None

    async def open(self, on_exit: Callable[[ContainerRun], None]) -> tuple[ContainerRun, ...]:
        """Begin, and report ends to the witness too."""
        self._report_end = on_exit
        return await super().open(self._exited)

    async def start(self, spec: ContainerSpec) -> ContainerRun:
        """Start a container, and report it."""
        await self._death.reach()
        run = await super().start(spec)
        self._view.running[spec.id] = spec
        self._witness.started(self._view, spec)
        await self._death.reach()
        return run

    async def remove(self, container_id: str) -> None:
        """Remove a container that has ended."""
        await self._death.reach()
        await super().remove(container_id)
        self._gone(container_id)

    async def close(self, *, stop_containers: bool) -> None:
        """Let the agent go; containers go on, and their ends are still seen."""
        # Not the base's: it would also keep the witness from seeing containers that end while no agent runs.
        self._report_end = lambda _: None

    def lose_power(self) -> None:
        """End all containers at once, unseen by the agent."""
        self._report_end = lambda _: None
        for container_id in tuple(self._containers):
            timer = self._containers.pop(container_id).timer
            if timer is not None:
                timer.cancel()

    def _exited(self, run: ContainerRun) -> None:
        self._gone(run.id)
        self._report_end(run)

    def _gone(self, container_id: str) -> None:
        spec = self._view.running.pop(container_id, None)
        if spec is not None:
            self._witness.stopped(self._view, spec)


class FaultyCheckpoint(MemoryCheckpoint):
    """A checkpoint on a disk that may be full."""

    def __init__(self, death: DeathAtStep) -> None:
        super().__init__()
        self.full = False
        self._death = death

    async def save(self, infos: Iterable[ClaimInfo]) -> None:
        """Replace what is saved.

        Raises:
            OSError: the disk is full.
        """
        if self.full:
            raise OSError(28, "No space left on device")
        # The text is made before the wait, as a real agent's is before it is written.
        kept = tuple(infos)
        await self._death.reach()
        await super().save(kept)
        await self._death.reach()

    def recorded(self) -> frozenset[str]:
        """Return the UIDs of the claims that an agent would find."""
        return frozenset(info.uid for info in self.load())


class DeathAtStep:
    """The death of a program between two steps that it takes on its node."""

    def __init__(self) -> None:
        self.left = 0
        """The program dies at the step that brings this to 0; 0: it does not."""
        self.on_death: Callable[[], None] = lambda: None

    async def reach(self) -> None:
        """Go on, or die and never return."""
        if not self.left:
            return
        self.left -= 1
        if not self.left:
            self.on_death()
            # The program's tasks are cancelled now. One that is shielded ends after them, or the program, which waits
            # for it, would never be gone.
            await asyncio.sleep(_DYING_SECONDS)
            raise asyncio.CancelledError


class MortalFiles(MemoryFiles):
    """Files of a driver that may die before or after it writes one."""

    def __init__(self, death: DeathAtStep) -> None:
        super().__init__()
        self._death = death

    async def write_durably(self, path: Path, content: bytes) -> None:
        """Replace the file as one step."""
        await self._death.reach()
        await super().write_durably(path, content)
        await self._death.reach()


class DriverFaults:
    """Faults of the driver of a machine that are active."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.hanging: asyncio.Event | None = None
        """Set when the driver continues."""
        self.lying = 0.0
        """Share of calls that are carried out and whose answer is an error or empty."""
        self.failing = 0.0
        """Share of calls that fail and change nothing."""

    async def before(self) -> None:
        """Hang, or fail.

        Raises:
            PluginCallError: the call failed.
        """
        while self.hanging is not None:
            await self.hanging.wait()
        if self.failing and self.random.random() < self.failing:
            raise PluginCallError("Unavailable", "connection error: the driver is not there")

    def lies(self) -> bool:
        """Return True if the answer of the next call is not true."""
        return bool(self.lying) and self.random.random() < self.lying

    def end(self) -> None:
        """End all faults of the node."""
        self.lying = self.failing = 0.0
        if self.hanging is not None:
            self.hanging.set()
            self.hanging = None


class MachinePlugin:
    """The driver of a machine, as its agent calls it, whichever life of the driver runs."""

    def __init__(self, machine: Machine, witness: NodeWitness) -> None:
        self._machine = machine
        self._witness = witness
        self.driver = "gpu.example.com"

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        """Make the claims' devices ready.

        Raises:
            PluginCallError: the driver is not there, or fails.
        """
        machine, view = self._machine, self._machine.view
        recorded = machine.checkpoint.recorded()
        for claim in claims:
            self._witness.preparing(view, self.driver, claim.uid, recorded)
        service = await self._service()
        await machine.agent_death.reach()
        answers = await self._answered(service.prepare(claims))
        for uid, answer in answers.items():
            if not answer.error:
                view.prepared[self.driver, uid] = _unshared(self.driver, answer)
                self._witness.prepared(view, self.driver, uid)
        await machine.agent_death.reach()
        if not machine.faults.lies():
            return answers
        if machine.faults.random.random() < 0.5:
            return {}
        return {uid: PrepareOutcome((), "the device is not ready") for uid in answers}

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Take the claims' devices back.

        Raises:
            PluginCallError: the driver is not there, or fails.
        """
        machine, view = self._machine, self._machine.view
        for claim in claims:
            self._witness.unprepared(view, self.driver, claim.uid)
        service = await self._service()
        answers = await self._answered(service.unprepare(claims))
        for uid, error in answers.items():
            if not error:
                view.prepared.pop((self.driver, uid), None)
        await machine.agent_death.reach()
        if not machine.faults.lies():
            return answers
        return dict.fromkeys(answers, "the device is busy")

    async def _service(self) -> InProcessPlugin:
        await self._machine.faults.before()
        runner = self._machine.runner
        if runner is None:
            await asyncio.sleep(1.0)
            raise PluginCallError("Unavailable", "connection error: the driver is not there")
        return InProcessPlugin(runner.service)

    async def _answered(self, call: Coroutine[Any, Any, T]) -> T:
        """Return the answer of a call, which fails when the driver ends.

        A call of this process would go on in the agent's task, or wait for good at the step where the driver died.
        Between two processes the connection breaks.
        """
        gone = asyncio.ensure_future(self._machine.driver_gone.wait())
        work = asyncio.ensure_future(call)
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise PluginCallError("Unavailable", "connection error: the driver has ended")
            return work.result()
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)


class MachineHealth:
    """Health of the devices of a machine, from whichever life of its driver runs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def watch_health(self) -> AsyncIterator[tuple[ReportedHealth, ...]]:
        """Yield reports until the driver ends.

        Raises:
            PluginCallError: the driver is not there.
        """
        runner = self._machine.runner
        if runner is None or runner.health is None:
            raise PluginCallError("Unavailable", "connection error: the driver is not there")
        async for reports in InProcessHealth(runner.health, runner.pool_of).watch_health():
            yield reports


def _unshared(driver: str, answer: PrepareOutcome) -> frozenset[DeviceName]:
    return frozenset((driver, one.pool, one.device) for one in answer.devices if one.share_id is None)
