"""Version negotiation: kinds that Kubernetes releases serve in different versions.

Everything above works with the newest version of a kind. The first call on such a kind finds out which version the
server has; objects of older versions are converted to the newest one when they are read, and back when they are
written. If no version is served, that is logged once and tried again with each call: the version may be switched on
while the client runs (docs/spec/api.md §1.3).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from cathedra.api import resource
from cathedra.api.core import scheduling_v1alpha2, scheduling_v1alpha3
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError, failure
from cathedra.api.struct import encode
from cathedra.api.undecodable import Undecodable, UndecodableObject, identify
from cathedra.client.transport import (
    APICall,
    EventType,
    ListOptions,
    Page,
    PatchType,
    RawTransport,
    ResourceRef,
    Transport,
    WatchEvent,
    undecodable_event,
)
from cathedra.kinds.resource.claims.conversion import CLAIM_SHAPES, TEMPLATE_SHAPES
from cathedra.kinds.resource.classes import CLASS_SHAPES
from cathedra.kinds.resource.slices.conversion import SLICE_SHAPES
from cathedra.kinds.resource.versions import Shapes
from cathedra.kinds.scheduling.conversion import group_from_hub, group_to_hub, workload_from_hub, workload_to_hub

_LOG = logging.getLogger(__name__)
CONVERSION_FAULTS: Final = (ValueError, TypeError, LookupError, AttributeError)
"""Errors that the conversion of an odd object may raise; those of decoders are among them."""
_PROBE: Final = ListOptions(limit=1, probe=True)
"""Options of the list that tests whether a version is served; a refusal is expected."""
T = TypeVar("T", bound=KubeObject)


def _same(obj: KubeObject) -> Any:
    return obj


class OlderVersion(msgspec.Struct, frozen=True):
    """A version that a server may have instead of the newest one, with the conversions."""

    name: str
    type: type[Any]
    upgrade: Callable[[Any], Any] = _same
    downgrade: Callable[[Any], Any] = _same
    resource: str = ""
    """The plural in this version, if it differs."""
    kind: str = ""


OlderVersions = Mapping[tuple[str, str, str], Sequence[OlderVersion]]
"""(group, newest version, resource) → older versions, newest first."""


def _of_devices(shapes: Shapes) -> Sequence[OlderVersion]:
    """Return the versions of a resource.k8s.io kind before v1."""
    return tuple(OlderVersion(one.name, one.type, one.to_hub, one.from_hub) for one in shapes.older)


_OLDER: Final[OlderVersions] = {
    ("resource.k8s.io", "v1", "deviceclasses"): _of_devices(CLASS_SHAPES),
    ("resource.k8s.io", "v1", "resourceclaims"): _of_devices(CLAIM_SHAPES),
    ("resource.k8s.io", "v1", "resourceclaimtemplates"): _of_devices(TEMPLATE_SHAPES),
    ("resource.k8s.io", "v1", "resourceslices"): _of_devices(SLICE_SHAPES),
    ("resource.k8s.io", "v1", "devicetaintrules"): (
        OlderVersion("v1beta2", resource.DeviceTaintRule),
        OlderVersion("v1alpha3", resource.DeviceTaintRule),
    ),
    ("scheduling.k8s.io", "v1beta1", "podgroups"): (
        OlderVersion("v1alpha3", scheduling_v1alpha3.PodGroup),
        OlderVersion("v1alpha2", scheduling_v1alpha2.PodGroup, group_to_hub, group_from_hub),
    ),
    ("scheduling.k8s.io", "v1beta1", "workloads"): (
        OlderVersion("v1alpha3", scheduling_v1alpha3.Workload),
        OlderVersion("v1alpha2", scheduling_v1alpha2.Workload, workload_to_hub, workload_from_hub),
    ),
}


class NegotiatedTransport:
    """A wrapper that uses each kind in the version that the server has. Kinds of one version pass unchanged.

    ``older`` adds versions that no later release has; they are tried before the others. Errors are those of the
    transport below.
    """

    def __init__(self, inner: Transport, older: OlderVersions = MappingProxyType({})) -> None:
        if isinstance(inner, NegotiatedTransport):
            # One negotiation is enough: a second one around it would only see what the first has converted.
            older = {**inner._special, **older}
            inner = inner._inner
        self._inner: Transport = inner
        self._special: OlderVersions = older
        self._older = {**_OLDER, **{key: _before(versions, _OLDER.get(key, ())) for key, versions in older.items()}}
        self._served: dict[ResourceRef[KubeObject], tuple[ResourceRef[KubeObject], OlderVersion]] = {}
        self._served_kinds: dict[GroupVersionKind, GroupVersionKind] = {}
        self._as_they_are: set[tuple[str, str, str]] = set()
        """Group, version and resource of kinds that the server has in the newest version."""
        self._missing: set[ResourceRef[KubeObject]] = set()

    async def call(self, call: APICall) -> Any:
        """Carry out a call in the version that the server has.

        The body of a patch is passed on as it is: it must hold only what all versions have in the same place.
        """
        served, version = await self._resolve(call.ref)
        # The call itself stays one request: conversion happens in memory on both sides of it.
        answer = await self._inner.call(structs.replace(call, ref=served, body=_body(call, served, version)))
        if call.verb == "list":
            return _upgraded_page(answer, version, served)
        return None if answer is None else _converted(version, served, answer)

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes until the stream below ends."""
        served, version = await self._resolve(call.ref)
        async with self._inner.watch(structs.replace(call, ref=served)) as events:
            yield events if version.upgrade is _same else _upgraded(events, version, served, call.ref)

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """GET any path of the server and return the body.

        Raises:
            StatusError: the server refuses; 404 also if the transport below reads resources only.
        """
        if not isinstance(self._inner, RawTransport):
            raise failure(404, "NotFound", "the server could not find the requested resource")
        return await self._inner.get_raw(path, query)

    def served_kind(self, gvk: GroupVersionKind) -> GroupVersionKind:
        """Return the kind in the served version; unchanged before the first call on it has found that version."""
        return self._served_kinds.get(gvk, gvk)

    def transport_of(self, ref: ResourceRef[KubeObject]) -> Transport:
        """Return this transport, or the one below if the kind needs no conversion."""
        key = (ref.group, ref.version, ref.resource)
        return self._inner if key in self._as_they_are or key not in self._older else self

    async def close(self) -> None:
        """Close the connections of the transport below."""
        await self._inner.close()

    async def _resolve(self, ref: ResourceRef[KubeObject]) -> tuple[ResourceRef[KubeObject], OlderVersion]:
        """Return the served version. If there is none, return the newest one: the call on it then fails with 404."""
        known = self._served.get(ref)
        if known is not None:
            return known
        newest = OlderVersion(ref.version, ref.type)
        older = self._older.get((ref.group, ref.version, ref.resource))
        if older is None:
            return ref, newest
        versions = (newest, *older)
        for version in versions:
            candidate = ResourceRef(
                ref.group,
                version.name,
                version.resource or ref.resource,
                version.kind or ref.kind,
                ref.namespaced,
                version.type,
            )
            if await self._is_served(candidate):
                if version is not newest:
                    _LOG.info("%s.%s: the server has %s, not %s", ref.resource, ref.group, version.name, ref.version)
                else:
                    # Later clients skip this transport altogether (`transport_of`): on a new server it would only add a
                    # call to each request.
                    self._as_they_are.add((ref.group, ref.version, ref.resource))
                self._missing.discard(ref)
                self._served[ref] = (candidate, version)
                kind = GroupVersionKind(ref.group, ref.version, ref.kind)
                self._served_kinds[kind] = GroupVersionKind(candidate.group, candidate.version, candidate.kind)
                return candidate, version
        # Logged once; informers try again every few seconds.
        if ref not in self._missing:
            self._missing.add(ref)
            names = ", ".join(version.name for version in versions)
            _LOG.info(
                "%s.%s is served in none of %s, and counted as empty until the API server is given one of them by "
                "--runtime-config %s/VERSION=true",
                ref.resource,
                ref.group,
                names,
                ref.group,
            )
        return ref, newest

    async def _is_served(self, ref: ResourceRef[KubeObject]) -> bool:
        try:
            await self._inner.call(APICall("list", ref, selection=_PROBE))
        except StatusError as error:
            # Without the right to list, the call itself finds out whether the version exists.
            return not error.is_not_found
        return True


def _before(versions: Sequence[OlderVersion], others: Sequence[OlderVersion]) -> Sequence[OlderVersion]:
    """Return ``versions``, then those of ``others`` that have other names."""
    names = {version.name for version in versions}
    return (*versions, *(other for other in others if other.name not in names))


def _body(call: APICall, served: ResourceRef[KubeObject], version: OlderVersion) -> Any:
    """Return the body of a call in the version that the server has."""
    if call.verb in ("create", "update"):
        return version.downgrade(call.body)
    if call.patch_type is PatchType.APPLY:
        gvk = GroupVersionKind(served.group, served.version, served.kind)
        return {**call.body, "apiVersion": gvk.api_version, "kind": gvk.kind}
    return call.body


def _upgraded_page(page: Page[Any], version: OlderVersion, served: ResourceRef[KubeObject]) -> Page[Any]:
    """Convert each item; an item that cannot be converted counts as undecodable."""
    undecodable = list(page.undecodable)
    items: list[Any] = []
    for item in page.items:
        try:
            items.append(version.upgrade(item))
        except CONVERSION_FAULTS as error:
            undecodable.append(_unconvertible(served, item, error))
    return structs.replace(page, items=tuple(items), undecodable=tuple(undecodable))


def _converted(version: OlderVersion, served: ResourceRef[KubeObject], obj: Any) -> Any:
    """Return the object in the newest version.

    Raises:
        UndecodableObject: it cannot be converted.
    """
    try:
        return version.upgrade(obj)
    except CONVERSION_FAULTS as error:
        raise UndecodableObject(_unconvertible(served, obj, error)) from error


async def _upgraded(
    events: AsyncIterator[WatchEvent[KubeObject]],
    version: OlderVersion,
    served: ResourceRef[KubeObject],
    ref: ResourceRef[T],
) -> AsyncIterator[WatchEvent[T]]:
    async for event in events:
        # Passed on as undecodable. Dropping the event would leave the old state in the informer's store.
        if event.undecodable is not None:
            yield undecodable_event(ref.type, event.type, event.undecodable, event.object.metadata.resource_version)
            continue
        unchanged = event.type is EventType.BOOKMARK
        try:
            shown: T = _same(event.object) if unchanged else version.upgrade(event.object)
        except CONVERSION_FAULTS as error:
            yield undecodable_event(ref.type, event.type, _unconvertible(served, event.object, error))
            continue
        yield WatchEvent(event.type, shown)


def _unconvertible(served: ResourceRef[KubeObject], obj: KubeObject, error: Exception) -> Undecodable:
    """Return the description of an object that cannot be converted to the newest version."""
    body = encode(obj)
    return structs.replace(identify(served.kind, body, error), problem=f"from {served.version}: {error}")
