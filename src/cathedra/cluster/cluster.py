"""A whole cluster in one process: API server, controllers, scheduler, and nodes with their drivers.

Every part is the one that also runs alone; here they share a process, an event loop and the in-process transport. Only
the node agent and the drivers talk as they always do, over unix sockets.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from cathedra.api.gates import FeatureGates
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.leaderelection import LeaderElector, make_elector
from cathedra.client.resources import DEVICECLASSES
from cathedra.client.transport import ResourceRef
from cathedra.clock import Clock, SystemClock, process_age
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.sockets import forget_short_root, short_root
from cathedra.cluster.draining import drain, remove_node
from cathedra.cluster.identity.driverpermissions import install_driver_permissions
from cathedra.cluster.identity.permissions import (
    CONTROLLER_MANAGER,
    SCHEDULER,
    controller_user,
    driver_user,
    node_user,
)
from cathedra.cluster.parts.failures import fails
from cathedra.cluster.parts.gctuning import tune_collection
from cathedra.cluster.parts.generations import generation_of, how_to_enable_devices
from cathedra.cluster.parts.nodes import BareNode, ClusterNode, RunningNode, driver_for, profiled_drivers
from cathedra.cluster.process.signals import stop_event
from cathedra.cluster.serving import open_server, write_kubeconfig
from cathedra.cluster.views.wording import counted
from cathedra.controllers.controller_manager import ControllerManager, served_resources
from cathedra.driver.driver import Driver
from cathedra.node.config import NodeConfig
from cathedra.profiles import HardwareProfile, node_capacity, node_labels
from cathedra.scheduler.scheduler import Scheduler

__all__ = ["RunningCluster", "run_cluster"]

NODE_ADDRESS: Final = "127.0.0.1"

Say = Callable[[str], None]
"""Where a line of progress goes."""


async def run_cluster(config: ClusterConfig, *, say: Say, ready: Callable[[], None], merge_context: bool) -> int:
    """Run a cluster until SIGINT or SIGTERM; the exit code.

    Raises:
        InvalidOption: the data directory cannot be used.
        OSError: the port is taken.
    """
    data = DataDir(config.data_dir)
    with data.held():
        stopped = stop_event()
        async with RunningCluster(
            config, clock=SystemClock(), random=Random(secrets.randbits(64)), say=say
        ).running() as cluster:
            tune_collection()
            cluster.write_kubeconfig(data.kubeconfig, merge=merge_context)
            waiting = asyncio.create_task(cluster.wait_ready())
            stopping = asyncio.create_task(stopped.wait())
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                await waiting
                say(f"ready in {process_age():.2f} s")
                say(f"export KUBECONFIG={data.kubeconfig}")
                ready()
            else:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            await stopping
        say("stopped")
    return 0


class RunningCluster:
    """The parts of one cluster, composed."""

    def __init__(self, config: ClusterConfig, *, clock: Clock, random: Random, say: Say) -> None:
        self.config = config
        self.gates = FeatureGates.for_release(config.release, config.gates)
        self._generation = generation_of(self.gates)
        self._clock = clock
        self._random = random
        self._say = say
        self._began = clock.monotonic()
        self._server: APIServer | None = None
        self._nodes: dict[str, ClusterNode] = {}
        self._node_tasks: dict[str, asyncio.Task[None]] = {}
        self._parts: asyncio.TaskGroup | None = None

    @property
    def server(self) -> APIServer:
        """The API server, once the cluster is running."""
        assert self._server is not None, "the cluster is not running"
        return self._server

    @property
    def clock(self) -> Clock:
        """The time of all parts."""
        return self._clock

    def age(self) -> float:
        """Seconds since the cluster was made."""
        return self._clock.monotonic() - self._began

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RunningCluster]:
        """Start every part; on the way out stop them in the opposite order."""
        self._server = await self._open_server()
        try:
            if self._has_drivers:
                await self._install_drivers(self.config.profile)
            async with asyncio.TaskGroup() as parts:
                self._parts = parts
                tasks = [parts.create_task(job) for job in self._control_plane()]
                for name in (*self.config.node_names, *self.config.leaving):
                    self._start_node(name, self.config.profile)
                self._server.take_figures_from(self._figures)
                try:
                    yield self
                finally:
                    for task in (*tasks, *self._node_tasks.values()):
                        task.cancel()
        finally:
            await self._server.close()
            forget_short_root(self.config.data_dir)

    async def wait_ready(self) -> None:
        """Wait until every node is Ready and its driver's slices are published, and those that leave have left."""
        async with asyncio.TaskGroup() as group:
            for node in self._nodes.values():
                group.create_task(node.wait_ready())
        for name in self.config.leaving:
            await self._remove(name)
        if self._nodes:
            nodes = counted(len(self._nodes), "node")
            if self._has_drivers:
                self._say(f"{nodes} Ready, {' and '.join(self._published())} on each")
            elif not self._serves_devices:
                self._say(f"{nodes} Ready; {how_to_enable_devices(self.gates)}")
            else:
                self._say(f"{nodes} Ready; drivers register in {self._node_root('NODE') / 'plugins_registry'}")
        for missing in {node.agent.missing for node in self._nodes.values()} - {""}:
            self._say(missing)

    async def add_node(self, name: str, profile: HardwareProfile | None = None) -> None:
        """Start one more node, of a profile or like the others, and wait until it is Ready and its slices published."""
        profile = profile or self.config.profile
        if self._has_drivers:
            await self._install_drivers(profile)
        await self._start_node(name, profile).wait_ready()

    async def silence_node(self, name: str) -> None:
        """Stop a node's agent and drivers as a loss of power does: its Node object stays, and nothing answers for it.

        Raises:
            KeyError: no node of that name runs.
        """
        task = self._node_tasks.pop(name)
        self._nodes.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _start_node(self, name: str, profile: HardwareProfile | None) -> ClusterNode:
        assert self._parts is not None, "the cluster is not running"
        node = self._nodes[name] = self._make_node(name, profile)
        self._node_tasks[name] = self._parts.create_task(node.run(), name=f"node {name}")
        return node

    async def _install_drivers(self, profile: HardwareProfile | None) -> None:
        """What comes with drivers: their permissions, and the classes of a profile; what is there stays as it is."""
        client = self.client()
        binds = profile is None and self.config.driver.binding_conditions
        for name in (self.config.driver.name,) if profile is None else profile.drivers:
            await install_driver_permissions(client, name, binds=binds)
        for device_class in profile.device_classes if profile is not None else ():
            try:
                await client.resource(DEVICECLASSES).create(device_class)
            except StatusError as error:
                if not error.is_already_exists:
                    raise

    def _published(self) -> Iterator[str]:
        """How many devices of each driver a node has at most."""
        for driver in self.config.drivers:
            most = max(node.devices.get(driver, 0) for node in self._nodes.values())
            yield f"{counted(most, 'device')} of {driver}"

    async def _remove(self, name: str) -> None:
        """Let a node leave: it ends its pods while it still runs, as a node that is drained does."""
        client = self.client()
        count = await drain(client, name, clock=self._clock)
        self._nodes.pop(name)
        task = self._node_tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await remove_node(client, name)
        self._say(f"node {name} is drained ({counted(count, 'pod')} deleted) and removed")

    def _figures(self, name: str) -> Awaitable[Any] | None:
        """What the pods of a node of this cluster use: simulated nodes have no server that could be asked."""
        node = self._nodes.get(name)
        return node.agent.usage() if node is not None else None

    def client(self, user: str = "system:admin", groups: tuple[str, ...] = (MASTERS_GROUP,)) -> Client:
        """The cluster's API in process, as ``user``."""
        return Client(self.server.transport(user, groups), clock=self._clock)

    def write_kubeconfig(self, path: Path, *, merge: bool) -> None:
        """Write the administrator's stand-alone kubeconfig; with ``merge`` also enter a context into the user's own.

        Raises:
            KubeconfigError: the user's own cannot be changed.
        """
        write_kubeconfig(self.server, self.config, path, merge=merge, say=self._say)

    async def _open_server(self) -> APIServer:
        server = await open_server(self.config, gates=self.gates, clock=self._clock, random=self._random)
        self._say(f"API server {server.url} after {self.age():.2f} s")
        return server

    def _control_plane(self) -> list[Coroutine[Any, Any, None]]:
        informers = SharedInformers(self._client_of(CONTROLLER_MANAGER), self._clock)
        pki = self.server.pki
        assert pki is not None, "the server serves TLS"
        controllers = ControllerManager(
            self._client_of(CONTROLLER_MANAGER),
            clock=self._clock,
            random=self._random,
            gates=self.gates,
            informers=informers,
            client_of=self._controller_client,
            root_ca=pki.authority_certificate.decode(),
            served=self._collected(),
            replaced=self._generation.controllers,
            signer=lambda request, usages, seconds: pki.sign(request, usages, seconds, self._clock.now()),
            elector=self._elector(CONTROLLER_MANAGER, "kube-controller-manager"),
        )
        scheduler = Scheduler(
            self._client_of(SCHEDULER),
            clock=self._clock,
            random=self._random,
            gates=self.gates,
            informers=informers,
            make_claim_plugin=self._generation.make_claim_plugin,
        )
        elector = self._elector(SCHEDULER, "kube-scheduler")
        scheduling = scheduler.run() if elector is None else elector.run(scheduler.run)
        return [informers.run(), controllers.run(), scheduling]

    def _elector(self, user: UserInfo, lease: str) -> LeaderElector | None:
        """On a store of its own a cluster need not ask who leads; on a shared one there may be others."""
        if not self.config.shares_store:
            return None
        return make_elector(self._client_of(user), lease, clock=self._clock, random=self._random)

    def _client_of(self, user: UserInfo) -> Client:
        return self._generation.client(Client(self.server.transport_of(user), clock=self._clock))

    @property
    def _serves_devices(self) -> bool:
        return self.server.catalog.has_group("resource.k8s.io")

    @property
    def _has_drivers(self) -> bool:
        return self._generation.has_example_driver and self._serves_devices

    def _collected(self) -> tuple[ResourceRef[Any], ...] | None:
        """What the garbage collector looks after; None: what is served by default."""
        if self._generation.definitions is None:
            return None
        known = {definition.group_resource for definition in self._generation.definitions}
        return served_resources(self.gates, [one for one in self.server.catalog if one.group_resource in known])

    def _node_root(self, name: str) -> Path:
        return short_root(self.config.data_dir) / "nodes" / name

    def _controller_client(self, account: str) -> Client:
        return self._client_of(controller_user(account))

    def _make_node(self, name: str, profile: HardwareProfile | None) -> ClusterNode:
        config = self.config
        assert self.server.pki is not None, "the server serves TLS"
        simulated = config.runtime == "simulated"
        files = None if simulated else self.server.pki.node(name, (NODE_ADDRESS,))
        node = NodeConfig(
            name=name,
            root=None if simulated else self._node_root(name),
            address=NODE_ADDRESS,
            certificate=files.certificate if files else None,
            key=files.key if files else None,
            client_authority=files.client_authority if files else None,
            runtime=config.runtime,
            cri_socket=config.cri_socket,
            kubelet_version=f"v{config.release}.0",
            api_server=(self.server.host, self.server.port),
            api_server_ca=self.server.pki.authority_certificate.decode(),
            labels={} if profile is None else node_labels(profile, name),
            capacity=node_capacity(profile) if simulated and profile is not None else {},
        )
        if not self._has_drivers:
            client = self._client_of(node_user(name))
            dial = None if simulated else self._generation.make_dial(client, self.gates, name)
            return BareNode(
                node,
                node_client=client,
                clock=self._clock,
                random=self._random,
                gates=self.gates,
                make_dial=dial,
                plugins=self._generation.simulated_plugins(client, name) if simulated else None,
            )
        return RunningNode(
            node,
            self._drivers(profile),
            node_client=self._client_of(node_user(name)),
            driver_client=lambda driver: self._client_of(driver_user(driver, name)),
            clock=self._clock,
            random=self._random,
            gates=self.gates,
            faults=fails(config.faults, int(name.rpartition("-")[2])),
        )

    def _drivers(self, profile: HardwareProfile | None) -> Sequence[Driver]:
        """Those of one node."""
        if profile is None:
            return (driver_for(self.config.driver, self.gates),)
        return profiled_drivers(profile, self.gates)
