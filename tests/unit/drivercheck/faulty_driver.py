"""A driver in one process with the examination, right but for one fault; written against the wire protocol alone."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from cathedra._proto import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    pluginregistration_v1_pb2,
    pluginregistration_v1_pb2_grpc,
)
from cathedra.api import resource
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.quantity import Quantity
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import NODES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.devicemetadata import CONTAINER_DIRECTORY

NAME = "lamps.example.com"
KIND = f"{NAME}/claim"
COUNTED = ("counted", "too many watts", "siblings go together")
"""Drivers whose lamps consume counters; the first has no fault."""
SHARED = ("shared", "no share IDs", "shares go together")
"""Drivers whose lamps are shared; the first has no fault."""
METADATA = ("metadata", "metadata of others", "metadata stays", "metadata once")
"""Drivers that write metadata; the first has no fault."""


@dataclass
class FaultyDriver:
    """Publishes four lamps; ``fault`` names what is wrong with it, "" nothing."""

    client: Client
    root: Path
    node: str
    fault: str = ""
    prepared: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    """By claim UID: request, pool, device."""
    calls: int = 0
    busy: int = 0
    choked: bool = False
    servers: list[grpc.aio.Server] = field(default_factory=list)
    instance: str = ""
    """Mark of its sockets, where several instances run at a time."""
    shares: dict[str, str] = field(default_factory=dict)
    """Share ID by claim UID."""
    streams: int = 0
    """Health streams that were opened."""

    @property
    def service_socket(self) -> Path:
        return self.root / f"dra{self.instance}.sock"

    @property
    def registry(self) -> Path:
        return self.root / "registry"

    @property
    def cdi(self) -> Path:
        return self.root / "cdi"

    @property
    def services(self) -> list[str]:
        known = ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth"]
        return {
            "unknown service": [*known, "v2.DRAPlugin"],
            "no service": [],
            "unserved version": known,
            "unserved health": known,
        }.get(self.fault, known)

    async def start(self) -> None:
        for path in (self.registry, self.cdi):
            path.mkdir(parents=True, exist_ok=True)
        service = grpc.aio.server()
        dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(_Plugin(self, dra_v1_pb2), service)
        if self.fault != "unserved version":
            dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(_Plugin(self, dra_v1beta1_pb2), service)
        if self.fault != "unserved health":
            dra_health_v1_pb2_grpc.add_DRAResourceHealthServicer_to_server(_Health(self), service)
        registration = grpc.aio.server()
        pluginregistration_v1_pb2_grpc.add_RegistrationServicer_to_server(_Registration(self), registration)
        for server, path in (
            (service, self.service_socket),
            (registration, self.registry / f"lamps{self.instance}-reg.sock"),
        ):
            server.add_insecure_port(f"unix:{path}")
            await server.start()
            self.servers.append(server)
        await self.publish()

    async def stop(self) -> None:
        for server in self.servers:
            await server.stop(None)

    async def publish(self) -> None:
        uid = await self.node_uid()
        owner = OwnerReference(api_version="v1", kind="Node", name=self.node, uid=uid, controller=True)
        names = [f"lamp-{number}" for number in range(4)]
        pieces = [names, names] if self.fault == "device twice" else [names]
        pool = "lamps" if self.fault == "one pool name" else self.node
        counted = self.fault in COUNTED
        for devices in pieces:
            spec = resource.ResourceSliceSpec(
                driver=NAME,
                node_name=self.node,
                pool=resource.ResourcePool(name=pool, generation=1, resource_slice_count=len(pieces) + counted),
                devices=tuple(self._device(name) for name in devices),
            )
            metadata = ObjectMeta(
                generate_name="lamps-", owner_references=() if self.fault == "unowned slices" else (owner,)
            )
            await self.client.resource(RESOURCESLICES).create(resource.ResourceSlice(metadata=metadata, spec=spec))
            if counted:
                sets = (resource.CounterSet(name="mains", counters={"watts": resource.Counter(value=Quantity(20))}),)
                supply = replace(spec, devices=(), shared_counters=sets)
                await self.client.resource(RESOURCESLICES).create(
                    resource.ResourceSlice(metadata=metadata, spec=supply)
                )

    async def node_uid(self) -> str:
        return (await self.client.resource(NODES).get(self.node)).metadata.uid

    def _device(self, name: str) -> resource.Device:
        """A lamp; those of ``COUNTED`` drivers take 10 of 20 watts, those of ``SHARED`` ones are shared."""
        device = resource.Device(name=name)
        if self.fault in COUNTED:
            watts = 30 if self.fault == "too many watts" else 10
            consumed = resource.DeviceCounterConsumption(
                counter_set="mains", counters={"watts": resource.Counter(value=Quantity(watts))}
            )
            return replace(device, consumes_counters=(consumed,))
        if self.fault in SHARED:
            capacity = {"light": resource.DeviceCapacity(value=Quantity(100))}
            return replace(device, allow_multiple_allocations=True, capacity=capacity)
        return device

    async def rewrite_slice(self) -> None:
        slices = self.client.resource(RESOURCESLICES)
        for one in (await slices.list()).items:
            await slices.patch(one.metadata.name, {"metadata": {"labels": {"calls": str(self.calls)}}})

    # claims

    async def prepare(self, claim: Any) -> list[tuple[str, str, str]]:
        """The devices of a claim: request, pool, device.

        Raises:
            ValueError: it is refused.
        """
        if self.fault != "never looks at claims":
            found = await self._get(claim)
            allocation = found.status.allocation
            if allocation is None or self.choked:
                raise ValueError("not allocated, or not readable any more")
            self.shares[claim.uid] = next((one.share_id for one in allocation.devices.results if one.share_id), "")
            results = [one for one in allocation.devices.results if self.fault == "takes all" or one.driver == NAME]
            mine = [one.opaque for one in allocation.devices.config if one.opaque is not None]
            if self.fault == "chokes on parameters" and any(opaque.driver == NAME for opaque in mine):
                self.choked = True
            devices = [(one.request.partition("/")[0], one.pool, one.device) for one in results]
            if self.fault == "subrequests":
                devices = [(one.request, one.pool, one.device) for one in results]
            if self.fault == "wrong device":
                devices = [(request, pool, "lamp-9") for request, pool, _ in devices]
        else:
            devices = [("device", self.node, "lamp-0")]
        held = {device for uid, held in self.prepared.items() if uid != claim.uid for device in held}
        shared = self.fault == "gives twice" or self.fault in SHARED
        if not shared and any(one[1:] == other[1:] for one in devices for other in held):
            raise ValueError("the device is in use")
        if not (self.fault == "documents once" and claim.uid in self.prepared) and self.fault != "no documents":
            self._write(claim.uid)
        self.write_metadata(claim, devices)
        self.prepared[claim.uid] = devices
        return devices

    async def _get(self, claim: Any) -> resource.ResourceClaim:
        try:
            found = await self.client.resource(RESOURCECLAIMS, claim.namespace).get(claim.name)
        except StatusError as error:
            raise ValueError(str(error)) from error
        if found.metadata.uid != claim.uid and self.fault != "takes replaced claims":
            raise ValueError("got replaced")
        return found

    def _write(self, uid: str) -> None:
        edits: dict[str, Any] = {"env": ["no variable"] if self.fault == "invalid documents" else ["LAMP=on"]}
        if self.fault in METADATA:
            edits["mounts"] = [{"hostPath": str(self._metadata(uid)), "containerPath": f"{CONTAINER_DIRECTORY}/{uid}"}]
        devices = [{"name": uid, "containerEdits": edits}]
        text = json.dumps({"cdiVersion": "0.5.0", "kind": KIND, "devices": devices})
        (self.cdi / f"{uid}.json").write_text(text)

    def _metadata(self, uid: str) -> Path:
        return self.root / f"{uid}-metadata.json"

    def write_metadata(self, claim: Any, devices: list[tuple[str, str, str]]) -> None:
        """Write the metadata of a claim, as its fault demands."""
        if self.fault not in METADATA or (self.fault == "metadata once" and claim.uid in self.prepared):
            return
        identity = {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid}
        if self.fault == "metadata of others":
            identity["name"] = "another"
        described = [{"driver": NAME, "pool": pool, "name": device} for _, pool, device in devices]
        document = {
            "apiVersion": "metadata.resource.k8s.io/v1beta1",
            "kind": "DeviceMetadata",
            "metadata": {**identity, "generation": 1},
            "requests": [{"name": "device", "devices": described}],
        }
        self._metadata(claim.uid).write_text(json.dumps(document))

    def unprepare(self, uid: str) -> None:
        """Raises:
        ValueError: it is refused.
        """
        if self.fault == "knows its claims only" and uid not in self.prepared:
            raise ValueError("unknown claim")
        self.prepared.pop(uid, None)
        if self.fault in ("siblings go together", "shares go together"):
            # What else uses the device gets a new name with its next answer.
            self.calls += 1_000
        if self.fault != "metadata stays":
            self._metadata(uid).unlink(missing_ok=True)
        if self.fault != "leaves documents":
            (self.cdi / f"{uid}.json").unlink(missing_ok=True)


class _Registration(pluginregistration_v1_pb2_grpc.RegistrationServicer):
    def __init__(self, driver: FaultyDriver) -> None:
        self.driver = driver
        self.told = 0

    async def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return pluginregistration_v1_pb2.PluginInfo(
            type="DevicePlugin" if self.driver.fault == "wrong type" else "DRAPlugin",
            name=NAME,
            endpoint="dra.sock" if self.driver.fault == "relative endpoint" else str(self.driver.service_socket),
            supported_versions=self.driver.services,
        )

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.told += 1
        if self.driver.fault == "registers once" and self.told > 1:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "registered already")
        return pluginregistration_v1_pb2.RegistrationStatusResponse()


class _Plugin:
    def __init__(self, driver: FaultyDriver, messages: Any) -> None:
        self.driver, self.messages = driver, messages

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        driver = self.driver
        driver.calls += 1
        if driver.fault == "no empty calls" and not request.claims:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no claims")
        if driver.fault == "rewrites slices":
            await driver.rewrite_slice()
        driver.busy += 1
        try:
            if driver.fault == "one at a time":
                if driver.busy > 1:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
                await asyncio.sleep(0.05)
            return await self._prepare(request)
        finally:
            driver.busy -= 1

    async def _prepare(self, request: Any) -> Any:
        driver = self.driver
        response = self.messages.NodePrepareResourcesResponse()
        claims = request.claims[:1] if driver.fault == "answers for one" else request.claims
        for claim in claims:
            answer = response.claims[claim.uid]
            try:
                devices = await driver.prepare(claim)
            except ValueError as error:
                answer.error = str(error)
                continue
            for name, pool, device in devices:
                prepared = answer.devices.add(pool_name=pool, device_name=device, request_names=[name])
                marker = f"-{driver.calls}" if driver.fault == "answers differ" else ""
                if driver.fault in ("siblings go together", "shares go together"):
                    marker = f"-{driver.calls // 1_000}" if driver.calls >= 1_000 else ""
                if self.messages is dra_v1_pb2 and driver.fault in ("shared", "shares go together"):
                    prepared.share_id = driver.shares[claim.uid]
                older = self.messages is dra_v1beta1_pb2 and driver.fault == "versions differ"
                prepared.cdi_device_ids.append(f"{KIND}={claim.uid}{marker}{'-beta' if older else ''}")
        return response

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        response = self.messages.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            answer = response.claims[claim.uid]
            answer.SetInParent()
            try:
                self.driver.unprepare(claim.uid)
            except ValueError as error:
                answer.error = str(error)
        return response


class _Health(dra_health_v1_pb2_grpc.DRAResourceHealthServicer):
    def __init__(self, driver: FaultyDriver) -> None:
        self.driver = driver

    async def NodeWatchResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.driver.streams += 1
        if self.driver.fault == "one health stream" and self.driver.streams > 1:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "a stream is open")
        if self.driver.fault == "silent health":
            return
        name = "lamp-9" if self.driver.fault == "health of others" else "lamp-0"
        device = dra_health_v1_pb2.DeviceIdentifier(pool_name=self.driver.node, device_name=name)
        report = dra_health_v1_pb2.DeviceHealth(device=device, health=dra_health_v1_pb2.HEALTHY)
        yield dra_health_v1_pb2.NodeWatchResourcesResponse(devices=[report])
        await asyncio.get_running_loop().create_future()
