"""Kinds that releases serve in different versions: the newest one that the server has is spoken, and converted.

Everything above works with the newest version of a kind. Before the first call on such a kind the server is asked which
version it serves; older objects become new ones on the way in, and old ones again on the way out. A kind that is served
in no version is said so in the log, once, and asked for again: it may be switched on while the client runs
(docs/spec/api.md §1.3).
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

__all__ = ["NegotiatedTransport", "OlderVersion", "OlderVersions"]

_LOG = logging.getLogger(__name__)
CONVERSION_FAULTS: Final = (ValueError, TypeError, LookupError, AttributeError)
"""Errors that the conversion of an odd object may raise; those of decoders are among them."""
_PROBE: Final = ListOptions(limit=1, probe=True)
"""Of the list that tests whether a version is served; a refusal is expected."""
T = TypeVar("T", bound=KubeObject)


def _same(obj: KubeObject) -> Any:
    return obj


class OlderVersion(msgspec.Struct, frozen=True):
    """A version that a server may have instead of the newest, and the way there and back."""

    name: str
    type: type[Any]
    upgrade: Callable[[Any], Any] = _same
    downgrade: Callable[[Any], Any] = _same
    resource: str = ""
    """The plural in this version, where it differs."""
    kind: str = ""


OlderVersions = Mapping[tuple[str, str, str], Sequence[OlderVersion]]
"""(group, newest version, resource) → older versions, newest first."""


def _of_devices(shapes: Shapes) -> Sequence[OlderVersion]:
    """The versions of a kind of resource.k8s.io before v1."""
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
    """A transport that speaks of each kind the version that the server has. Errors are those of the transport below.

    ``older`` says which kinds there are in versions that no later release has; they are tried before the others. Kinds
    of one version pass as they are.
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
        """GET any path of the server.

        Raises:
            StatusError: 404, also where the transport below reads resources alone.
        """
        if not isinstance(self._inner, RawTransport):
            raise failure(404, "NotFound", "the server could not find the requested resource")
        return await self._inner.get_raw(path, query)

    def served_kind(self, gvk: GroupVersionKind) -> GroupVersionKind:
        """The kind as the server has it, as far as that has been found out: by the first call about it."""
        return self._served_kinds.get(gvk, gvk)

    def transport_of(self, ref: ResourceRef[KubeObject]) -> Transport:
        """The way to the kind: this one, or the transport below where the kind has passed as it is, or always does."""
        key = (ref.group, ref.version, ref.resource)
        return self._inner if key in self._as_they_are or key not in self._older else self

    async def close(self) -> None:
        """Let go of connections."""
        await self._inner.close()

    async def _resolve(self, ref: ResourceRef[KubeObject]) -> tuple[ResourceRef[KubeObject], OlderVersion]:
        """The version that the server has; the newest, whose absence it will tell, if it has none."""
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
                    self._as_they_are.add((ref.group, ref.version, ref.resource))
                self._missing.discard(ref)
                self._served[ref] = (candidate, version)
                kind = GroupVersionKind(ref.group, ref.version, ref.kind)
                self._served_kinds[kind] = GroupVersionKind(candidate.group, candidate.version, candidate.kind)
                return candidate, version
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
            # Who may not list finds out whether the version is there with the call itself.
            return not error.is_not_found
        return True


def _before(versions: Sequence[OlderVersion], others: Sequence[OlderVersion]) -> Sequence[OlderVersion]:
    """Versions, and the others of other names."""
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
    """An object that could be decoded and does not become one of the newest version."""
    body = encode(obj)
    return structs.replace(identify(served.kind, body, error), problem=f"from {served.version}: {error}")
