"""A container on what this machine really has: a CPU of its own, and a device node."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import Container
from cathedra.api.quantity import Quantity
from cathedra.api.resource import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from cathedra.api.struct import replace
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.clock import SystemClock
from cathedra.driver import Driver, DriverRunner
from cathedra.driver.run import DriverPlacement
from cathedra.drivers.cpu import CpuDriver, read_topology
from cathedra.drivers.hostdev import HostDevices
from tests.integration.real_node import RealNode, running
from tests.requirements import container_runtime
from tests.running import beside
from tests.unit.driver.world import SHARES
from tests.unit.node.fakes import NODE, make_claim, make_pod

KMSG = Path("/dev/kmsg")
"""A device node that machines have and containers have not."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short path: a socket's address has room for 107 characters."""
    directory = Path(tempfile.mkdtemp(prefix="hw-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def at_work(node: RealNode, driver: Driver) -> AsyncIterator[None]:
    """A driver on the node, registered over its sockets."""
    runner = DriverRunner(
        driver,
        node.client,
        DriverPlacement(
            node_name=NODE,
            plugin_dir=node.root / "plugins" / driver.name,
            registry_dir=node.root / "plugins_registry",
            cdi_dir=node.root / "cdi",
        ),
        clock=SystemClock(),
        random=random.Random(3),
    )
    async with running_driver(runner):
        assert runner.registration is not None
        await runner.registration.wait_registered(120.0, str(node.root))
        yield


@asynccontextmanager
async def running_driver(runner: DriverRunner) -> AsyncIterator[None]:
    async with beside(runner.run()):
        yield


async def allocate(node: RealNode, name: str, driver: str, device: str, **more: object) -> None:
    """A claim of the pod ``p`` that holds the device."""
    claim = make_claim(name, "p", driver=driver)
    result = DeviceRequestAllocationResult(request="gpu", driver=driver, pool=NODE, device=device, **more)  # type: ignore[arg-type]  # handed on
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
    claim = replace(claim, status=replace(claim.status, allocation=allocation))
    await node.client.resource(RESOURCECLAIMS, "default").create(claim)


@pytest.mark.parametrize("runtime", ["crun", "runc"])
@pytest.mark.skipif(
    not os.path.exists("/sys/devices/system/cpu/online") or len(os.sched_getaffinity(0)) != os.cpu_count(),
    reason="not all CPUs of this machine may be used here",
)
@pytest.mark.skipif(not KMSG.exists(), reason="this machine has no /dev/kmsg")
async def test_a_container_runs_on_the_cpu_of_its_claim_and_has_the_node_of_its_claim(
    place: Path, runtime: str
) -> None:
    node = RealNode(place / "node", container_runtime(runtime))
    (place / "devices.yaml").write_text(f"devices: [{{kind: log, paths: [{KMSG}]}}]\n")
    cpu = read_topology()[-1]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(node.agent))
        await stack.enter_async_context(at_work(node, CpuDriver()))
        await stack.enter_async_context(at_work(node, HostDevices(place / "devices.yaml")))
        consumed = {"dra.cpu/cpu": Quantity(1)}
        group = f"cpudevnuma{cpu.numa_node:03}"
        await allocate(node, "cpu", "dra.cpu", group, share_id=SHARES[0], consumed_capacity=consumed)
        await allocate(node, "log", "hostdev.example.com", "log-kmsg")
        script = "grep Cpus_allowed_list /proc/self/status; env | grep ^DRA_CPUSET_; ls $HOSTDEV_LOG_KMSG"
        container = Container(name="c", command=("sh", "-c", script))
        await node.run_pod(make_pod("p", container, claims=["cpu", "log"]))
        await node.until_phase("Succeeded")
        allowed, told, path = (await node.logs())[1].splitlines()
    assert allowed.split()[-1] == told.partition("=")[2]
    assert allowed.split()[-1].isdigit()
    assert path == str(KMSG)
