"""Runs a driver on a simulated node. Claims are allocated by hand or by the allocator, and tests check the driver's
answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from operator import attrgetter
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from cathedra.allocation import Allocation, AllocationError, Cluster, allocate
from cathedra.api import resource
from cathedra.api.core.core_v1 import Node
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.scheme import GroupResource
from cathedra.api.status import already_exists, bad_request, conflict, not_found
from cathedra.api.struct import RawJSON, from_dict, replace, to_dict
from cathedra.cdi.catalogue import load
from cathedra.cdi.spec import ContainerEdits
from cathedra.client.client import Client
from cathedra.client.objects import with_metadata
from cathedra.client.resources import NODES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.client.transport import APICall, EventType, Page, PatchType, ResourceRef, WatchEvent
from cathedra.clock import Clock, SystemClock
from cathedra.driver.claim import Ref
from cathedra.driver.driver import Driver
from cathedra.driver.preparing.checkpoint import DeviceAnswer
from cathedra.driver.preparing.service import PrepareResult
from cathedra.driver.run import DriverPlacement, DriverRunner

NODE: Final = "kit-node"
NAMESPACE: Final = "default"


class KitError(Exception):
    """A step of a test failed in the driver; the text is the driver's own."""


class Kit:
    """A driver on a bench. Use it as an async context manager; files are real, in a directory of its own."""

    def __init__(self, make_driver: Callable[[], Driver], *, clock: Clock | None = None) -> None:
        """``make_driver`` is called for every start, as a new process would."""
        self._make_driver = make_driver
        self._clock = clock or SystemClock()
        self._directory = Path()
        self._boots = 1
        self._runner: DriverRunner | None = None
        self._task: asyncio.Task[None] | None = None
        self._claims = 0
        self.client = Client(MemoryAPI(), clock=self._clock, field_manager="kit")
        """The cluster's API, as an administrator sees it."""

    async def __aenter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="driver-kit-"))
        await self.client.resource(NODES).create(Node(metadata=ObjectMeta(name=NODE)))
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def driver(self) -> Driver:
        """The driver that is running now."""
        return self._running.driver

    @property
    def _running(self) -> DriverRunner:
        if self._runner is None:
            raise KitError("the driver is not running")
        return self._runner

    @property
    def cdi_directory(self) -> Path:
        """Directory of the driver's CDI files."""
        return self._directory / "cdi"

    async def _start(self) -> None:
        driver = self._make_driver()
        self._runner = runner = DriverRunner(
            driver,
            self.client,
            DriverPlacement(
                node_name=NODE,
                plugin_dir=self._directory / "plugin",
                cdi_dir=self.cdi_directory,
                boot_id=f"boot-{self._boots}",
            ),
            clock=self._clock,
            random=Random(1),
        )
        self._task = asyncio.ensure_future(runner.run())
        published = asyncio.ensure_future(runner.slices.wait_published())
        await asyncio.wait({self._task, published}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            published.cancel()
            await self._task

    async def _stop(self) -> None:
        task, self._task, self._runner = self._task, None, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def restart(self) -> None:
        """End the driver as a process ends, and start it again: memory is lost, files stay."""
        await self._stop()
        await self._start()

    async def reboot(self) -> None:
        """Restart the machine: files in /var/run, such as CDI files, are lost too."""
        await self._stop()
        shutil.rmtree(self.cdi_directory, ignore_errors=True)
        self._boots += 1
        await self._start()

    # The cluster

    async def slices(self) -> list[resource.ResourceSlice]:
        """Return the published slices, sorted by name."""
        page = await self.client.resource(RESOURCESLICES).list()
        return sorted(page.items, key=lambda found: found.metadata.name)

    async def devices(self) -> list[tuple[str, str]]:
        """Return pool and name of every device that is published."""
        return [(found.spec.pool.name, device.name) for found in await self.slices() for device in found.spec.devices]

    async def claim(
        self,
        *devices: str,
        name: str = "",
        request: str = "device",
        config: Mapping[str, Any] | None = None,
        others: Sequence[resource.DeviceRequestAllocationResult] = (),
    ) -> Ref:
        """Create a claim that has been allocated these devices of the driver; ``config``: its opaque parameters.

        ``others``: results of other drivers in the same claim.

        Raises:
            KitError: the driver has not published such a device.
        """
        self._claims += 1
        name = name or f"claim-{self._claims}"
        results = (*[await self._result(device, request) for device in devices], *others)
        exactly = resource.ExactDeviceRequest(device_class_name=self.driver.name)
        requests = dict.fromkeys(result.request.partition("/")[0] for result in results)
        spec = resource.DeviceClaim(requests=tuple(resource.DeviceRequest(name=r, exactly=exactly) for r in requests))
        claims = self.client.resource(RESOURCECLAIMS, NAMESPACE)
        made = await claims.create(
            resource.ResourceClaim(metadata=ObjectMeta(name=name), spec=resource.ResourceClaimSpec(devices=spec))
        )
        allocation = resource.AllocationResult(
            devices=resource.DeviceAllocationResult(results=results, config=self._config(config))
        )
        await claims.update_status(replace(made, status=resource.ResourceClaimStatus(allocation=allocation)))
        return Ref(NAMESPACE, name, made.metadata.uid)

    async def allocate(
        self, selector: str = "", *, count: int = 1, name: str = "", config: Mapping[str, Any] | None = None
    ) -> Ref:
        """Create a claim to which the allocator allocates free published devices of the driver. Of shared devices it
        gets the least amount.

        Args:
            selector: a CEL expression over ``device``, as in a claim; "" for any device.
            config: opaque parameters of the claim.

        Raises: KitError: no device is allocated; the text is the allocator's refusal.
        """
        self._claims += 1
        claims = self.client.resource(RESOURCECLAIMS, NAMESPACE)
        least = smallest_requests(await self.slices())
        claim = asked(self.driver.name, name or f"claim-{self._claims}", NAMESPACE, selector, count, least)
        try:
            outcome = await results_for(self.client, self.driver.name, NODE, claim)
        except AllocationError as error:
            raise KitError(str(error)) from error
        if isinstance(outcome, str):
            raise KitError(outcome)
        (allocation,) = outcome.results
        made = await claims.create(claim)
        devices = replace(allocation.devices, config=self._config(config))
        status = resource.ResourceClaimStatus(allocation=replace(allocation, devices=devices))
        await claims.update_status(replace(made, status=status))
        return Ref(NAMESPACE, made.metadata.name, made.metadata.uid)

    async def _result(self, device: str, request: str) -> resource.DeviceRequestAllocationResult:
        for pool, name in await self.devices():
            if name == device:
                return resource.DeviceRequestAllocationResult(
                    request=request, driver=self.driver.name, pool=pool, device=device
                )
        raise KitError(f"{self.driver.name} has published no device {device}")

    def _config(self, parameters: Mapping[str, Any] | None) -> tuple[resource.DeviceAllocationConfiguration, ...]:
        if parameters is None:
            return ()
        opaque = resource.OpaqueDeviceConfiguration(driver=self.driver.name, parameters=RawJSON.of(dict(parameters)))
        return (resource.DeviceAllocationConfiguration(source="FromClaim", opaque=opaque),)

    async def delete(self, claim: Ref) -> None:
        """Delete a claim's object without a call to the driver."""
        await self.client.resource(RESOURCECLAIMS, claim.namespace).delete(claim.name)

    # The node agent

    async def prepare(self, claim: Ref) -> tuple[DeviceAnswer, ...]:
        """Prepare one claim and return its devices.

        Raises:
            KitError: that did not succeed.
        """
        result = (await self.prepare_all(claim)).get(claim.uid)
        if result is None:
            raise KitError(f"no answer for claim {claim}")
        if result.error:
            raise KitError(result.error)
        return result.devices

    async def prepare_all(self, *claims: Ref) -> dict[str, PrepareResult]:
        """Make one prepare call for these claims. Return the answers by UID.

        Raises:
            CallFailed: the call as a whole was refused.
        """
        return await self._running.service.node_prepare_resources(claims)

    async def unprepare(self, claim: Ref) -> None:
        """Unprepare one claim.

        Raises:
            KitError: that did not succeed.
        """
        answers = await self._running.service.node_unprepare_resources([claim])
        if answers.get(claim.uid, "no answer"):
            raise KitError(answers.get(claim.uid, f"no answer for claim {claim}"))

    def edits(self, devices: Sequence[DeviceAnswer]) -> ContainerEdits:
        """Return the edits that the CDI files on disk have for these devices.

        Raises:
            UnresolvableDevices: the files lack some names.
        """
        names = dict.fromkeys(name for device in devices for name in device.cdi_device_ids)
        return load([self.cdi_directory]).edits(names)


# An API server in memory for drivers under test: objects, resource versions and watches, without validation.
#
# Claims are allocated by the scheduler's allocator, from the slices that the driver has published, with counters,
# taints, selectors, shares, and the devices of other claims.

T = TypeVar("T", bound=KubeObject)
_status: Final = attrgetter("status")


class MemoryAPI:
    """A `Transport` that is its own server. Selectors are ignored: every object belongs to one driver."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], KubeObject] = {}
        self._history: list[tuple[int, str, WatchEvent[KubeObject]]] = []
        self._revision = 0
        self._changed = asyncio.Event()

    def _find(self, ref: ResourceRef[T], namespace: str, name: str) -> T:
        found = self._objects.get((ref.resource, namespace, name))
        if found is None:
            raise not_found(GroupResource(ref.group, ref.resource), name)
        return cast("T", found)

    def _record(self, ref: ResourceRef[KubeObject], kind: EventType, obj: T) -> T:
        self._revision += 1
        stored = with_metadata(obj, resource_version=str(self._revision))
        metadata = stored.metadata
        key = (ref.resource, metadata.namespace, metadata.name)
        if kind is EventType.DELETED:
            self._objects.pop(key, None)
        else:
            self._objects[key] = stored
        self._history.append((self._revision, ref.resource, WatchEvent(kind, stored)))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return stored

    async def call(self, call: APICall) -> Any:
        """Carry out a call.

        Raises:
            StatusError: the object does not exist, exists already or has changed; or the call is not supported here.
        """
        match call.verb:
            case "get":
                return self._find(call.ref, call.namespace, call.name)
            case "list":
                return Page(self._listed(call.ref, call.namespace), str(self._revision))
            case "create":
                return self._create(call)
            case "update":
                return self._update(call)
            case "patch":
                return self._patch(call)
            case "delete":
                return self._record(call.ref, EventType.DELETED, self._find(call.ref, call.namespace, call.name))
            case "deletecollection":
                for found in self._listed(call.ref, call.namespace):
                    self._record(call.ref, EventType.DELETED, found)
                return None
        raise bad_request(f"the verb {call.verb} is not supported here")

    def _listed(self, ref: ResourceRef[T], namespace: str) -> tuple[T, ...]:
        keys = sorted(key for key in self._objects if key[0] == ref.resource and namespace in ("", key[1]))
        return tuple(cast("T", self._objects[key]) for key in keys)

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream the changes after a resource version."""
        yield self._events(call.ref.resource, call.namespace, int(call.selection.resource_version or 0))

    async def _events(self, resource: str, namespace: str, position: int) -> AsyncIterator[WatchEvent[T]]:
        while True:
            changed = self._changed
            for revision, of, event in self._history[:]:
                if revision > position and of == resource and namespace in ("", event.object.metadata.namespace):
                    yield cast("WatchEvent[T]", event)
            position = self._history[-1][0] if self._history else position
            if changed is self._changed:
                await changed.wait()

    def _create(self, call: APICall) -> Any:
        ref, namespace, obj, subresource = call.ref, call.namespace, call.body, call.subresource
        if subresource:
            raise bad_request(f"{ref.resource}/{subresource} is not served here")
        metadata = obj.metadata
        name = metadata.name or f"{metadata.generate_name}{self._revision + 1:05d}"
        if (ref.resource, namespace, name) in self._objects:
            raise already_exists(GroupResource(ref.group, ref.resource), name)
        uid = metadata.uid or f"00000000-0000-4000-8000-{self._revision + 1:012d}"
        return self._record(ref, EventType.ADDED, with_metadata(obj, name=name, namespace=namespace, uid=uid))

    def _update(self, call: APICall) -> Any:
        """Replace an object; without a sub-resource its status stays, with ``status`` everything else."""
        ref, namespace, obj, subresource = call.ref, call.namespace, call.body, call.subresource
        name = obj.metadata.name
        old = self._find(ref, namespace, name)
        if obj.metadata.resource_version not in ("", old.metadata.resource_version):
            raise conflict(GroupResource(ref.group, ref.resource), name, "the object has been modified")
        if subresource == "status":
            obj = replace(old, status=_status(obj))
        elif hasattr(old, "status"):
            obj = replace(obj, status=_status(old))
        return self._record(ref, EventType.MODIFIED, obj)

    def _patch(self, call: APICall) -> Any:
        """Server-side apply, as if there were no other field manager: tables are merged, lists replaced.

        Other patches are refused: test a driver that makes them with a real API server.
        """
        ref, namespace, name, body = call.ref, call.namespace, call.name, call.body
        if call.patch_type is not PatchType.APPLY:
            raise bad_request("this API server in memory knows no patches but server-side apply")
        old = self._find(ref, namespace, name)
        if body["metadata"].get("uid", old.metadata.uid) != old.metadata.uid:
            raise conflict(GroupResource(ref.group, ref.resource), name, "the UID is another one")
        fields = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
        merged: KubeObject = from_dict(ref.type, _merged(to_dict(old), fields))
        return self._record(ref, EventType.MODIFIED, merged)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


def smallest_requests(slices: Iterable[resource.ResourceSlice]) -> dict[str, Quantity]:
    """Return the least amounts that a claim can request of devices that several claims share; {} if none are shared.

    Without a request, a claim gets a device's whole capacity, and no second claim could share it. An amount below the
    minimum of a policy is rounded up by the allocator.
    """
    devices = [device for piece in slices for device in piece.spec.devices]
    if not any(device.allow_multiple_allocations for device in devices):
        return {}
    # A device without a requested capacity is never allocated.
    common = set.intersection(*(set(device.capacity) for device in devices))
    return {name: min(Quantity(1), *(device.capacity[name].value for device in devices)) for name in sorted(common)}


def asked(
    driver: str,
    name: str,
    namespace: str,
    selector: str,
    count: int,
    capacity: Mapping[str, Quantity] | None = None,
) -> resource.ResourceClaim:
    """Return a claim for ``count`` devices of ``driver`` that a CEL expression selects; "" selects all."""
    expressions = (resource.DeviceSelector(cel=resource.CELDeviceSelector(expression=selector)),) if selector else ()
    exactly = resource.ExactDeviceRequest(
        device_class_name=driver,
        selectors=expressions,
        allocation_mode="ExactCount",
        count=count,
        capacity=resource.CapacityRequirements(requests=dict(capacity)) if capacity else None,
    )
    request = resource.DeviceRequest(name="device", exactly=exactly)
    spec = resource.ResourceClaimSpec(devices=resource.DeviceClaim(requests=(request,)))
    return resource.ResourceClaim(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


async def results_for(client: Client, driver: str, node: str, claim: resource.ResourceClaim) -> Allocation | str:
    """Return what the allocator allocates to ``claim`` now, or the reason why nothing.

    Raises:
        AllocationError: the claim is invalid, for example a selector that fails.
    """
    expression = resource.CELDeviceSelector(expression=f'device.driver == "{driver}"')
    kind = resource.DeviceClass(
        metadata=ObjectMeta(name=driver),
        spec=resource.DeviceClassSpec(selectors=(resource.DeviceSelector(cel=expression),)),
    )
    nodes = await client.resource(NODES).list()
    slices = await client.resource(RESOURCESLICES).list()
    claims = await client.resource(RESOURCECLAIMS).list()
    cluster = Cluster.of([*nodes.items, kind, *slices.items, *claims.items])
    for what in (*slices.undecodable, *claims.undecodable):
        cluster.add_undecodable(what)
    outcome = allocate(node, claim, cluster)
    return outcome if isinstance(outcome, Allocation) else str(outcome)
