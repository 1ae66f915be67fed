"""A simulated cluster that follows a plan: every part is the real one, in virtual time; only containers, devices and
stores are played.

A part lives as a task that can be killed at any moment and is started again. Every durable write, event and container
is shown to the invariants at once; the first violation ends the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import Any, Final

from cathedra.advisor.advisor import Advisor, AdvisorOptions
from cathedra.api.status import StatusError
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.registry.layout import LogLayout, SharedLayout
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.protocol import StorageError, Write
from cathedra.client.client import Client
from cathedra.client.leaderelection import LeaderElector, LeaseTiming, LostLeadership
from cathedra.client.transport import APICall, WatchEvent
from cathedra.clock import LoopClock
from cathedra.controllers.controller import Controller, ControllerContext
from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions
from cathedra.controllers.nodes.lifecycle import LifecycleTiming, NodeLifecycleController
from cathedra.faultsim.invariant import BrokenInvariant, Invariant
from cathedra.faultsim.invariants import INVARIANTS, LOST_ALLOCATIONS, lost_allocation
from cathedra.faultsim.machines import HEARTBEAT_SECONDS, DeathAtStep, Machine
from cathedra.faultsim.network import Link, Network, ObservedWatch, PartClock, PatientClock, ServerLife
from cathedra.faultsim.observation import Chronicle, NodeView
from cathedra.faultsim.plan import FaultPlan, PlannedStep, Setup, part_names
from cathedra.faultsim.sqlitestore import SQLiteDisk, SQLiteStore
from cathedra.faultsim.stores import Disk, DiskStore, SharedMedium, SharedStore
from cathedra.faultsim.users import SECOND_SCHEDULER, Users
from cathedra.insight.reading.live import ServerFeatures
from cathedra.insight.reading.state import READ_KINDS
from cathedra.kinds.served import all_definitions
from cathedra.node.runtime.runtime import ContainerSpec
from cathedra.releases import FeatureGates, UnknownGate
from cathedra.scheduler.configuration.reading import (
    DEFAULT_CONFIGURATION,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from cathedra.scheduler.scheduler import Scheduler

_RUNTIME_CONFIG: Final = {"scheduling.k8s.io/v1beta1": True, "resource.k8s.io/v1beta2": True}
_RESTART_SECONDS: Final = 1.0
_LEASE: Final = LeaseTiming(lease=120.0, renew_deadline=90.0, retry=30.0)
"""Longer than the default: with two schedulers most writes of an idle cluster would be renewals."""
_FLAP_SECONDS: Final = 5.0
_ADVISOR_PATIENCE: Final = 20.0
"""The advisor compares its answers with the scheduler's each second: here, once in twenty."""
_SECOND: Final = SchedulerConfiguration(profiles=(ProfileConfiguration(name=SECOND_SCHEDULER),))
"""The configuration of a scheduler that takes only pods that name it."""


_HOOKS: Final = (
    "written",
    "acknowledged",
    "refused",
    "watched",
    "preparing",
    "prepared",
    "unprepared",
    "started",
    "ended",
)


def _implementing(hook: str, invariants: list[Invariant]) -> list[Callable[..., None]]:
    """Return the methods that check something: there are some 20 invariants, and most have one or two hooks."""
    return [getattr(one, hook) for one in invariants if getattr(type(one), hook) is not getattr(Invariant, hook)]


class SupervisedPart:
    """A program that is started again whenever it ends."""

    def __init__(self, name: str, make: Callable[[], Coroutine[Any, Any, None]], world: FaultedCluster) -> None:
        self.name = name
        self.clock = PartClock(world.clock)
        self.link: Link | None = None
        """The connection of this life."""
        self._make = make
        self._world = world
        self._task: asyncio.Task[None] | None = None
        self._holds = 0
        """Faults that keep it from running."""

    def start(self) -> None:
        """Run, if nothing holds it back."""
        if self._task is None and not self._holds:
            self._task = asyncio.ensure_future(self._live())

    async def stop(self) -> None:
        """End the program as a kill does."""
        task, self._task = self._task, None
        if self.link is not None:
            self.link.dead = True
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def retire(self) -> None:
        """Die, and never start again."""
        self._holds += 1
        await self.stop()

    async def down(self, seconds: float) -> None:
        """Die, stay away for a time, and start again; also if this is cancelled."""
        self._holds += 1
        try:
            await self.stop()
            await asyncio.sleep(seconds)
        finally:
            self._holds -= 1
            self.start()

    async def _live(self) -> None:
        while True:
            try:
                await self._make()
            except Exception as error:
                if not (self.link is not None and self.link.dead) and not _expected(error):
                    self._world.ended(self.name, error)
            await asyncio.sleep(_RESTART_SECONDS)


def _expected(error: BaseException) -> bool:
    """Return True if a part ends with this error by design, and its supervisor starts it again."""
    if isinstance(error, BaseExceptionGroup):
        return all(_expected(one) for one in error.exceptions)
    return isinstance(error, LostLeadership)


class FaultedCluster:
    """The cluster of one plan."""

    def __init__(self, plan: FaultPlan) -> None:
        self.plan = plan
        setup = plan.setup
        self.clock = LoopClock(asyncio.get_running_loop())
        self.random = Random(plan.seed)
        self.release = setup.release
        self.gates = _gates(setup.release, setup.gates)
        self.violation: BrokenInvariant | None = None
        self.finished = asyncio.Event()
        """Set with the first violation."""
        self._served = asyncio.Event()
        """Set when the first server runs."""
        self.shared = setup.servers > 1
        definitions = all_definitions(self.gates)
        layout = SharedLayout(setup.release) if self.shared else LogLayout(setup.release)
        self.chronicle = Chronicle(self.clock.monotonic, layout, definitions)
        self.invariants: list[Invariant] = [one(self.chronicle) for one in INVARIANTS]
        self._checks = {name: _implementing(name, self.invariants) for name in _HOOKS}
        self.network = Network(self._random(), self)
        self.medium = self._medium(setup)
        self._store_random = self._random()
        self.machines = {
            f"node-{number}": Machine(f"node-{number}", setup, self.clock, self._random(), self)
            for number in range(setup.nodes)
        }
        self.chronicle.rivals = not setup.elected
        self.chronicle.nodes = {name: machine.view for name, machine in self.machines.items()}
        self.parts = {name: SupervisedPart(name, self._maker(name), self) for name in part_names(setup)}
        for name in self.parts:
            if name.startswith(("node-", "driver-")):
                self._death_of(name).on_death = partial(self._died, name, "a step")
        self.met: dict[str, float] = {}
        """Seconds that each kind of fault was active."""
        link = Link(self.network, "user", "system:admin", faulty=False)
        self.users = Users(Client(link, clock=self.clock), self.clock, setup)
        self._identities = 0
        self._tasks: dict[asyncio.Task[None], None] = {}

    def _random(self) -> Random:
        return Random(self.random.getrandbits(64))

    def _medium(self, setup: Setup) -> Disk | SharedMedium:
        if self.shared:
            return SharedMedium(self._random(), self.durable)
        if setup.sqlite:
            return SQLiteDisk(self._random(), self.durable, self._lost)
        return Disk(self._random(), self.durable)

    def _lost(self, text: str) -> None:
        self.fail(BrokenInvariant("AcknowledgedWritesSurvive", text))

    # What is observed.

    def durable(self, write: Write) -> None:
        """Note that a write became durable."""
        change = self.chronicle.written(write)
        if change is not None:
            self._check("written", change)

    def acknowledged(self, call: APICall, result: Any) -> None:
        """Note that a part received the answer to a write."""
        self._check("acknowledged", call, result)

    def refused(self, call: APICall, error: StatusError) -> None:
        """Note that a server refused a call of a part."""
        if lost_allocation(call, error):
            self.network.met[LOST_ALLOCATIONS] = self.network.met.get(LOST_ALLOCATIONS, 0) + 1
            self._check("refused", call, error)

    def watched(self, stream: ObservedWatch, event: WatchEvent[Any]) -> None:
        """Note that a part received an event."""
        self._check("watched", stream, event)

    def preparing(self, node: NodeView, driver: str, claim: str, recorded: frozenset[str]) -> None:
        """Note that a driver is called."""
        self.chronicle.note(f"{node.name} prepare {claim}")
        self._check("preparing", node, driver, claim, recorded)

    def prepared(self, node: NodeView, driver: str, claim: str) -> None:
        """Note that a driver has made devices ready."""
        self.chronicle.note(f"{node.name} prepared {claim}")
        self._check("prepared", node, driver, claim)

    def unprepared(self, node: NodeView, driver: str, claim: str) -> None:
        """Note that the agent calls a driver to take devices back."""
        self.chronicle.note(f"{node.name} unprepare {claim}")
        self._check("unprepared", node, driver, claim)

    def started(self, node: NodeView, container: ContainerSpec) -> None:
        """Note that a container has started."""
        self.chronicle.note(f"{node.name} started {container.pod.namespace}/{container.pod.name} {container.name}")
        self._check("started", node, container)

    def stopped(self, node: NodeView, container: ContainerSpec) -> None:
        """Note that a container has ended."""
        self.chronicle.note(f"{node.name} ended {container.pod.namespace}/{container.pod.name} {container.name}")

    def ended(self, part: str, error: BaseException) -> None:
        """Note that a part has ended by itself."""
        self.chronicle.note(f"{part} failed")
        self._check("ended", part, error)

    def fail(self, violation: BrokenInvariant) -> None:
        """End the run; only the first violation counts."""
        # Recorded and not raised: an observer stands in the middle of the cluster's own code.
        if self.violation is None:
            self.violation = violation
            self.chronicle.end(f"VIOLATION {violation}")
            self.finished.set()

    def _check(self, hook: str, *seen: Any) -> None:
        for check in self._checks[hook]:
            try:
                check(*seen)
            except BrokenInvariant as violation:
                self.fail(violation)

    # Parts.

    async def start(self) -> None:
        """Start all parts, and wait until the nodes are ready."""
        for name in self.parts:
            if name.startswith("server-"):
                self.parts[name].start()
        await self._served.wait()
        await self.users.prepare()
        for part in self.parts.values():
            part.start()
        await asyncio.sleep(30.0)

    async def close(self) -> None:
        """Stop all parts and servers of the cluster."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for part in reversed(self.parts.values()):
            await part.retire()
        if isinstance(self.medium, SQLiteDisk):
            self.medium.vfs.close()

    def _maker(self, name: str) -> Callable[[], Coroutine[Any, Any, None]]:
        kind = name.partition("-")[0]
        makers: Mapping[str, Callable[[str], Coroutine[Any, Any, None]]] = {
            "server": self._serve,
            "scheduler": self._schedule,
            "controllers": self._control,
            "advisor": self._advise,
            "node": self._run_agent,
            "driver": self._run_driver,
        }
        return lambda: makers[kind](name)

    def _client(self, part: str, user: str, groups: tuple[str, ...] = ("system:masters",)) -> Client:
        life = self.parts[part]
        life.link = Link(self.network, part, user, groups, on_death=lambda: self._died(part))
        return Client(life.link, clock=life.clock)

    def _died(self, part: str, where: str = "a write") -> None:
        self.chronicle.note(f"{part} dies at {where}")
        link = self.parts[part].link
        # At once: the task that kills the part runs a turn of the loop later.
        if link is not None:
            link.dead = True
        self.spawn(self._dead(part))

    async def _dead(self, part: str) -> None:
        # A fault as each other: its consequences must not be taken for those of a calm time.
        with self.chronicle.disturbed():
            await self.parts[part].down(_RESTART_SECONDS * 5)

    async def _serve(self, name: str) -> None:
        config = ServerConfig(release=self.release, gates=self.gates, runtime_config=_RUNTIME_CONFIG)
        medium = self.medium
        store: DiskStore | SharedStore
        if isinstance(medium, SharedMedium):
            store = SharedStore(medium)
        else:
            store = SQLiteStore(medium) if isinstance(medium, SQLiteDisk) else DiskStore(medium)
        clock = self.parts[name].clock
        try:
            server = await APIServer.open(config, clock=clock, random=self._random(), store=store)
        except (StorageError, StatusError):
            # A server whose store does not work at the start ends with that error, and is started again.
            store.die()
            return
        life = self.network.servers[name] = ServerLife(name, server)
        self._served.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            life.hang_up()
            store.die()
            await server.close()

    async def _schedule(self, name: str) -> None:
        client = self._client(name, "system:kube-scheduler")
        clock = self.parts[name].clock

        configuration = _SECOND if self.plan.setup.named and name == SECOND_SCHEDULER else DEFAULT_CONFIGURATION

        async def lead() -> None:
            scheduler = Scheduler(
                client, clock=clock, random=self._random(), gates=self.gates, configuration=configuration
            )
            await scheduler.run()

        if self.plan.setup.schedulers == 1 or not self.plan.setup.elected:
            await lead()
            return
        self._identities += 1
        identity = f"{name}_{self._identities}"
        elector = LeaderElector(client, "kube-scheduler", identity, clock=clock, timing=_LEASE)
        await elector.run(lead)

    async def _control(self, name: str) -> None:
        client = self._client(name, "system:kube-controller-manager")
        clock = self.parts[name].clock
        options = ControllerOptions(replaced={NodeLifecycleController.name: _patient_lifecycle})
        await ControllerManager(client, clock=clock, random=self._random(), gates=self.gates, options=options).run()

    async def _advise(self, name: str) -> None:
        client = self._client(name, "system:serviceaccount:kube-system:cathedra-advisor")
        kinds = tuple(kind for kind in READ_KINDS if not kind.gate or self.gates.get(kind.gate, False))
        clock = PatientClock(self.parts[name].clock, _ADVISOR_PATIENCE)
        features = ServerFeatures(self.gates, kinds)
        advisor = self.chronicle.advisor = Advisor(
            client, features, source="the cluster", clock=clock, options=AdvisorOptions()
        )
        try:
            await advisor.run()
        finally:
            self.chronicle.advisor = None

    async def _run_agent(self, name: str) -> None:
        client = self._client(name, f"system:node:{name}", ("system:nodes",))
        await self.machines[name].agent(client, self.parts[name].clock, self.gates).run()

    async def _run_driver(self, name: str) -> None:
        machine = self.machines[name.replace("driver", "node")]
        client = self._client(name, "system:serviceaccount:kube-system:gpu.example.com")
        runner = machine.driver(client, self.parts[name].clock, self.gates)
        machine.runner = runner
        machine.driver_gone = gone = asyncio.Event()
        try:
            await runner.run()
        finally:
            machine.runner = None
            gone.set()
            # The stream of a driver that has died breaks; this board has no socket to break with.
            if runner.health is not None:
                runner.health.close()

    # Steps.

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the plan, until `heal`."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            assert error is not None
            self.ended("the simulation", error)

    def step(self, step: PlannedStep) -> None:
        """Begin a step of the plan."""
        self.chronicle.note(f"step {step.do} {step.on} {step.to} {step.seconds} {step.share} {step.count}")
        self.spawn(self.users.carry_out(step) if self.users.can(step) else self._fault(step))

    async def _fault(self, step: PlannedStep) -> None:
        began = self.clock.monotonic()
        try:
            with self.chronicle.disturbed():
                await self._faulty(step)
        finally:
            self.met[step.do] = self.met.get(step.do, 0.0) + self.clock.monotonic() - began

    async def _faulty(self, step: PlannedStep) -> None:
        part = self.parts.get(step.on)
        machine = self.machines.get(step.on)
        if step.do == "upgrade":
            await self._upgrade(step.to)
        elif step.do == "delete-node":
            await self._delete_node(step.on)
        elif step.do == "kill" and part is not None:
            await part.down(step.seconds)
        elif step.do == "kill-at-write" and part is not None:
            if part.link is not None:
                part.link.writes_left = step.count
        elif step.do == "kill-at-step" and part is not None:
            self._death_of(step.on).left = step.count
        elif step.do == "clock-jump" and part is not None:
            part.clock.offset += step.seconds
        elif step.do == "reboot" and machine is not None:
            await self._reboot(step, machine)
        elif step.do == "driver-flaps" and machine is not None:
            await self._flap(step)
        elif step.do == "device-dies" and machine is not None:
            await self._kill_device(step, machine)
        elif machine is not None and step.do.startswith(("driver-", "checkpoint-")):
            await self._break_node(step, machine)
        elif step.do in ("disk-full", "sync-errors", "compaction", "leader-loss"):
            await self._break_store(step)
        else:
            with self.network.disturbed(step.do, step.on, step.share):
                await asyncio.sleep(step.seconds)

    def _death_of(self, part: str) -> DeathAtStep:
        machine = self.machines[part.replace("driver", "node")]
        return machine.agent_death if part.startswith("node") else machine.driver_death

    async def _reboot(self, step: PlannedStep, machine: Machine) -> None:
        driver = self.parts[step.on.replace("node", "driver")]
        async with AsyncExitStack() as stack:
            downs = [asyncio.ensure_future(one.down(step.seconds)) for one in (self.parts[step.on], driver)]
            stack.push_async_callback(_cancel, downs)
            await asyncio.sleep(0.1)
            machine.reboot()
            await asyncio.gather(*downs)

    async def _flap(self, step: PlannedStep) -> None:
        end = self.clock.monotonic() + step.seconds
        driver = self.parts[step.on.replace("node", "driver")]
        while self.clock.monotonic() < end:
            await driver.down(self.network.random.uniform(0.1, _FLAP_SECONDS))
            await asyncio.sleep(self.network.random.uniform(0.1, _FLAP_SECONDS))

    async def _kill_device(self, step: PlannedStep, machine: Machine) -> None:
        machine.order("health", step.to, "Unhealthy", "it has failed")
        machine.order("taint", step.to, "example.com/dead:NoExecute")
        try:
            await asyncio.sleep(step.seconds)
        finally:
            machine.order("untaint", step.to, "example.com/dead")
            machine.order("health", step.to, "Healthy")

    async def _break_node(self, step: PlannedStep, machine: Machine) -> None:
        faults = machine.faults
        if step.do == "driver-hangs" and faults.hanging is None:
            faults.hanging = asyncio.Event()
        if step.do == "driver-lies":
            faults.lying = step.share
        if step.do == "driver-fails":
            faults.failing = step.share
        if step.do == "checkpoint-full":
            machine.checkpoint.full = True
        try:
            await asyncio.sleep(step.seconds)
        finally:
            faults.end()
            machine.checkpoint.full = False

    async def _break_store(self, step: PlannedStep) -> None:
        medium = self.medium
        if isinstance(medium, SharedMedium):
            if step.do == "compaction":
                medium.compact()
                return
            medium.leaderless = step.do in ("leader-loss", "disk-full")
            medium.failing = step.share if step.do == "sync-errors" else 0.0
        else:
            if step.do in ("compaction", "leader-loss"):
                medium.recent.clear()
                return
            medium.full = step.do == "disk-full"
            medium.failing_syncs = step.share if step.do == "sync-errors" else 0.0
        try:
            await asyncio.sleep(step.seconds)
        finally:
            self._mend_store()

    def _mend_store(self) -> None:
        medium = self.medium
        if isinstance(medium, SharedMedium):
            medium.leaderless, medium.failing = False, 0.0
            medium.wake()
        else:
            medium.full, medium.failing_syncs = False, 0.0

    async def _upgrade(self, release: str) -> None:
        self.release, self.gates = release, _gates(release, self.plan.setup.gates)
        for part in self.parts.values():
            await part.down(2.0)
            await asyncio.sleep(5.0)

    async def _delete_node(self, name: str) -> None:
        driver = self.parts[name.replace("node", "driver")]
        downs = [asyncio.ensure_future(one.down(60.0)) for one in (self.parts[name], driver)]
        try:
            await asyncio.sleep(1.0)
            # The machine goes with its node: nothing runs there when another one comes in its place.
            self.machines[name].reboot()
            await self.users.delete_node(name)
            await asyncio.gather(*downs)
        finally:
            await _cancel(downs)

    async def heal(self) -> None:
        """End all faults, and let every part run."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.network.calm()
        self._mend_store()
        for part in self.parts.values():
            part.clock.offset = 0.0
            if part.link is not None:
                part.link.writes_left = 0
        for name, machine in self.machines.items():
            machine.faults.end()
            machine.agent_death.left = machine.driver_death.left = 0
            machine.checkpoint.full = False
            machine.order("reset")
            self.parts[name].start()


async def _cancel(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _patient_lifecycle(context: ControllerContext) -> Controller:
    """Return the controller that marks silent nodes, with times in proportion to the longer interval of heartbeats."""
    timing = LifecycleTiming(
        period=HEARTBEAT_SECONDS / 2, grace=HEARTBEAT_SECONDS * 3, startup_grace=HEARTBEAT_SECONDS * 4
    )
    return NodeLifecycleController(context, timing=timing)


def _gates(release: str, wanted: Mapping[str, bool]) -> FeatureGates:
    """Return the gates of a release, with those that are wanted as far as the release has them."""
    gates: dict[str, bool] = {}
    for gate, value in wanted.items():
        try:
            FeatureGates.for_release(release, gates | {gate: value})
        except (UnknownGate, ValueError):
            continue
        gates[gate] = value
    return FeatureGates.for_release(release, gates)
