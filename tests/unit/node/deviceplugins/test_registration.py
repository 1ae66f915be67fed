"""Device plugins on real sockets."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from cathedra._proto import deviceplugin_v1beta1_pb2 as api
from cathedra._proto import deviceplugin_v1beta1_pb2_grpc as stubs
from cathedra.clock import SystemClock
from cathedra.node.deviceplugins.manager import DeviceManager
from cathedra.node.deviceplugins.registration import PluginRegistration
from cathedra.node.metrics import NodeMetrics
from tests.unit.node.deviceplugins.fakeplugin import RESOURCE
from tests.unit.node.deviceplugins.test_manager import given, pod, wanting


class Plugin(stubs.DevicePluginServicer):  # type: ignore[misc]  # the generated stubs are not annotated
    """Two devices, of which one is ill; it chooses, and wants to know of starts."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802
        return api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        healths = {"a": "Healthy", "b": "Healthy", "ill": "Unhealthy"}
        yield api.ListAndWatchResponse(devices=[api.Device(ID=name, health=how) for name, how in healths.items()])
        await asyncio.get_running_loop().create_future()

    async def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        (wanted,) = request.container_requests
        self.calls.append(f"prefer {wanted.allocation_size} of {','.join(wanted.available_device_ids)}")
        chosen = api.ContainerPreferredAllocationResponse(device_ids=["b"])
        return api.PreferredAllocationResponse(container_responses=[chosen])

    async def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        (wanted,) = request.container_requests
        given = api.ContainerAllocateResponse(
            envs={"RESOURCE_DEVICES": ",".join(wanted.devices_ids)},
            mounts=[api.Mount(container_path="/in", host_path="/out", read_only=True)],
            devices=[api.DeviceSpec(container_path="/dev/b", host_path="/dev/null", permissions="rw")],
            annotations={"a": "b"},
            cdi_devices=[api.CDIDevice(name="example.com/resource=b")],
        )
        return api.AllocateResponse(container_responses=[given])

    async def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.calls.append(f"start with {','.join(request.devices_ids)}")
        return api.PreStartContainerResponse()


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short enough for sockets."""
    made = Path(tempfile.mkdtemp(prefix="dp-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@asynccontextmanager
async def node(directory: Path) -> AsyncIterator[DeviceManager]:
    manager = DeviceManager(SystemClock(), NodeMetrics(SystemClock()))
    tasks = [asyncio.ensure_future(one.run()) for one in (manager, PluginRegistration(directory, manager))]
    try:
        async with asyncio.timeout(60):
            while not (directory / "kubelet.sock").exists():  # noqa: ASYNC110 - a socket sets no event
                await asyncio.sleep(0.01)
        yield manager
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def plugin(socket: Path) -> AsyncIterator[Plugin]:
    server, made = grpc.aio.server(), Plugin()
    register: Any = stubs
    register.add_DevicePluginServicer_to_server(made, server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield made
    finally:
        await server.stop(None)


async def register(directory: Path, **fields: str) -> None:
    async with grpc.aio.insecure_channel(f"unix:{directory / 'kubelet.sock'}") as channel:
        stub: Any = stubs.RegistrationStub(channel)  # type: ignore[no-untyped-call]
        request = {"version": "v1beta1", "endpoint": "plugin.sock", "resource_name": RESOURCE, **fields}
        await stub.Register(api.RegisterRequest(**request), wait_for_ready=True, timeout=30)


async def test_a_plugin_registers_and_its_devices_are_given_to_containers(directory: Path) -> None:
    async with node(directory) as manager, plugin(directory / "plugin.sock") as served:
        changed = asyncio.ensure_future(manager.wait_changed())
        await register(directory)
        async with asyncio.timeout(60):
            await changed
        assert manager.capacity() == {RESOURCE: (3, 2)}
        made = pod("1", wanting(1))
        await manager.admit(made)
        assert given(manager, made) == {"c": "b"}
        (container,) = made.spec.containers
        (grant,) = manager.grants(made, container)
        assert (grant.mounts[0].container_path, grant.mounts[0].read_only) == ("/in", True)
        assert (grant.nodes[0].path, grant.nodes[0].host_path, grant.nodes[0].permissions) == (
            "/dev/b",
            "/dev/null",
            "rw",
        )
        assert (grant.annotations, grant.cdi_devices) == ({"a": "b"}, ("example.com/resource=b",))
        await manager.before_start(made, container)
        assert served.calls == ["prefer 1 of a,b", "start with b"]


async def test_a_plugin_whose_connection_ends_has_no_allocatable_devices(directory: Path) -> None:
    async with node(directory) as manager:
        async with plugin(directory / "plugin.sock"):
            changed = asyncio.ensure_future(manager.wait_changed())
            await register(directory)
            async with asyncio.timeout(60):
                await changed
            gone = asyncio.ensure_future(manager.wait_changed())
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            await gone
        assert manager.capacity() == {RESOURCE: (3, 0)}


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"version": "v1"}, 'requested API version "v1" is not supported by kubelet. Supported version is "v1beta1"'),
        ({"resource_name": "cpu"}, 'the ResourceName "cpu" is invalid'),
        ({"resource_name": "kubernetes.io/x"}, 'the ResourceName "kubernetes.io/x" is invalid'),
    ],
)
async def test_a_plugin_that_cannot_be_used_is_refused(directory: Path, fields: dict[str, str], complaint: str) -> None:
    async with node(directory):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await register(directory, **fields)
        assert refused.value.details() == complaint


async def test_sockets_of_an_earlier_life_are_removed(directory: Path) -> None:
    async with plugin(directory / "plugin.sock"), node(directory):
        assert not (directory / "plugin.sock").exists()
