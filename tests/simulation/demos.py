"""A cluster in virtual time on which a demo is played: as ``cathedra up`` starts it, with one simulated node.

`play` carries out the commands of a demo and answers what there is to see after each: pods, and what their containers
are told by the CDI documents of the driver.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import to_dict
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.protocol import MemoryStorage, Record, Settled, StoreContent, Write
from cathedra.cli.configuration import cluster_config
from cathedra.cli.options import CLUSTER
from cathedra.client.client import Client
from cathedra.client.resources import PODS, RESOURCECLAIMS
from cathedra.clock import LoopClock
from cathedra.cluster.manifests import create_all, read_manifests
from cathedra.cluster.parts.nodes import InProcessHealth, InProcessPlugin, driver_for
from cathedra.controllers.controller_manager import ControllerManager
from cathedra.driver import DriverRunner, MemoryFiles
from cathedra.driver.run import DriverPlacement
from cathedra.drivers.example.driver import ExampleDriver
from cathedra.node.agent import NodeAgent, NodeDependencies
from cathedra.node.claims.checkpoint import MemoryCheckpoint
from cathedra.node.config import NodeConfig
from cathedra.node.deviceplugins.manager import DevicePluginClient
from cathedra.node.runtime.runtime import ContainerSpec
from cathedra.node.runtime.simulated import Act, SimulatedRuntime
from cathedra.releases import FeatureGates
from cathedra.scheduler.scheduler import Scheduler
from cathedra.semantics.conditions import find_condition

__all__ = ["NODE", "SETTLING", "Machine", "Stage", "commands", "play", "staged"]

NODE = "node-0"
SETTLING = 100.0
"""Seconds of virtual time after which a cluster does nothing more by itself; less than any toleration in a demo."""


def commands(readme: Path) -> list[str]:
    """The commands of the page's first block."""
    block = readme.read_text().split("```sh\n")[1].split("```")[0]
    return block.splitlines()


class KeptStorage(MemoryStorage):
    """Remembers what is written, in memory and at once: a data directory in virtual time."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._revision = 0

    async def load(self) -> StoreContent:
        """Return the output so far."""
        return StoreContent(self._revision, tuple(self._records.values()))

    def commit(self, write: Write, settled: Settled) -> None:
        """Remember, and settle on the spot."""
        self._revision = write.revision
        if write.value is None:
            self._records.pop(write.key, None)
        else:
            self._records[write.key] = Record(write.key, write.revision, write.value)
        settled(None)

    async def close(self) -> None:
        """The next server finds everything."""


class Machine:
    """State that outlives all programs: the store, containers, and the files of agent and drivers."""

    def __init__(self, clock: LoopClock, cgroups: Path | None = None) -> None:
        """``cgroups``: a directory that stands for the kernel's unified hierarchy."""
        self.clock = clock
        self.cgroups = cgroups
        # One sequence for all parts that run here in turn, so that no UID is used twice.
        self.server_random, self.random = Random(4), Random(5)
        self.storage = KeptStorage()
        self.runtime = SimulatedRuntime(clock, behaviour=_acts)
        self.checkpoint = MemoryCheckpoint()
        self.files = MemoryFiles()


class Stage:
    """A running cluster, and access to its state."""

    def __init__(
        self,
        gates: FeatureGates,
        server: APIServer,
        drivers: Sequence[ExampleDriver],
        machine: Machine,
        plugins: Sequence[str] | None = None,
        device_plugins: Mapping[str, DevicePluginClient] | None = None,
    ) -> None:
        """``plugins``: the drivers that the node agent knows; None: all."""
        self.gates = gates
        self.clock = machine.clock
        self.client = Client(server.transport(), clock=self.clock)
        self.drivers = tuple(drivers)
        self.driver = drivers[0]
        self.files = machine.files
        self.runtime = machine.runtime
        self._random = machine.random
        self.runners = [self._runner(server, driver) for driver in drivers]
        self.runner = self.runners[0]
        capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", "hugepages-2Mi": "1Gi"}
        node = NodeConfig(name=NODE, root=None, capacity=capacity, stop_containers=False, cgroup_mount=machine.cgroups)
        registered = {
            driver.name: InProcessPlugin(runner.service)
            for driver, runner in zip(drivers, self.runners, strict=True)
            if plugins is None or driver.name in plugins
        }
        self.agent = NodeAgent(
            Client(server.transport(f"system:node:{NODE}", ("system:nodes",)), clock=self.clock),
            node,
            clock=self.clock,
            random=self._random,
            gates=gates,
            dependencies=NodeDependencies(
                plugins=registered,
                plugin_health={
                    driver.name: InProcessHealth(runner.health, runner.pool_of)
                    for driver, runner in zip(drivers, self.runners, strict=True)
                    if runner.health is not None
                },
                runtime=self.runtime,
                checkpoint=machine.checkpoint,
                device_plugins=device_plugins,
            ),
        )

    def _runner(self, server: APIServer, driver: ExampleDriver) -> DriverRunner:
        return DriverRunner(
            driver,
            Client(server.transport(f"system:serviceaccount:kube-system:{driver.name}"), clock=self.clock),
            DriverPlacement(
                node_name=NODE,
                plugin_dir=Path("/plugins") / driver.name,
                cdi_dir=Path("/cdi"),
                files=self.files,
                boot_id="simulated",
            ),
            clock=self.clock,
            random=self._random,
        )

    def parts(self) -> Iterator[Any]:
        """Parts that run beside the API server."""
        chosen = {"clock": self.clock, "random": self._random, "gates": self.gates}
        yield ControllerManager(self.client, **chosen).run()
        yield Scheduler(self.client, **chosen).run()
        yield self.agent.run()

    async def carry_out(self, folder: Path, command: str) -> None:
        """One command of the page."""
        words = shlex.split(command)
        if words[:3] == ["kubectl", "apply", "-f"]:
            await create_all(self.client, read_manifests(folder / Path(words[3]).name, self.gates))
        elif words[:3] == ["kubectl", "delete", "pod"]:
            await self.client.resource(PODS, "default").delete(words[3])
        elif words[:2] == ["cathedra", "driver-control"]:
            self.driver.controls.carry_out(words[2:])
        else:
            assert words[0] == "sleep", f"no demo knows the command {command}"
            await self.clock.sleep(float(words[1]))
        await self.clock.sleep(SETTLING)

    async def seen(self) -> AsyncIterator[str]:
        """Pods with their containers, and claims with a status of their devices."""
        pods = (await self.client.resource(PODS).list()).items
        for pod in sorted(pods, key=lambda one: one.metadata.name):
            yield _pod_line(pod)
            for line in self.told(pod, _of_interest):
                yield f"  {line}"
            for taken in pod.status.node_allocatable_resource_claim_statuses:
                yield f"  of the node: {json.dumps(to_dict(taken)['mapping'], sort_keys=True)}"
        claims = (await self.client.resource(RESOURCECLAIMS).list()).items
        for claim in sorted(claims, key=lambda one: one.metadata.name):
            for entry in claim.status.devices:
                facts = [f"{one.type}={one.status}" for one in entry.conditions or ()]
                facts += [] if entry.data is None else [json.dumps(entry.data.load(), sort_keys=True)]
                data = entry.network_data
                facts += [] if data is None else [f"{data.interface_name} with {len(data.ips)} addresses and a MAC"]
                yield f"{claim.metadata.generate_name or claim.metadata.name}: {entry.device}: {', '.join(facts)}"

    def told(self, pod: Pod, wanted: Callable[[str], bool]) -> list[str]:
        """``CONTAINER: NAME=VALUE`` of those variables that the pod's devices set; ``wanted`` chooses by NAME=VALUE."""
        edits = {
            f"{document['kind']}={device['name']}": device["containerEdits"].get("env", ())
            for path, content in self.files.contents.items()
            if path.parent == Path("/cdi")
            for document in (json.loads(content),)
            for device in document["devices"]
        }
        told = {
            f"{spec.name}: {variable}"
            for spec in self.runtime.specs.values()
            if spec.pod.uid == pod.metadata.uid
            for device in spec.cdi_devices
            for variable in edits[device]
            if wanted(variable)
        }
        return sorted(told)


def _of_interest(variable: str) -> bool:
    """Return True if the page of a demo shows the line: not the UID of the claim, which differs at every start."""
    name = variable.partition("=")[0]
    return ("_DEVICE_" in name and not name.endswith("_RESOURCE_CLAIM")) or variable == "DRA_ADMIN_ACCESS=true"


def _acts(spec: ContainerSpec) -> Act:
    """Init containers end, the others stay."""
    return Act(1.0 if spec.name.startswith("init") else None)


def _pod_line(pod: Pod) -> str:
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    disrupted = find_condition(pod.status.conditions, "DisruptionTarget")
    because = f" ({scheduled.message})" if scheduled is not None and scheduled.status == "False" else ""
    because += f" ({disrupted.message})" if disrupted is not None else ""
    return f"{pod.metadata.name}: {pod.status.phase}{because}"


async def play(folder: Path) -> str:
    """Return the expected state after each command of the folder's page."""
    first, *rest = commands(folder / "README.md")
    words = shlex.split(first)
    assert words[:3] == ["cathedra", "up", "--detach"]
    lines: list[str] = []
    async with staged(*words[3:]) as stage:
        for command in rest:
            await stage.carry_out(folder, command)
            lines += [f"$ {command}", *[line async for line in stage.seen()], ""]
    return "\n".join(lines)


@asynccontextmanager
async def staged(
    *options: str,
    drivers: Sequence[ExampleDriver] = (),
    plugins: Sequence[str] | None = None,
    machine: Machine | None = None,
    cgroups: Path | None = None,
    device_plugins: Mapping[str, DevicePluginClient] | None = None,
) -> AsyncIterator[Stage]:
    """A cluster that ``cathedra up`` would start with these options.

    ``drivers`` run instead of the one of the options; ``plugins`` are those that the node agent knows. ``cgroups``
    stands for the kernel's hierarchy. On a ``machine`` that is kept, the cluster goes on where the last one there
    ended.
    """
    parser = argparse.ArgumentParser()
    for option in CLUSTER:
        option.add_to(parser)
    config = cluster_config(parser.parse_args(options))
    gates = FeatureGates.for_release(config.release, config.gates)
    machine = machine or Machine(LoopClock(asyncio.get_running_loop()), cgroups)
    setup = ServerConfig(release=config.release, gates=gates, runtime_config=config.runtime_config)
    server = await APIServer.open(setup, clock=machine.clock, random=machine.server_random, store=machine.storage)
    stage = Stage(gates, server, drivers or (driver_for(config.driver, gates),), machine, plugins, device_plugins)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in stage.parts()]
            await stage.agent.wait_ready()
            tasks += [group.create_task(runner.run()) for runner in stage.runners]
            for runner in stage.runners:
                await runner.wait_ready()
            try:
                yield stage
            finally:
                for task in tasks:
                    task.cancel()
    finally:
        await server.close()
