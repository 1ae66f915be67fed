"""A driver that sends too much to its node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc.aio

from cathedra._proto import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    pluginregistration_v1_pb2,
    pluginregistration_v1_pb2_grpc,
)
from tools.attack.measuring import Attack, Reached, Scene
from tools.attack.scheduling import RESOURCES, device_class, pod, resource_slice, template
from tools.attack.target import NAMESPACE

__all__ = ["ATTACKS"]

DRIVER: Final = "flood.example.com"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS: Final = f"/api/v1/namespaces/{NAMESPACE}/events"
WHO: Final = "a driver on a node"
MOST_EVENT: Final = 4096
"""Bytes of an event's message; the text of an error in it is cut."""


class _Registration(pluginregistration_v1_pb2_grpc.RegistrationServicer):
    def __init__(self, endpoint: Path) -> None:
        self._endpoint = endpoint
        self.done = asyncio.Event()

    async def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802  # gRPC's name
        versions = ("v1.DRAPlugin", "v1.DRAResourceHealth")
        return pluginregistration_v1_pb2.PluginInfo(
            type="DRAPlugin", name=DRIVER, endpoint=str(self._endpoint), supported_versions=versions
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802  # gRPC's name
        self.done.set()
        return pluginregistration_v1_pb2.RegistrationStatusResponse()


class _Plugin(dra_v1_pb2_grpc.DRAPluginServicer):
    async def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802  # gRPC's name
        response = dra_v1_pb2.NodePrepareResourcesResponse()
        for claim in request.claims:
            response.claims[claim.uid].error = "x" * 3_500_000
        return response

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802  # gRPC's name
        response = dra_v1_pb2.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            response.claims[claim.uid].SetInParent()
        return response


class _Health(dra_health_v1_pb2_grpc.DRAResourceHealthServicer):
    """Sends reports as soon as it is let."""

    def __init__(self) -> None:
        self.start, self.sent = asyncio.Event(), asyncio.Event()

    async def NodeWatchResources(self, request: Any, context: Any) -> Any:  # noqa: N802  # gRPC's name
        await self.start.wait()
        for number in range(100):
            yield _report(number)
        self.sent.set()
        await asyncio.get_running_loop().create_future()


def _report(number: int) -> dra_health_v1_pb2.NodeWatchResourcesResponse:
    """A report on 1,000 devices that the driver has not published; each differs from the last one."""
    devices = [
        dra_health_v1_pb2.DeviceHealth(
            device=dra_health_v1_pb2.DeviceIdentifier(pool_name="node-0", device_name=f"d{number}-{place}"),
            health=dra_health_v1_pb2.UNHEALTHY,
            message=f"{number}" + "x" * 2000,
        )
        for place in range(1000)
    ]
    return dra_health_v1_pb2.NodeWatchResourcesResponse(devices=devices)


@asynccontextmanager
async def _registered(scene: Scene) -> AsyncIterator[_Health]:
    """A driver that the first node has taken."""
    root = scene.cluster.data.path / "nodes" / "node-0"
    endpoint = root / "plugins" / DRIVER / "dra.sock"
    endpoint.parent.mkdir(parents=True, exist_ok=True)
    health, registration = _Health(), _Registration(endpoint)
    service, announcing = grpc.aio.server(), grpc.aio.server()
    dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(_Plugin(), service)
    dra_health_v1_pb2_grpc.add_DRAResourceHealthServicer_to_server(health, service)
    pluginregistration_v1_pb2_grpc.add_RegistrationServicer_to_server(registration, announcing)
    service.add_insecure_port(f"unix:{endpoint}")
    announcing.add_insecure_port(f"unix:{root / 'plugins_registry' / f'{DRIVER}-reg.sock'}")
    await service.start()
    await announcing.start()
    try:
        await registration.done.wait()
        yield health
    finally:
        await announcing.stop(None)
        await service.stop(None)


async def health_reports(scene: Scene) -> None:
    """Reports on devices that the driver has not published."""
    async with _registered(scene) as health:
        scene.begin()
        health.start.set()
        await health.sent.wait()
        await asyncio.sleep(5)


async def long_errors(scene: Scene) -> None:
    """Errors of a megabyte and more, of a driver that prepares nothing."""
    async with _registered(scene):
        admin, member = scene.cluster.admin, scene.cluster.member
        await admin.create(f"{RESOURCES}/deviceclasses", device_class("flood", DRIVER))
        await admin.create(
            f"{RESOURCES}/resourceslices",
            resource_slice("node-0", DRIVER, [{"name": f"d{number}"} for number in range(8)]),
        )
        request = {"name": "r", "exactly": {"deviceClassName": "flood"}}
        await member.create(f"{RESOURCES}/namespaces/{NAMESPACE}/resourceclaimtemplates", template("flood", [request]))
        scene.begin()
        for number in range(8):
            await member.create(PODS, pod(f"flood-{number}", "flood"))
        await asyncio.sleep(15)
        events = (await member.send("GET", EVENTS)).json()["items"]
        longest = max((len(one.get("message", "")) for one in events), default=0)
        for number in range(8):
            await member.send("DELETE", f"{PODS}/flood-{number}?gracePeriodSeconds=0")
    if longest > MOST_EVENT:
        raise Reached(f"an event has {longest} bytes")


ATTACKS: Final = (
    Attack(
        "health-reports", "health of unpublished devices", "100 reports × 1,000 devices × 2 kB", WHO, health_reports
    ),
    Attack("long-errors", "errors of a driver that prepares nothing, eight pods", "3.5 MB each", WHO, long_errors),
)
