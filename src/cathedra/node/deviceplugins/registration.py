"""Registration of device plugins at ``device-plugins/kubelet.sock``, and the gRPC client of a plugin.

A plugin registers again when it sees a new socket. Therefore the sockets of plugins are removed at each start, as the
kubelet does.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from cathedra._proto import deviceplugin_v1beta1_pb2 as api
from cathedra._proto import deviceplugin_v1beta1_pb2_grpc as stubs
from cathedra.api.formats import qualified_name
from cathedra.cdi.spec import DeviceNode
from cathedra.node.deviceplugins.manager import DeviceGrant, DeviceManager, PluginOptions
from cathedra.node.grpcsocket import go_status, open_channel, serve_at
from cathedra.node.plugins.client import PluginCallError
from cathedra.node.runtime.runtime import BindMount

DIRECTORY: Final = "device-plugins"
SOCKET: Final = "kubelet.sock"
VERSION: Final = "v1beta1"
_LOG = logging.getLogger(__name__)


class PluginRegistration:
    """Hands plugins that register over to ``manager``."""

    def __init__(self, directory: Path, manager: DeviceManager) -> None:
        self._directory = directory
        self._manager = manager

    async def run(self) -> None:
        """Serve the registration socket until cancelled; sockets of an earlier agent are removed."""
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        for path in self._directory.iterdir():
            if path.is_socket():
                path.unlink()
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        make: Any = stubs  # the generated stubs are not annotated
        make.add_RegistrationServicer_to_server(self, server)
        await serve_at(server, self._directory / SOCKET)

    async def Register(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Handle a registration: the plugin's socket and resource."""
        if request.version != VERSION:
            text = f'requested API version "{request.version}" is not supported by kubelet. Supported version is'
            await context.abort(grpc.StatusCode.UNKNOWN, f'{text} "{VERSION}"')
        resource = request.resource_name
        if not _is_extended(resource):
            await context.abort(grpc.StatusCode.UNKNOWN, f'the ResourceName "{resource}" is invalid')
        _LOG.info("device plugin for %s at %s", resource, request.endpoint)
        self._manager.register(resource, GRPCDevicePlugin(str(self._directory / request.endpoint)))
        return api.Empty()


def _is_extended(resource: str) -> bool:
    """Return True if the name has a domain that is not one of Kubernetes' own."""
    domain, slash, _ = resource.partition("/")
    own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash) and not own and not qualified_name(resource)


CONNECT_SECONDS: Final = 10.0
PRE_START_SECONDS: Final = 30.0
HEALTHY: Final = "Healthy"


class GRPCDevicePlugin:
    """The plugin that listens at ``socket``."""

    def __init__(self, socket: str) -> None:
        self._channel = open_channel(socket)
        make: Any = stubs  # the generated stubs are not annotated
        self._plugin = make.DevicePluginStub(self._channel)

    async def options(self) -> PluginOptions:
        """Return the optional calls that the plugin supports."""
        found = await self._call("GetDevicePluginOptions", api.Empty(), seconds=CONNECT_SECONDS, wait=True)
        return PluginOptions(found.pre_start_required, found.get_preferred_allocation_available)

    async def watch(self) -> AsyncIterator[Mapping[str, bool]]:
        """Yield all its devices at each change, until the stream ends."""
        stream = self._plugin.ListAndWatch(api.Empty())
        try:
            async for answer in stream:
                yield {device.ID: device.health == HEALTHY for device in answer.devices}
        except grpc.aio.AioRpcError as error:
            raise PluginCallError(*go_status(error)) from error
        finally:
            stream.cancel()

    async def preferred(self, available: Sequence[str], needed: Sequence[str], size: int) -> Sequence[str]:
        """Return the devices that the plugin prefers among the available ones."""
        wanted = api.ContainerPreferredAllocationRequest(
            available_device_ids=available, must_include_device_ids=needed, allocation_size=size
        )
        answer = await self._call("GetPreferredAllocation", api.PreferredAllocationRequest(container_requests=[wanted]))
        return tuple(answer.container_responses[0].device_ids) if answer.container_responses else ()

    async def allocate(self, devices: Sequence[str]) -> DeviceGrant:
        """Give these devices to a container."""
        wanted = api.ContainerAllocateRequest(devices_ids=devices)
        answer = await self._call("Allocate", api.AllocateRequest(container_requests=[wanted]))
        if len(answer.container_responses) != 1:
            raise PluginCallError("Internal", f"{len(answer.container_responses)} answers for one container")
        (given,) = answer.container_responses
        return DeviceGrant(
            environment=dict(given.envs),
            mounts=tuple(BindMount(one.host_path, one.container_path, one.read_only) for one in given.mounts),
            nodes=tuple(
                DeviceNode(path=one.container_path, host_path=one.host_path, permissions=one.permissions)
                for one in given.devices
            ),
            annotations=dict(given.annotations),
            cdi_devices=tuple(one.name for one in given.cdi_devices),
        )

    async def pre_start(self, devices: Sequence[str]) -> None:
        """Note that a container with these devices is about to start."""
        request = api.PreStartContainerRequest(devices_ids=devices)
        await self._call("PreStartContainer", request, seconds=PRE_START_SECONDS)

    async def _call(self, method: str, request: Any, *, seconds: float | None = None, wait: bool = False) -> Any:
        try:
            return await getattr(self._plugin, method)(request, timeout=seconds, wait_for_ready=wait)
        except grpc.aio.AioRpcError as error:
            raise PluginCallError(*go_status(error)) from error
