"""An API server small enough to hold in the hand: the edge that client tests stand on.

It keeps objects in a dict, counts revisions, remembers changes for watches and speaks no rules. Tests can cut its
watches, forget its history and make it fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cathedra.api.scheme import GroupResource
from cathedra.api.status import already_exists, conflict, expired, not_found
from cathedra.api.struct import KubeStruct, from_dict, to_dict
from cathedra.client.objects import with_metadata
from cathedra.client.transport import APICall, EventType, Page, WatchEvent
from cathedra.clock import LoopClock


class FakeTransport:
    """All verbs on a dict."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], KubeStruct] = {}
        self.history: list[tuple[int, str, EventType, KubeStruct]] = []
        self.revision = 0
        self.forgotten = 0
        self.requests: list[tuple[str, str, str]] = []
        self.failures: list[Exception] = []
        self.watches = 0
        self._changed = asyncio.Condition()
        self._cut = 0

    def clock(self) -> LoopClock:
        return LoopClock(asyncio.get_running_loop())

    async def _enter(self, verb: str, resource: str, name: str = "") -> None:
        self.requests.append((verb, resource, name))
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)

    async def _record(self, ref: Any, kind: EventType, obj: KubeStruct) -> KubeStruct:
        self.revision += 1
        obj = with_metadata(obj, resource_version=str(self.revision))
        key = (ref.resource, obj.metadata.namespace, obj.metadata.name)
        if kind is EventType.DELETED:
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        self.history.append((self.revision, ref.resource, kind, obj))
        async with self._changed:
            self._changed.notify_all()
        return obj

    async def cut_watches(self) -> None:
        """End every open watch."""
        self._cut += 1
        async with self._changed:
            self._changed.notify_all()

    def forget_history(self) -> None:
        """Compact: watches from older versions get 410."""
        self.forgotten = self.revision
        self.history.clear()

    async def call(self, call: APICall) -> Any:
        """One method per verb below, so that a test replaces the verb that it is about."""
        return await getattr(self, call.verb)(call)

    async def get(self, call: APICall) -> Any:
        await self._enter("get", call.ref.resource, call.name)
        return self._found(call)

    async def list(self, call: APICall) -> Page[Any]:
        ref, namespace = call.ref, call.namespace
        await self._enter("list", ref.resource)
        found = [o for (r, ns, _), o in sorted(self.objects.items()) if r == ref.resource and namespace in ("", ns)]
        return Page(tuple(found), str(self.revision))

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[Any]:
        await self._enter("watch", call.ref.resource)
        self.watches += 1
        try:
            yield self._events(call.ref, call.namespace, int(call.selection.resource_version or 0), self._cut)
        finally:
            self.watches -= 1

    async def _events(self, ref: Any, namespace: str, position: int, cut: int) -> AsyncIterator[WatchEvent[Any]]:
        if position < self.forgotten:
            raise expired(f"too old resource version: {position} ({self.forgotten})")
        while cut == self._cut:
            for revision, resource, kind, obj in tuple(self.history):
                if revision > position and resource == ref.resource and namespace in ("", obj.metadata.namespace):
                    yield WatchEvent(kind, obj)
            position = self.revision
            async with self._changed:
                await self._changed.wait_for(lambda at=position: self.revision > at or cut != self._cut)

    async def create(self, call: APICall) -> Any:
        ref, namespace, obj = call.ref, call.namespace, call.body
        await self._enter("create", ref.resource, call.name or obj.metadata.name)
        metadata = obj.metadata
        new_name = metadata.name or f"{metadata.generate_name}{self.revision + 1:05d}"
        if (ref.resource, namespace, new_name) in self.objects:
            raise already_exists(GroupResource(ref.group, ref.resource), new_name)
        uid = metadata.uid or f"uid-{self.revision + 1}"
        return await self._record(ref, EventType.ADDED, with_metadata(obj, name=new_name, namespace=namespace, uid=uid))

    async def update(self, call: APICall) -> Any:
        ref, obj = call.ref, call.body
        await self._enter("update", ref.resource, call.name)
        old = self._found(call)
        if obj.metadata.resource_version not in ("", old.metadata.resource_version):
            raise conflict(GroupResource(ref.group, ref.resource), call.name, "the object has been modified")
        return await self._record(ref, EventType.MODIFIED, obj)

    async def patch(self, call: APICall) -> Any:
        ref = call.ref
        await self._enter("patch", ref.resource, call.name)
        old = self._found(call)
        return await self._record(ref, EventType.MODIFIED, from_dict(ref.type, _merged(to_dict(old), call.body)))

    async def delete(self, call: APICall) -> Any:
        await self._enter("delete", call.ref.resource, call.name)
        return await self._record(call.ref, EventType.DELETED, self._found(call))

    async def deletecollection(self, call: APICall) -> None:
        for resource, ns, name in tuple(self.objects):
            if resource == call.ref.resource and ns == call.namespace:
                await self.delete(APICall("delete", call.ref, ns, name, body=call.body))

    def _found(self, call: APICall) -> Any:
        found = self.objects.get((call.ref.resource, call.namespace, call.name))
        if found is None:
            raise not_found(GroupResource(call.ref.group, call.ref.resource), call.name)
        return found

    async def close(self) -> None:
        return None


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    merged = dict(old)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(old.get(name), value)
    return merged
