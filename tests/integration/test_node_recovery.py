"""A node agent that is killed at the worst moment and started again on what it left (spec: node.md, section 11.3)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import (
    Container,
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
from cathedra.api.gates import FeatureGates
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
from tests.requirements import container_runtime
from tests.unit.node.driver_server import DriverServer

NODE = "node-0"
DRIVER = "gpu.example.com"
TOKEN = "the-node"
PROGRAM = Path(__file__).with_name("node_program.py")
RUNTIMES = ("process", "crun")


class World:
    """An API server and a driver, which live on while the node agent comes and goes."""

    def __init__(self, directory: Path, server: APIServer, url: str, runtime: str) -> None:
        self.directory = directory
        self.root = directory / "node"
        self.url = url
        self.runtime = runtime
        self.client = Client(server.transport(), clock=SystemClock())
        self.driver = DriverServer(self.root, DRIVER)
        self.agent: asyncio.subprocess.Process | None = None

    async def start_agent(self) -> None:
        authority = self.directory / "pki" / "ca.crt"
        arguments = (self.url, str(authority), TOKEN, NODE, str(self.root), self.runtime)
        with (self.directory / "agent.log").open("ab") as log:
            self.agent = await asyncio.create_subprocess_exec(
                sys.executable, str(PROGRAM), *arguments, stdout=log, stderr=log
            )

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

    async def create(self, name: str, script: str, *, grace: int = 5) -> None:
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
            restart_policy="Never",
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
        async with asyncio.timeout(40):
            while True:
                pod = await self.pod(name)
                if pod is not None and pod.status.phase == phase:
                    return pod
                await asyncio.sleep(0.02)

    async def until_gone(self, name: str) -> None:
        async with asyncio.timeout(40):
            while await self.pod(name) is not None:  # noqa: ASYNC110 - as seldom as it takes
                await asyncio.sleep(0.02)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(40):
            while not condition():  # noqa: ASYNC110 - processes do not set events
                await asyncio.sleep(0.02)

    def lines(self, name: str) -> list[str]:
        """What containers have written into a file of the shared directory."""
        path = self.directory / name
        return path.read_text().split() if path.exists() else []

    def calls(self, method: str) -> list[str]:
        """The claims for which a method of the driver was called."""
        return [claim for called, claims in self.driver.calls if called == f"{method} v1" for claim in claims]


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory with a short path: a socket's address has room for 107 characters."""
    made = Path(tempfile.mkdtemp(prefix="recovery-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(params=RUNTIMES)
async def world(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[World]:
    runtime = container_runtime(request.param)
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
    assert_no_trace(found.root)


def assert_no_trace(root: Path) -> None:
    """What must be gone when a node has been stopped: shim, mounts, cgroups, the container runtime's state."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    assert [line for line in mounts if str(root) in line] == []
    assert not (root / "containers" / "shim.sock").exists()
    cgroup = "cathedra-" + hashlib.sha256(os.fsencode(root / "containers")).hexdigest()[:12]
    assert list(Path("/sys/fs/cgroup").glob(f"*/{cgroup}")) == []
    state = root / "containers" / "runtime"
    assert not state.exists() or list(state.iterdir()) == []


async def test_running_containers_go_on_and_ended_ones_are_not_started_again(world: World) -> None:
    await world.create("long", f"echo $$ >> {world.directory}/long; trap 'exit 0' TERM; sleep 600 & wait")
    await world.create("short", f"echo $$ >> {world.directory}/short; sleep 1; exit 5")
    before = await world.until_phase("Running", "long")
    await world.until(lambda: len(world.lines("short")) == 1)
    await world.kill_agent()
    await asyncio.sleep(1.3)
    assert world.calls("unprepare") == []
    await world.start_agent()
    ended = await world.until_phase("Failed", "short")
    terminated = ended.status.container_statuses[0].state.terminated
    assert terminated is not None
    assert terminated.exit_code == 5
    after = await world.until_phase("Running", "long")
    (was,), (now,) = before.status.container_statuses, after.status.container_statuses
    assert (now.container_id, now.restart_count) == (was.container_id, 0)
    assert (len(world.lines("long")), len(world.lines("short"))) == (1, 1)
    assert sorted(world.calls("prepare")) == ["long", "short"]
    assert world.calls("unprepare") == ["short"]
    await world.client.resource(PODS, "default").delete("long")
    await world.until(lambda: world.calls("unprepare") == ["short", "long"])


async def test_a_pod_deleted_while_no_agent_was_there_is_ended_and_its_claim_let_go_once(world: World) -> None:
    await world.create("p", f"trap 'echo bye >> {world.directory}/bye; exit 0' TERM; echo up; sleep 600 & wait")
    await world.until_phase("Running", "p")
    await world.kill_agent()
    await world.client.resource(PODS, "default").delete("p")
    await world.start_agent()
    await world.until_gone("p")
    assert world.lines("bye") == ["bye"]
    assert (world.calls("prepare"), world.calls("unprepare")) == (["p"], ["p"])


async def test_a_pod_force_deleted_while_no_agent_was_there_leaves_nothing_behind(world: World) -> None:
    await world.create("p", "trap 'exit 0' TERM; sleep 600 & wait")
    await world.until_phase("Running", "p")
    await world.kill_agent()
    await world.client.resource(PODS, "default").delete("p", grace_period_seconds=0)
    await world.start_agent()
    await world.until(lambda: world.calls("unprepare") == ["p"])
    containers = world.root / "containers"
    await world.until(lambda: not list(containers.glob("*/container.json")))


async def test_killing_the_agent_again_and_again_while_pods_end_calls_nothing_twice_for_good(world: World) -> None:
    """Whatever moment the agent dies at: each container runs once, and in the end every claim is let go."""
    names = [f"p{i}" for i in range(4)]
    for name in names:
        await world.create(name, f"echo $$ >> {world.directory}/{name}; sleep 0.3")
    for pause in (0.9, 1.2, 1.5):
        await asyncio.sleep(pause)
        await world.kill_agent()
        await world.start_agent()
    await world.create("last", "true")
    await world.until_phase("Succeeded", "last")
    for name in names:
        await world.until_phase("Succeeded", name)
        assert len(world.lines(name)) == 1, "no container runs twice"
    assert set(world.calls("unprepare")) == {*names, "last"}
    state = (world.root / "dra_manager_state").read_text()
    assert all(name not in state for name in names)
