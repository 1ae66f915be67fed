"""An API server in memory for drivers under test: objects, resource versions and watches, without validation.

Claims are allocated by the scheduler's allocator, from the slices that the driver has published, with counters, taints,
selectors, shares, and the devices of other claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

from cathedra.allocation import Allocation, Cluster, allocate
from cathedra.api import resource
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.scheme import GroupResource
from cathedra.api.status import already_exists, bad_request, conflict, not_found
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.client.client import Client
from cathedra.client.objects import with_metadata
from cathedra.client.resources import NODES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.client.transport import APICall, EventType, Page, PatchType, ResourceRef, WatchEvent

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

        Other patches are refused: a driver that makes them has to be tested with a real API server.
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
        """Do nothing: it holds no connection."""


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
    """A claim for ``count`` devices of ``driver`` that a CEL expression selects; "" selects all."""
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
