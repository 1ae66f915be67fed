"""Nodes in the cluster's own process: their container runtimes, their start, and their restart after failures.

A kubelet that fails is restarted by its machine, and nothing else of the cluster notices. In `cathedra up` all nodes
share a process with the API server, so the failure of one node, as a damaged state file, must end no more than that
node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from cathedra.client.backoff import DoublingPauses
from cathedra.clock import Clock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.identity.permissions import driver_user, node_user
from cathedra.cluster.parts.controlplane import Foundation, node_root
from cathedra.cluster.parts.generations import how_to_enable_devices
from cathedra.cluster.parts.nodes import (
    BareNode,
    Choosing,
    ClusterNode,
    NodeEnvironment,
    RunningNode,
    driver_for,
    fails,
    profiled_drivers,
)
from cathedra.driver.driver import Driver
from cathedra.node.claims.checkpoint import CorruptCheckpoint
from cathedra.node.config import NodeConfig
from cathedra.node.runtime.runtime import UnusableRuntime
from cathedra.node.server.tls import UnprotectedServer
from cathedra.printable import counted
from cathedra.profiles import HardwareProfile, node_capacity, node_labels
from cathedra.releases import git_version

NODE_ADDRESS: Final = "127.0.0.1"


class InProcessNodes:
    """The nodes of one process, whose tasks are those of ``group``."""

    def __init__(
        self, base: Foundation, group: asyncio.TaskGroup, choosing: Mapping[str, Choosing] = MappingProxyType({})
    ) -> None:
        """``choosing``: what answers the container runtimes of nodes for which they are being chosen already."""
        self._base = base
        self._choosing = dict(choosing)
        self._group = group
        self._nodes: dict[str, SupervisedNode] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, profile: HardwareProfile | None) -> SupervisedNode:
        """Start a node, of a profile or with the example driver."""
        node = SupervisedNode(name, lambda: self._make(name, profile), self._base.clock)
        self._nodes[name] = node
        self._tasks[name] = self._group.create_task(node.run(), name=f"node {name}")
        return node

    async def wait_ready(self) -> None:
        """Wait until every node is Ready and its driver's slices are published. A node that has failed is not waited
        for: `summary` names it, and it is started again."""
        async with asyncio.TaskGroup() as group:
            for node in self._nodes.values():
                group.create_task(node.wait_settled())

    async def summary(self) -> Sequence[str]:
        """Return a line for each group of ready nodes."""
        base = self._base
        lines: list[str] = []
        failed = [f"node {node.name} does not run: {node.failure}" for node in self._nodes.values() if node.failure]
        if len(self._nodes) > len(failed):
            nodes = counted(len(self._nodes) - len(failed), "node")
            if base.has_drivers:
                lines += self._published()
            elif not base.served.has_devices:
                lines.append(f"{nodes} Ready; {how_to_enable_devices(base.gates)}")
            else:
                lines.append(f"{nodes} Ready; drivers register in {base.node_root('NODE') / 'plugins_registry'}")
        return (*lines, *failed, *({node.node.agent.missing for node in self._nodes.values()} - {""}))

    async def silence(self, name: str) -> None:
        """Stop a node's agent and drivers as a loss of power does: its Node object stays, and nothing answers for it.

        Raises:
            KeyError: no node of that name runs.
        """
        # Taken off the table first, so that nothing waits for a node that is being stopped.
        task = self._tasks.pop(name)
        self._nodes.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def usage(self, name: str) -> Any:
        """Return the resource usage of a node's pods; None if the node is not here or has none."""
        node = self._nodes.get(name)
        return None if node is None else await node.node.agent.usage()

    def has(self, name: str) -> bool:
        """Return True if a node of that name runs here."""
        return name in self._nodes

    def stop(self) -> None:
        """Cancel every node; its group waits for the end."""
        for task in self._tasks.values():
            task.cancel()

    def _published(self) -> Iterator[str]:
        """Yield a line for the ready nodes of each group, with the largest number of devices of each driver on one."""
        config = self._base.config
        dumped = [
            node for group in config.groups for name in group.names if (node := self._nodes.get(name)) is not None
        ]
        if dumped:
            count = sum(sum(node.node.devices.values()) for node in dumped)
            yield f"{counted(len(dumped), 'node')} of the dump Ready, {counted(count, 'device')}"
        for group in (None, *(group for group in config.groups if not group.names)):
            nodes = [node for node in self._nodes.values() if not node.failure and config.group_of(node.name) is group]
            if not nodes:
                continue
            most: dict[str, int] = dict.fromkeys(config.drivers, 0) if group is None else {}
            for node in nodes:
                for driver, count in node.node.devices.items():
                    most[driver] = max(most.get(driver, 0), count)
            devices = " and ".join(f"{counted(count, 'device')} of {driver}" for driver, count in most.items())
            where = f" in group {group.name}" if group is not None else ""
            each = f"{devices} on each" if devices else "without devices"
            yield f"{counted(len(nodes), 'node')} Ready{where}, {each}"

    def reconfigure(self, config: ClusterConfig) -> None:
        """Take the nodes that are started from now on, and the groups, from ``config``."""
        self._base = replace(self._base, config=config)

    def _make(self, name: str, profile: HardwareProfile | None) -> ClusterNode:
        base = self._base
        node = self._config(name, profile)
        client = base.client_of(node_user(name))
        environment = NodeEnvironment(client, base.clock, base.random, base.gates, self._choosing.pop(name, None))
        if not base.has_drivers:
            simulated = node.root is None
            return BareNode(
                node,
                environment,
                make_dial=None if simulated else base.generation.make_dial(client, base.gates, name),
                plugins=base.generation.simulated_plugins(client, name) if simulated else None,
            )
        return RunningNode(
            node,
            self._drivers(name, profile),
            environment,
            driver_client=lambda driver: base.client_of(driver_user(driver, name)),
            faults=fails(base.config.faults, _number(name)),
        )

    def _config(self, name: str, profile: HardwareProfile | None) -> NodeConfig:
        base, config = self._base, self._base.config
        simulated = config.runtime == "simulated"
        group = config.group_of(name)
        capacity = node_capacity(profile) if profile is not None else {}
        files = None if simulated else base.pki.node(name, (NODE_ADDRESS,))
        return NodeConfig(
            name=name,
            root=None if simulated else base.node_root(name),
            address=NODE_ADDRESS,
            certificate=files.certificate if files else None,
            key=files.key if files else None,
            client_authority=files.client_authority if files else None,
            runtime=config.runtime,
            cri_socket=config.cri_socket,
            pod_network=config.pod_network,
            kubelet_version=git_version(config.release),
            api_server=(base.served.host, base.served.port),
            api_server_ca=base.pki.authority_certificate.decode(),
            labels={
                **({} if profile is None else node_labels(profile, name)),
                **({} if group is None else group.labels),
            },
            taints=() if group is None else group.taints,
            capacity={**capacity, **({} if group is None else group.capacity)} if simulated else {},
        )

    def _drivers(self, name: str, profile: HardwareProfile | None) -> Sequence[Driver]:
        """Return the drivers of one node."""
        if profile is None and self._base.config.group_of(name) is not None:
            return ()
        if profile is None:
            return (driver_for(self._base.config.driver, self._base.gates),)
        return profiled_drivers(profile, self._base.gates)


def _number(name: str) -> int:
    """Return the number of a node in its group; 0 for a node with a name of its own."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


@asynccontextmanager
async def early_runtimes(config: ClusterConfig, clock: Clock) -> AsyncIterator[Mapping[str, Choosing]]:
    """Select the container runtime of each node in the background. Yield the functions that return them, by node name;
    runtimes that no node takes are closed.

    Raises:
        NotPrivate: a node's directory for Secrets belongs to another user.
    """
    if config.runtime == "simulated":
        yield {}
        return
    # start-up time: a simulated node runs no containers
    from cathedra.node.runtime.choose import EarlyRuntime

    async with AsyncExitStack() as stack:
        choosing = {}
        for name in (*config.node_names, *config.leaving):
            node = NodeConfig(
                name=name,
                root=node_root(config, name),
                runtime=config.runtime,
                cri_socket=config.cri_socket,
                pod_network=config.pod_network,
            )
            early = EarlyRuntime(node, clock)
            # Registered before the next selection begins: if that fails, the shims of the earlier ones are ended.
            stack.push_async_callback(early.close)
            choosing[name] = early.take
        yield choosing


_RETRY: Final = (1.0, 30.0)
"""First and longest pause, in seconds, before a node is started again."""
_STABLE: Final = 60.0
"""Seconds after which a node counts as running, so that the next failure begins with the first pause."""
_OPTIONS: Final = (UnusableRuntime, UnprotectedServer)
"""Errors in the user's options: no retry can succeed, and the cluster ends with them."""
_EXPECTED: Final = (OSError, CorruptCheckpoint)
"""Errors of a node's environment, whose text is sufficient. All others are logged with their traceback."""

_LOG = logging.getLogger(__name__)


class SupervisedNode:
    """Runs one node until cancelled. ``make`` makes it, again for each attempt."""

    def __init__(self, name: str, make: Callable[[], ClusterNode], clock: Clock) -> None:
        self.name = name
        self.node = make()
        """The node of the present attempt."""
        self.failure = ""
        """Error of the last attempt; empty while the node runs."""
        self._make = make
        self._clock = clock
        self._failed = asyncio.Event()

    async def run(self) -> None:
        """Run the node until cancelled.

        Raises:
            UnusableRuntime: the configured container runtime cannot be used here.
            UnprotectedServer: the node's server cannot authenticate callers.
        """
        pauses = DoublingPauses(*_RETRY)
        while True:
            begun = self._clock.monotonic()
            try:
                return await self.node.run()
            except Exception as error:
                cause = _cause(error)
                # Started again it would fail in the same way, and the user would not learn of the wrong option.
                if isinstance(cause, _OPTIONS):
                    raise cause from error
                if self._clock.monotonic() - begun > _STABLE:
                    pauses.reset()
                pause = pauses.take()
                self._note(cause, pause)
            await self._clock.sleep(pause)
            self.failure = ""
            # A new object: the failed one may hold half-open files, tasks and connections.
            self.node = self._make()

    async def wait_settled(self) -> None:
        """Wait until the node is ready for the first time, or has failed."""
        ready = asyncio.ensure_future(self.node.wait_ready())
        failed = asyncio.ensure_future(self._failed.wait())
        try:
            await asyncio.wait((ready, failed), return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                ready.result()
        finally:
            ready.cancel()
            failed.cancel()
            # Awaited, so that neither task outlives this call and is reported as never retrieved.
            await asyncio.gather(ready, failed, return_exceptions=True)

    def _note(self, cause: BaseException, pause: float) -> None:
        self.failure = str(cause) or type(cause).__name__
        self._failed.set()
        shown = None if isinstance(cause, _EXPECTED) else cause
        _LOG.error("node %s failed and starts again in %g s: %s", self.name, pause, self.failure, exc_info=shown)


def _cause(error: BaseException) -> BaseException:
    """Return the first error within ``error`` that is no group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
