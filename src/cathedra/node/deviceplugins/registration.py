"""The socket at which device plugins register: ``device-plugins/kubelet.sock`` below the node's directory.

A plugin that sees the socket made anew registers again; so the sockets of plugins are removed at each start, as a
kubelet does.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from cathedra._proto import deviceplugin_v1beta1_pb2 as api
from cathedra._proto import deviceplugin_v1beta1_pb2_grpc as stubs
from cathedra.api.formats import qualified_name
from cathedra.node.deviceplugins.grpcclient import GRPCDevicePlugin
from cathedra.node.deviceplugins.manager import DeviceManager

__all__ = ["DIRECTORY", "PluginRegistration"]

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
        """Listen until cancelled."""
        self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        for path in self._directory.iterdir():
            if path.is_socket():
                path.unlink()
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        make: Any = stubs  # the generated stubs are not annotated
        make.add_RegistrationServicer_to_server(self, server)
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # The real path may be longer than a socket's address can be.
            server.add_insecure_port(f"unix:/proc/self/fd/{folder}/{SOCKET}")
            await server.start()
        finally:
            os.close(folder)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await server.stop(None)

    async def Register(self, request: Any, context: Any) -> Any:  # noqa: N802
        """A plugin says where it listens, and for which resource."""
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
    """Whether the name has a domain, and none of Kubernetes' own."""
    domain, slash, _ = resource.partition("/")
    own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash) and not own and not qualified_name(resource)
