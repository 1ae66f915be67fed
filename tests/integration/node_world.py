"""A node agent that can be killed, with its container shim, an API server and a driver around it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from cathedra.api.core.core_v1 import (
    Container,
    ContainerStatus,
    HostPathVolumeSource,
    Node,
    Pod,
    PodResourceClaim,
    PodSpec,
    ResourceRequirements,
    Volume,
    VolumeMount,
)
from cathedra.api.core.core_v1 import (
    ResourceClaim as ContainerClaim,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import NODES, PODS, RESOURCECLAIMS
from cathedra.clock import SystemClock
from cathedra.node.faultpoints import MARK_VARIABLE, MARKED, POINT_VARIABLE
from cathedra.releases import FeatureGates
from tests.requirements import container_runtime
from tests.unit.node.driver_server import DriverServer

NODE = "node-0"
DRIVER = "gpu.example.com"
TOKEN = "the-node"
PROGRAM = Path(__file__).with_name("node_program.py")
RUNTIMES = ("process", "crun")
"""Containers without and with an OCI runtime."""


class World:
    """An API server and a driver, which live on while the node agent comes and goes."""

    def __init__(self, directory: Path, server: APIServer, url: str, runtime: str) -> None:
        self.directory = directory
        self.root = directory / "node"
        self.url = url
        self.runtime = runtime
        self.client = Client(server.transport(), clock=SystemClock())
        self.driver = DriverServer(self.root, DRIVER)
        self.fault_mark = directory / "fault"
        self.agent: asyncio.subprocess.Process | None = None

    async def start_agent(self) -> None:
        """Start the agent; it, and a shim that it starts, dies at the points that are armed."""
        environment = {**os.environ, POINT_VARIABLE: MARKED, MARK_VARIABLE: str(self.fault_mark)}
        authority = self.directory / "pki" / "ca.crt"
        arguments = (self.url, str(authority), TOKEN, NODE, str(self.root), self.runtime)
        with (self.directory / "agent.log").open("ab") as log:
            self.agent = await asyncio.create_subprocess_exec(
                sys.executable, str(PROGRAM), *arguments, stdout=log, stderr=log, env=environment
            )

    def arm_fault(self, point: str) -> None:
        """From now on the first process that reaches the point dies there."""
        self.fault_mark.write_text(point)

    @property
    def fault_happened(self) -> bool:
        """Return True if a process has died at the fault point."""
        return not self.fault_mark.exists()

    @asynccontextmanager
    async def patience(self) -> AsyncIterator[None]:
        """Limit the time of the block; a failure has the log of the agent."""
        try:
            async with asyncio.timeout(120):
                yield
        except TimeoutError as error:
            ended = "" if self.agent is None else f"exit status {self.agent.returncode}, "
            log = (self.directory / "agent.log").read_text()[-8000:]
            raise AssertionError(f"nothing more happened; agent: {ended}calls: {self.driver.calls}\n{log}") from error

    async def until_ready(self) -> None:
        """Wait until the agent has chosen its container runtime and reports the node as ready."""
        async with self.patience():
            while True:
                node = await self.client.resource(NODES).get(NODE)
                if any(c.type == "Ready" and c.status == "True" for c in node.status.conditions):
                    return
                await asyncio.sleep(0.02)

    @property
    def shim_pid(self) -> int:
        """The process ID of the container shim; 0 while there is none."""
        try:
            return int(json.loads((self.root / "containers" / "shim.json").read_text())["pid"])
        except (OSError, ValueError):
            return 0

    def kill_shim(self) -> None:
        """Kill the container shim."""
        pid = self.shim_pid
        with contextlib.suppress(ProcessLookupError):
            if pid:
                os.kill(pid, signal.SIGKILL)

    async def kill_agent(self) -> None:
        assert self.agent is not None
        assert self.agent.returncode is None, f"it has ended by itself:\n{(self.directory / 'agent.log').read_text()}"
        self.agent.kill()
        await self.agent.wait()

    async def stop_agent(self) -> None:
        """Containers and all that belongs to them go with it."""
        if self.agent is None or self.agent.returncode is not None:
            return
        self.agent.send_signal(2)
        await self.agent.wait()

    async def create(self, name: str, script: str, *, grace: int = 5, restart: str = "Never") -> None:
        """A pod on the node with an allocated claim of its own; it sees the world's directory."""
        mount = VolumeMount(name="shared", mount_path=str(self.directory))
        container = Container(
            name="c",
            image="debian",
            command=("sh", "-c", script),
            volume_mounts=(mount,),
            resources=ResourceRequirements(claims=(ContainerClaim(name="gpu"),)),
        )
        spec = PodSpec(
            node_name=NODE,
            restart_policy=restart,
            containers=(container,),
            termination_grace_period_seconds=grace,
            resource_claims=(PodResourceClaim(name="gpu", resource_claim_name=name),),
            volumes=(Volume(name="shared", host_path=HostPathVolumeSource(path=str(self.directory))),),
        )
        exactly = ExactDeviceRequest(device_class_name=DRIVER)
        wanted = ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=exactly),)))
        claims = self.client.resource(RESOURCECLAIMS, "default")
        claim = await claims.create(ResourceClaim(metadata=ObjectMeta(name=name), spec=wanted))
        pod = await self.client.resource(PODS, "default").create(Pod(metadata=ObjectMeta(name=name), spec=spec))
        result = DeviceRequestAllocationResult(request="gpu", driver=DRIVER, pool=NODE, device=f"gpu-{name}")
        status = ResourceClaimStatus(
            allocation=AllocationResult(devices=DeviceAllocationResult(results=(result,))),
            reserved_for=(ResourceClaimConsumerReference(resource="pods", name=name, uid=pod.metadata.uid),),
        )
        await claims.update_status(replace(claim, status=status))

    async def pod(self, name: str) -> Pod | None:
        try:
            return await self.client.resource(PODS, "default").get(name)
        except StatusError as error:
            if not error.is_not_found:
                raise
            return None

    async def until_phase(self, phase: str, name: str) -> Pod:
        async with self.patience():
            while True:
                pod = await self.pod(name)
                if pod is not None and pod.status.phase == phase:
                    return pod
                await asyncio.sleep(0.02)

    async def until_over(self, name: str) -> Pod:
        """Wait until the pod has succeeded or failed."""
        async with self.patience():
            while True:
                pod = await self.pod(name)
                if pod is not None and pod.status.phase in {"Succeeded", "Failed"}:
                    return pod
                await asyncio.sleep(0.02)

    async def until_status(self, name: str, condition: Callable[[ContainerStatus], bool]) -> Pod:
        """Wait until the status of the pod's container is as it should be."""
        async with self.patience():
            while True:
                pod = await self.pod(name)
                if pod is not None and any(condition(status) for status in pod.status.container_statuses):
                    return pod
                await asyncio.sleep(0.02)

    async def until_gone(self, name: str) -> None:
        async with self.patience():
            while await self.pod(name) is not None:  # noqa: ASYNC110 - as seldom as it takes
                await asyncio.sleep(0.02)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self.patience():
            while not condition():  # noqa: ASYNC110 - processes do not set events
                await asyncio.sleep(0.02)

    def lines(self, name: str) -> list[str]:
        """Return the text that containers have written into a file of the shared directory."""
        path = self.directory / name
        return path.read_text().split() if path.exists() else []

    def calls(self, method: str) -> list[str]:
        """The claims for which a method of the driver was called."""
        return [claim for called, claims in self.driver.calls if called == f"{method} v1" for claim in claims]


@asynccontextmanager
async def node_world(runtime: str) -> AsyncIterator[World]:
    """A world whose node runs containers with ``runtime``; in the end nothing of it may be left."""
    directory = Path(tempfile.mkdtemp(prefix="recovery-"))  # short: a socket's address has room for 107 characters
    container_runtime(runtime)
    server = await APIServer.open(
        ServerConfig(gates=FeatureGates.for_release()), clock=SystemClock(), random=random.Random(1)
    )
    user = UserInfo("system:admin", ("system:masters",))
    url = await server.serve(ServeOptions(pki=directory / "pki", tokens={TOKEN: user}))
    found = World(directory, server, url, runtime)
    await found.client.resource(NODES).create(Node(metadata=ObjectMeta(name=NODE)))
    await found.driver.start()
    try:
        await found.start_agent()
        yield found
    finally:
        await found.stop_agent()
        await found.driver.stop()
        await server.close()
    # An agent on a busy machine may go before its shim has removed everything.
    with contextlib.suppress(AssertionError):
        await found.until(lambda: not traces(found.root))
    left = traces(found.root)
    assert not left, left
    shutil.rmtree(directory, ignore_errors=True)


def traces(root: Path) -> list[str]:
    """Return the remains of a stopped node: shim, mounts, cgroups, the container runtime's state."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    socket = root / "containers" / "shim.sock"
    state = root / "containers" / "runtime"
    cgroup = "cathedra-" + hashlib.sha256(os.fsencode(root / "containers")).hexdigest()[:12]
    left = [line for line in mounts if str(root) in line]
    left += [str(socket)] if socket.exists() else []
    left += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{cgroup}")]
    return left + ([str(path) for path in state.iterdir()] if state.exists() else [])
