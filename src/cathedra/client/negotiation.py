"""Kinds that releases serve in different versions: the newest one that the server has is spoken, and converted.

Everything above works with the newest version of a kind. Before the first call on such a kind the server is asked which
version it serves; older objects become new ones on the way in, and old ones again on the way out. A kind that is served
in no version is said so in the log, once, and asked for again: it may be switched on while we run
(docs/spec/api.md §1.3).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from cathedra.api import resource
from cathedra.api.core import scheduling_v1alpha2, scheduling_v1alpha3
from cathedra.api.core.meta_v1 import DeleteOptions
from cathedra.api.status import StatusError
from cathedra.client.transport import (
    EventType,
    ListOptions,
    Page,
    PatchType,
    ResourceRef,
    Transport,
    WatchEvent,
    WriteOptions,
)
from cathedra.kinds.scheduling.conversion import group_from_hub, group_to_hub, workload_from_hub, workload_to_hub

__all__ = ["NegotiatedTransport", "is_negotiable"]

_LOG = logging.getLogger(__name__)


def _same(obj: Any) -> Any:
    return obj


@dataclass(frozen=True, slots=True)
class _Version:
    """A version that a server may have instead of the newest, and the way there and back."""

    name: str
    type: type[Any]
    upgrade: Callable[[Any], Any] = _same
    downgrade: Callable[[Any], Any] = _same


_OLDER: Final[Mapping[tuple[str, str], Sequence[_Version]]] = {
    ("resource.k8s.io", "devicetaintrules"): (
        _Version("v1beta2", resource.DeviceTaintRule),
        _Version("v1alpha3", resource.DeviceTaintRule),
    ),
    ("scheduling.k8s.io", "podgroups"): (
        _Version("v1alpha3", scheduling_v1alpha3.PodGroup),
        _Version("v1alpha2", scheduling_v1alpha2.PodGroup, group_to_hub, group_from_hub),
    ),
    ("scheduling.k8s.io", "workloads"): (
        _Version("v1alpha3", scheduling_v1alpha3.Workload),
        _Version("v1alpha2", scheduling_v1alpha2.Workload, workload_to_hub, workload_from_hub),
    ),
}
"""(group, resource) → older versions, newest first."""


def is_negotiable(ref: ResourceRef[Any]) -> bool:
    """Whether servers have the kind in different versions."""
    return (ref.group, ref.resource) in _OLDER


class NegotiatedTransport:
    """A transport that speaks of each kind the version that the server has. Errors are those of the transport below."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._served: dict[ResourceRef[Any], tuple[ResourceRef[Any], _Version]] = {}
        self._missing: set[ResourceRef[Any]] = set()

    async def get(self, ref: ResourceRef[Any], namespace: str, name: str, *, subresource: str = "") -> Any:
        """One object."""
        served, version = await self._resolve(ref)
        return version.upgrade(await self._inner.get(served, namespace, name, subresource=subresource))

    async def list(self, ref: ResourceRef[Any], namespace: str, options: ListOptions) -> Page[Any]:
        """The objects that match."""
        served, version = await self._resolve(ref)
        page = await self._inner.list(served, namespace, options)
        items = tuple(map(version.upgrade, page.items))
        return Page(items, page.resource_version, page.continue_, page.remaining)

    @asynccontextmanager
    async def watch(
        self, ref: ResourceRef[Any], namespace: str, options: ListOptions, *, bookmarks: bool = True
    ) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Changes, until the stream below ends."""
        served, version = await self._resolve(ref)
        async with self._inner.watch(served, namespace, options, bookmarks=bookmarks) as events:
            yield _upgraded(events, version)

    async def create(
        self,
        ref: ResourceRef[Any],
        namespace: str,
        obj: Any,
        options: WriteOptions,
        *,
        name: str = "",
        subresource: str = "",
    ) -> Any:
        """Create an object."""
        served, version = await self._resolve(ref)
        sent = version.downgrade(obj)
        return version.upgrade(
            await self._inner.create(served, namespace, sent, options, name=name, subresource=subresource)
        )

    async def update(
        self, ref: ResourceRef[Any], namespace: str, obj: Any, options: WriteOptions, *, subresource: str = ""
    ) -> Any:
        """Replace an object."""
        served, version = await self._resolve(ref)
        sent = version.downgrade(obj)
        return version.upgrade(await self._inner.update(served, namespace, sent, options, subresource=subresource))

    async def patch(
        self,
        ref: ResourceRef[Any],
        namespace: str,
        name: str,
        patch_type: PatchType,
        body: Any,
        options: WriteOptions,
        *,
        subresource: str = "",
    ) -> Any:
        """Patch an object; the body must hold only what all versions have in the same place."""
        served, version = await self._resolve(ref)
        if patch_type is PatchType.APPLY:
            body = {**body, "apiVersion": f"{served.group}/{served.version}"}
        return version.upgrade(
            await self._inner.patch(served, namespace, name, patch_type, body, options, subresource=subresource)
        )

    async def delete(self, ref: ResourceRef[Any], namespace: str, name: str, options: DeleteOptions) -> Any:
        """Delete an object."""
        served, version = await self._resolve(ref)
        left = await self._inner.delete(served, namespace, name, options)
        return left if left is None else version.upgrade(left)

    async def delete_collection(
        self, ref: ResourceRef[Any], namespace: str, list_options: ListOptions, options: DeleteOptions
    ) -> None:
        """Delete the objects that match."""
        served, _ = await self._resolve(ref)
        await self._inner.delete_collection(served, namespace, list_options, options)

    async def close(self) -> None:
        """Let go of connections."""
        await self._inner.close()

    async def _resolve(self, ref: ResourceRef[Any]) -> tuple[ResourceRef[Any], _Version]:
        """The version that the server has; the newest, whose absence it will tell, if it has none."""
        known = self._served.get(ref)
        if known is not None:
            return known
        newest = _Version(ref.version, ref.type)
        versions = (newest, *_OLDER[ref.group, ref.resource])
        for version in versions:
            candidate = ResourceRef(ref.group, version.name, ref.resource, ref.kind, ref.namespaced, version.type)
            if await self._is_served(candidate):
                if version is not newest:
                    _LOG.info("%s.%s: the server has %s, not %s", ref.resource, ref.group, version.name, ref.version)
                self._missing.discard(ref)
                self._served[ref] = (candidate, version)
                return candidate, version
        if ref not in self._missing:
            self._missing.add(ref)
            names = ", ".join(version.name for version in versions)
            _LOG.warning(
                "%s.%s is not served in any of %s: counted as empty until it is; switch it on at the API server "
                "(--runtime-config), or switch the feature off here",
                ref.resource,
                ref.group,
                names,
            )
        return ref, newest

    async def _is_served(self, ref: ResourceRef[Any]) -> bool:
        try:
            await self._inner.list(ref, "", ListOptions(limit=1))
        except StatusError as error:
            # Who may not list finds out whether the version is there with the call itself.
            return not error.is_not_found
        return True


async def _upgraded(events: AsyncIterator[WatchEvent[Any]], version: _Version) -> AsyncIterator[WatchEvent[Any]]:
    async for event in events:
        if event.type is EventType.BOOKMARK:
            yield event
        else:
            yield WatchEvent(event.type, version.upgrade(event.object))
