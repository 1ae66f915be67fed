"""A DRA driver on real unix sockets, written against the wire protocol alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import grpc.aio

from cathedra._proto import (
    dra_health_v1_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    pluginregistration_v1_pb2,
    pluginregistration_v1_pb2_grpc,
)


class DriverServer:
    """A driver that registers, prepares one device per claim, and records its calls."""

    running: ClassVar[set[DriverServer]] = set()
    """Those that have been started and not stopped."""

    def __init__(
        self,
        root: Path,
        name: str,
        *,
        suffix: str = "",
        versions: tuple[str, ...] = ("v1.DRAPlugin", "v1beta1.DRAPlugin"),
        kind: str = "DRAPlugin",
        cdi: str = "",
    ) -> None:
        self.name = name
        self.socket = root / "plugins" / name / f"dra{suffix}.sock"
        self.registration = root / "plugins_registry" / f"{name}{suffix}-reg.sock"
        self.versions = versions
        self.kind = kind
        self.cdi = cdi
        self.calls: list[tuple[str, list[str]]] = []
        self.told: list[tuple[bool, str]] = []
        self.infos = 0
        self.reports: list[Any] = []
        self.announced: Path | None = None
        """The endpoint that it announces; None: its own socket."""
        self._servers: list[grpc.aio.Server] = []

    async def start(self) -> None:
        for path in (self.socket, self.registration):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
        service = grpc.aio.server()
        dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(_Plugin(self, "v1", dra_v1_pb2), service)
        dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(_Plugin(self, "v1beta1", dra_v1beta1_pb2), service)
        if self.reports:
            dra_health_v1_pb2_grpc.add_DRAResourceHealthServicer_to_server(_Health(self), service)
        service.add_insecure_port(f"unix:{self.socket}")
        await service.start()
        registration = grpc.aio.server()
        pluginregistration_v1_pb2_grpc.add_RegistrationServicer_to_server(_Registration(self), registration)
        registration.add_insecure_port(f"unix:{self.registration}")
        await registration.start()
        self._servers = [service, registration]
        self.running.add(self)

    async def stop(self) -> None:
        self.running.discard(self)
        for server in self._servers:
            await server.stop(None)
        self.registration.unlink(missing_ok=True)
        self.socket.unlink(missing_ok=True)


class _Registration(pluginregistration_v1_pb2_grpc.RegistrationServicer):
    def __init__(self, driver: DriverServer) -> None:
        self.driver = driver

    async def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.driver.infos += 1
        return pluginregistration_v1_pb2.PluginInfo(
            type=self.driver.kind,
            name=self.driver.name,
            endpoint=str(self.driver.announced or self.driver.socket),
            supported_versions=self.driver.versions,
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.driver.told.append((request.plugin_registered, request.error))
        return pluginregistration_v1_pb2.RegistrationStatusResponse()


class _Plugin:
    def __init__(self, driver: DriverServer, version: str, messages: Any) -> None:
        self.driver, self.version, self.messages = driver, version, messages

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.driver.calls.append((f"prepare {self.version}", [claim.name for claim in request.claims]))
        response = self.messages.NodePrepareResourcesResponse()
        for claim in request.claims:
            device = response.claims[claim.uid].devices.add(pool_name="n1", device_name="gpu-0")
            if self.driver.cdi:
                device.cdi_device_ids.append(self.driver.cdi)
            if self.version == "v1":
                device.share_id = "s1"
        return response

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.driver.calls.append((f"unprepare {self.version}", [claim.name for claim in request.claims]))
        response = self.messages.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            response.claims[claim.uid].SetInParent()
        return response


class _Health(dra_health_v1_pb2_grpc.DRAResourceHealthServicer):
    def __init__(self, driver: DriverServer) -> None:
        self.driver = driver

    async def NodeWatchResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        import asyncio

        for report in self.driver.reports:
            yield report
        await asyncio.get_running_loop().create_future()
