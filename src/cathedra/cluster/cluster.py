"""A whole cluster: API server, controllers, scheduler, and nodes with their drivers.

Every part is the one that also runs alone (`cathedra.cluster.standalone`). Here they share an event loop and the
in-process transport. With ``--apiserver-count`` further API servers run in child processes
(`cathedra.cluster.apiservers`). Node agents and drivers use sockets of their own, as everywhere.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.api.undecodable import UndecodableObject, rest_of
from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.informer import Informer
from cathedra.client.resources import DEVICECLASSES, LEASES, NODES, PODS, RESOURCESLICES
from cathedra.client.store import Store
from cathedra.client.transport import PatchType, ResourceRef
from cathedra.clock import Clock, SystemClock, process_age
from cathedra.cluster.config import ClusterConfig, InvalidOption, parse_nodes
from cathedra.cluster.data.datadir import DataDir, changes_of, forget_short_root
from cathedra.cluster.data.directories import Description, note_elsewhere, write_description
from cathedra.cluster.identity.permissions import install, install_driver_permissions
from cathedra.cluster.parts.controlplane import Foundation, Served, run_control_plane
from cathedra.cluster.parts.gctuning import collected_by_memory
from cathedra.cluster.parts.generations import generation_of
from cathedra.cluster.parts.inprocessnodes import InProcessNodes, early_runtimes
from cathedra.cluster.process.background import ClusterChange, changes_served
from cathedra.cluster.process.signals import stop_event, switch_soon
from cathedra.cluster.serving import open_server, write_kubeconfig
from cathedra.controllers.controller_manager import served_resources
from cathedra.printable import counted
from cathedra.profiles import HardwareProfile
from cathedra.releases import FeatureGates
from cathedra.scheduler.configuration.reading import (
    DEFAULT_CONFIGURATION,
    ConfigurationError,
    SchedulerConfiguration,
    read_configuration,
)
from cathedra.semantics.owners import controller_of

Say = Callable[[str], None]
"""Receives lines of progress."""


async def run_cluster(config: ClusterConfig, *, say: Say, ready: Callable[[], None], merge_context: bool) -> int:
    """Run a cluster until SIGINT or SIGTERM. Return the exit code.

    Raises:
        InvalidOption: the data directory cannot be used.
        OSError: the port is taken.
    """
    data = DataDir(config.data_dir)
    switch_soon()
    with data.held():
        note_elsewhere(config.data_dir)
        stopped = stop_event()
        clock = SystemClock()
        running = RunningCluster(config, clock=clock, random=Random(secrets.randbits(64)), say=say).running()
        async with running as cluster, collected_by_memory(clock):
            cluster.write_kubeconfig(data.kubeconfig, merge=merge_context)
            waiting = asyncio.create_task(cluster.wait_ready())
            stopping = asyncio.create_task(stopped.wait())
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                await waiting
                say(f"ready in {process_age():.2f} s")
                say(f"export KUBECONFIG={data.kubeconfig}")
                say("device map: kubectl dra map" + ("" if merge_context else f" --kubeconfig {data.kubeconfig}"))
                ready()
                async with changes_served(changes_of(config.data_dir), cluster.carry_out):
                    await stopping
            else:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            await stopping
        say("stopped")
    return 0


class RunningCluster:
    """The parts of one cluster, composed."""

    def __init__(self, config: ClusterConfig, *, clock: Clock, random: Random, say: Say) -> None:
        """Compose a cluster of ``config``.

        Raises:
            ConfigurationError: the scheduler's file cannot be used.
            OSError: it cannot be read.
        """
        self.config = config
        self.gates = FeatureGates.for_release(config.release, config.gates)
        self._generation = generation_of(self.gates)
        self._clock = clock
        self._random = random
        self._say = say
        self._began = clock.monotonic()
        # Before anything is opened: a mistake in the file must not leave a half-started cluster.
        self._scheduling = _scheduling(config.scheduler_file, say)
        self.denials = Denials(clock)
        """Requests of the parts that were refused because a permission is missing."""
        self._server: APIServer | None = None
        self._nodes: InProcessNodes | None = None

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
        """Return the seconds since the cluster was made."""
        return self._clock.monotonic() - self._began

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RunningCluster]:
        """Start every part; on the way out stop them in the opposite order."""
        try:
            async with self._parts():
                self.server.take_figures_from(self._figures)
                yield self
        finally:
            forget_short_root(self.config.data_dir)

    async def wait_ready(self) -> None:
        """Wait until every node is Ready with published slices, and the nodes that leave are drained and removed."""
        nodes = self._running_nodes
        await nodes.wait_ready()
        for name in self.config.leaving:
            await self._remove(nodes, name, self._say)
        for line in await nodes.summary():
            self._say(line)
        await self._create_objects()

    async def _create_objects(self) -> None:
        """Create the configured objects. One that the server refuses is reported, and the others are created."""
        client, created = self.client(), 0
        for ref, obj in self.config.objects:
            try:
                await client.resource(ref, obj.metadata.namespace if ref.namespaced else "").create(obj)
                created += 1
            except StatusError as error:
                if not error.is_already_exists:
                    self._say(f"left out: {ref.kind.lower()} {obj.metadata.name}: {error}")
        if self.config.objects:
            self._say(f"{counted(created, 'object')} of the dump created")

    async def carry_out(self, change: ClusterChange, say: Say) -> None:
        """Change the nodes of the running cluster: start new ones, drain and remove surplus ones. Keep the description.

        Raises:
            InvalidOption: the nodes are named in a wrong form, or a group has nodes of another profile.
            ProfileError: there is no such profile.
        """
        count, groups = parse_nodes(change.nodes)
        # Nodes of a dump are no part of --nodes, so they stay.
        groups += tuple(group for group in self.config.groups if group.names)
        for group in groups:
            known = next((one for one in self.config.groups if one.name == group.name), group)
            if known.profile != group.profile:
                raise InvalidOption(
                    f"the nodes of group {group.name!r} have another profile; give the group a new name"
                )
        before = self.config
        wanted = replace(before, nodes=count, groups=groups, leaving=())
        nodes = self._running_nodes
        for group in groups:
            if group.profile is not None:
                await self._install_drivers(group.profile)
        leaving = [name for name in before.node_names if name not in wanted.node_names and nodes.has(name)]
        self.config = wanted
        nodes.reconfigure(wanted)
        started = [nodes.start(name, self._profile_of(name)) for name in wanted.node_names if not nodes.has(name)]
        await asyncio.gather(*(node.wait_settled() for node in started))
        for name in leaving:
            await self._remove(nodes, name, say)
        for line in await nodes.summary():
            say(line)
        write_description(DataDir(wanted.data_dir).description, Description(change.name, change.spec))

    async def add_node(self, name: str, profile: HardwareProfile | None = None) -> None:
        """Start one more node, of a profile or like the others, and wait until it is Ready and its slices published."""
        profile = profile or self.config.profile
        await self._install_drivers(profile)
        await self._running_nodes.start(name, profile).wait_settled()

    async def silence_node(self, name: str) -> None:
        """Stop a node's agent and drivers as a loss of power does: its Node object stays.

        Raises:
            KeyError: no node of that name runs.
        """
        await self._running_nodes.silence(name)

    def client(self, user: str = "system:admin", groups: tuple[str, ...] = (MASTERS_GROUP,)) -> Client:
        """Return the cluster's API in process, as ``user``."""
        return Client(self.server.transport(user, groups), clock=self._clock)

    def write_kubeconfig(self, path: Path, *, merge: bool) -> None:
        """Write the administrator's stand-alone kubeconfig; with ``merge`` also enter a context into the user's own.

        Raises:
            KubeconfigError: the user's own cannot be changed.
        """
        write_kubeconfig(self.server, self.config, path, merge=merge, say=self._say)

    @property
    def _running_nodes(self) -> InProcessNodes:
        assert self._nodes is not None, "the cluster is not running"
        return self._nodes

    @asynccontextmanager
    async def _parts(self) -> AsyncIterator[None]:
        """Run all parts on this loop, with frozen objects passed by reference."""
        async with early_runtimes(self.config, self._clock) as choosing, self._serving():
            base = self._foundation()
            async with asyncio.TaskGroup() as parts:
                control_plane = parts.create_task(run_control_plane(base), name="control plane")
                nodes = self._nodes = InProcessNodes(base, parts, choosing)
                for name in (*self.config.node_names, *self.config.leaving):
                    nodes.start(name, self._profile_of(name))
                try:
                    yield
                finally:
                    control_plane.cancel()
                    nodes.stop()

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        async with self._opened() as self._server:
            await self._install_drivers(self.config.profile)
            # Most nodes of a dump are alike; permissions and classes are needed once.
            profiles = {_needs(group.profile): group.profile for group in self.config.groups if group.profile}
            for profile in profiles.values():
                await self._install_drivers(profile)
            yield

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[APIServer]:
        """Open the API server, and those beside it with ``--apiserver-count``."""
        if self.config.apiserver_count > 1:
            from cathedra.cluster.apiservers.supervisor import several_servers  # start-up time: with several alone

            async with several_servers(
                self.config, self._open_server, clock=self._clock, say=self._say, usage=self._usage
            ) as server:
                yield server
            return
        server = await self._open_server()
        try:
            yield server
        finally:
            await server.close()

    async def _open_server(self) -> APIServer:
        server = await open_server(self.config, gates=self.gates, clock=self._clock, random=self._random)
        server.health_notes = self._missing_rights
        self._say(f"API server {server.url} after {self.age():.2f} s")
        return server

    def _part_client(self, user: UserInfo) -> Client:
        agent = user.name.rpartition(":")[2]
        return Client(self.server.transport_of_part(user, agent, self.denials), clock=self._clock)

    def _missing_rights(self) -> list[str]:
        """Return a line without details: everyone may read the API server's health."""
        missing = len(self.denials.lines())
        return (
            [f"warning: parts of the cluster lack {counted(missing, 'right')}; the log names them"] if missing else []
        )

    def _foundation(self) -> Foundation:
        assert self.server.pki is not None, "the server serves TLS"
        return Foundation(
            config=self.config,
            gates=self.gates,
            generation=self._generation,
            served=self._served(),
            pki=self.server.pki,
            plain_client=self._part_client,
            clock=self._clock,
            random=self._random,
            scheduling=self._scheduling,
        )

    def _served(self) -> Served:
        server = self.server
        return Served(server.host, server.port, self._serves_devices, self._collected())

    @property
    def _serves_devices(self) -> bool:
        return self.server.catalog.has_group("resource.k8s.io")

    def _collected(self) -> tuple[ResourceRef[Any], ...] | None:
        """Return the resources that the garbage collector watches; None: those that are served by default."""
        if self._generation.definitions is None:
            return None
        known = {definition.group_resource for definition in self._generation.definitions}
        return served_resources(self.gates, [one for one in self.server.catalog if one.group_resource in known])

    async def _install_drivers(self, profile: HardwareProfile | None) -> None:
        """Create permissions of the drivers and classes of a profile; existing objects stay as they are."""
        if not (self._generation.has_example_driver and self._serves_devices):
            return
        client = self.client()
        binds = profile is None and self.config.driver.binding_conditions
        for name in (self.config.driver.name,) if profile is None else profile.drivers:
            await install_driver_permissions(client, name, binds=binds)
        if profile is not None:
            await install(client, ((DEVICECLASSES, device_class) for device_class in profile.device_classes))

    def _profile_of(self, node: str) -> HardwareProfile | None:
        group = self.config.group_of(node)
        return self.config.profile if group is None else group.profile

    async def _remove(self, nodes: InProcessNodes, name: str, say: Say) -> None:
        """Drain a node and remove it. It ends its pods while it still runs."""
        client = self.client()
        count = await drain(client, name, clock=self._clock)
        await nodes.silence(name)
        await remove_node(client, name)
        say(f"node {name} is drained ({counted(count, 'pod')} deleted) and removed")

    async def _usage(self, name: str) -> Any:
        """Return the figures of a node's pods for an API server in another process. None if they are not known here, or
        if the node serves them itself."""
        figures = self._figures(name) if self._nodes is not None else None
        return None if figures is None else await figures

    def _figures(self, name: str) -> Awaitable[Any] | None:
        """Return the resource usage of a node of this cluster: simulated nodes have no server to request it from."""
        nodes = self._running_nodes
        return nodes.usage(name) if nodes.has(name) else None


def _needs(profile: HardwareProfile) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of drivers and classes that nodes of a profile need."""
    return profile.drivers, tuple(one.metadata.name for one in profile.device_classes)


def _scheduling(file: Path | None, say: Say) -> SchedulerConfiguration:
    if file is None:
        return DEFAULT_CONFIGURATION
    try:
        found = read_configuration(file.read_bytes())
    except ConfigurationError as error:
        raise ConfigurationError(f"--scheduler-config {file}: {error}") from error
    for name in found.without_effect:
        say(f"{name} of {file}: not in this scheduler, without effect")
    return found


PATIENCE: Final = 60.0
"""Seconds for which pods may take to end; those that remain are deleted without grace."""
NODE_LEASES: Final = "kube-node-lease"


async def drain(client: Client, name: str, *, clock: Clock) -> int:
    """Cordon the node, delete its pods, and wait until they are gone. Return their number.

    Pods of daemon sets stay, because their controller would create them again. They are deleted with the node.
    """
    await client.resource(NODES).patch(name, PatchType.MERGE, {"spec": {"unschedulable": True}})
    pods = Informer(client, PODS, clock=clock)
    changed = asyncio.Event()

    def note(*_: object) -> None:
        changed.set()

    pods.add_handler(note, note, note, on_resolved=note)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(pods.run())
        await pods.wait_synced()
        leaving = _leaving(pods.store, name)
        try:
            for pod in leaving:
                await _delete(client, pod, None)
            async with asyncio.timeout(PATIENCE):
                while _leaving(pods.store, name):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            for pod in _leaving(pods.store, name):
                await _delete(client, pod, 0)
        finally:
            following.cancel()
    return len(leaving)


async def remove_node(client: Client, name: str) -> None:
    """Remove the Node object with what belongs to it: its slices and its lease."""
    slices = client.resource(RESOURCESLICES)
    for piece in (await slices.list()).items:
        if piece.spec.node_name == name:
            await _unless_gone(slices.delete(piece.metadata.name))
    await _unless_gone(client.resource(NODES).delete(name))
    await _unless_gone(client.resource(LEASES, NODE_LEASES).delete(name))


def _leaving(pods: Store[Pod], node: str) -> list[Pod]:
    """Return the pods that have to leave the node. Of a pod that cannot be decoded, it is the part that can be read."""
    rest = (rest_of(Pod, what)[0] for what in pods.undecodable.values())
    return [pod for pod in (*pods.list(), *filter(None, rest)) if _must_go(pod, node)]


def _must_go(pod: Pod, node: str) -> bool:
    owner = controller_of(pod)
    return pod.spec.node_name == node and (owner is None or owner.kind != "DaemonSet")


async def _delete(client: Client, pod: Pod, grace: int | None) -> None:
    pods = client.resource(PODS, pod.metadata.namespace)
    await _unless_gone(pods.delete(pod.metadata.name, grace_period_seconds=grace, uid=pod.metadata.uid))


async def _unless_gone(deletion: Awaitable[object]) -> None:
    try:
        await deletion
    except UndecodableObject:
        return  # it was deleted: the answer alone was of no use
    except StatusError as error:
        if not error.is_not_found:
            raise
