"""Reading of a running cluster: Kubernetes 1.32 and later, or Cathedra.

Every kind is read in the newest version that both sides have, page by page, by the same reader as a dump: unknown
fields of newer releases are noted rather than lost. Kinds that the server does not have, and kinds that may not be
read, become notes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.nesting import WRAPPED_DEPTH, load_json
from cathedra.api.status import StatusError
from cathedra.api.struct import reshape
from cathedra.api.undecodable import FAULTS, Undecodable, readable
from cathedra.client.client import Client
from cathedra.client.transport import RawTransport, ResourceRef
from cathedra.insight.reading.dumps import DumpReader, definition_of
from cathedra.insight.reading.features import NO_GATES, RequestedRelease, live_gates, reported_gates
from cathedra.insight.reading.state import (
    READ_KINDS,
    ClusterState,
    Note,
    ReadKind,
    note_on,
    read_kind,
    with_one_device_note,
)
from cathedra.releases import DEFAULT_RELEASE, FeatureGates
from cathedra.releases.table import nearest_release

__all__ = ["RawTransport", "ServerFeatures", "read_client", "read_features", "read_live", "served_refs"]

PAGE: Final = 500
"""Objects per page, as in kubectl."""


async def read_live(
    transport: RawTransport,
    *,
    source: str,
    now: float,
    namespace: str = "",
    release: str = "",
    feature_gates: Mapping[str, bool] = NO_GATES,
) -> ClusterState:
    """Return the state of the cluster behind ``transport``.

    If namespaced objects may not be listed in the whole cluster, those of ``namespace`` are. ``release`` is the version
    whose defaults apply; by default the server's own. ``feature_gates`` win over those that the server reports.

    Raises:
        ConnectionError: the server cannot be reached.
        StatusError: the request is not authenticated, or the server fails.
        InvalidInput: it answers something else than Kubernetes does.
        UnknownGate: the release or a gate is not known.
    """
    reading = _Reading(transport, namespace)
    # The first request is made alone, so that an unreachable server is reported once.
    running = await reading.release()
    requested = RequestedRelease(release or running, feature_gates)
    FeatureGates.for_release(requested.release, requested.gates)  # an unknown gate is refused before anything is read
    async with asyncio.TaskGroup() as group:
        # Kinds are read concurrently: a remote server takes the time of the slowest instead of the sum.
        reads = [group.create_task(reading.read(kind)) for kind in READ_KINDS]
        reports = group.create_task(reading.reported_gates())
    reader, unknown = _decoded([task.result() for task in reads], source)
    reported, problem = reports.result()
    served = reading.served
    if requested.release != running:
        # The cluster as another release would have it: gates and versions are those of that release.
        reported, served, problem = {}, {}, f"it is of {running}"
    gates, assumed = live_gates(requested, reading.resources, reported, problem)
    state = ClusterState.of(reader.objects, source, gates=gates, served=served)
    undecodable = tuple(reader.undecodable)
    notes = (*with_one_device_note(reader.notes, source), *assumed)
    return replace(state, notes=notes, unknown=frozenset(unknown), now=now, undecodable=undecodable)


def _decoded(
    answers: Iterable[tuple[Iterable[Any], Note | None]], source: str
) -> tuple[DumpReader, set[type[KubeObject]]]:
    """Return a reader with the objects of all answers, and the kinds that could not be listed."""
    # A server may be newer than any known release: unknown fields become notes.
    reader = DumpReader()
    reader.sources.append(source)
    unknown: set[type[KubeObject]] = set()
    # In the order of the kinds, not of the responses, so that notes and objects have a stable order.
    for kind, (items, note) in zip(READ_KINDS, answers, strict=True):
        if note is not None:
            unknown.add(kind.ref.type)
            reader.notes.append(note)
        for item in items:
            reader.add(item)
    return reader, unknown


class ServerFeatures(msgspec.Struct, frozen=True):
    """Release, gates and kinds of a server, without its objects."""

    gates: FeatureGates
    """Its release and feature gates."""
    kinds: tuple[ReadKind, ...]
    """The kinds that it has."""
    notes: tuple[Note, ...] = ()
    """Notes on what was assumed."""
    served: Mapping[str, bool] = msgspec.field(default_factory=dict)


async def read_features(client: Client, requested: RequestedRelease) -> ServerFeatures:
    """Return release, feature gates and kinds of the server that ``client`` uses; ``requested`` wins over them.

    Raises:
        ConnectionError: the server cannot be reached.
        StatusError: the request is not authenticated, or the server fails.
        InvalidInput: it answers something else than Kubernetes does.
        UnknownGate: the release or a gate is not known.
    """
    reading = _Reading(_ClientReader(client), "")
    try:
        running = await reading.release()
    except StatusError as error:
        if not error.is_not_found:
            raise
        # A session over a socket of this machine reads resources only. Its server is of this program.
        release = requested.release or DEFAULT_RELEASE
        gates = FeatureGates.for_release(release, requested.gates)
        return ServerFeatures(gates, tuple(kind for kind in READ_KINDS if _has(gates, kind)))
    wanted = RequestedRelease(requested.release or running, requested.gates)
    FeatureGates.for_release(wanted.release, wanted.gates)  # an unknown gate is refused before anything is read
    versions = [await reading._version(kind) for kind in READ_KINDS]
    reported, problem = await reading.reported_gates()
    if wanted.release != running:
        reported, problem = {}, f"it is of {running}"
    gates, assumed = live_gates(wanted, reading.resources, reported, problem)
    kinds = (kind for kind, version in zip(READ_KINDS, versions, strict=True) if version is not None)
    found = tuple(kind for kind in kinds if _has(gates, kind))
    return ServerFeatures(gates, found, assumed, reading.served)


def _has(gates: FeatureGates, kind: ReadKind) -> bool:
    return not kind.gate or bool(gates.get(kind.gate, False))


class _ClientReader:
    """The paths of a client's server, without parameters."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        return await self._client.read(path)


async def read_client(client: Client, *, source: str, gates: FeatureGates | None = None) -> ClusterState:
    """Return the state of the cluster that a client in this process uses; objects are shared with the server.

    ``gates`` are the cluster's; None: the defaults of the newest release.

    Raises:
        StatusError: the client may not read it.
    """
    objects: list[Any] = []
    undecodable: list[Undecodable] = []
    gates = gates or FeatureGates.for_release()
    for kind in READ_KINDS:
        if kind.gate and not gates.get(kind.gate, False):
            continue
        try:
            page = await client.resource(kind.ref).list()
            # Within the process the server passes its own type of a PodGroup, which has the same fields.
            wanted = kind.ref.type
            objects.extend(one if type(one) is wanted else reshape(one, wanted) for one in page.items)
            undecodable.extend(page.undecodable)
        except StatusError as error:
            if not error.is_not_found:
                raise
    notes = tuple(map(note_on, undecodable))
    return ClusterState.of(
        objects, source, gates=gates, notes=notes, now=client.clock.now(), undecodable=tuple(undecodable)
    )


async def served_refs(transport: RawTransport, kinds: Sequence[type[KubeObject]]) -> Sequence[ResourceRef[KubeObject]]:
    """Return the resources of some kinds in the versions that the server has, for watching; those it lacks are
    left out.

    Raises:
        StatusError: the server refuses the request.
    """
    reading = _Reading(transport, "")
    found: list[ResourceRef[KubeObject]] = []
    for kind in map(read_kind, kinds):
        version = await reading._version(kind)
        definition = definition_of(kind.ref.group, kind.ref.kind)
        if version is None or definition is None:
            continue
        struct = definition.version(version).type
        ref = kind.ref
        found.append(ResourceRef(ref.group, version, ref.resource, ref.kind, ref.namespaced, struct))
    return found


def _plain(body: bytes) -> Any:
    """Return the values of a response. If decoding fails, what no decoder accepts is replaced or left out, so that one
    such object of many does not hide the others.

    Raises:
        msgspec.DecodeError: it is no JSON.
    """
    try:
        return load_json(body, WRAPPED_DEPTH)
    except FAULTS:
        return load_json(readable(body), WRAPPED_DEPTH)


class _Reading:
    def __init__(self, transport: RawTransport, namespace: str) -> None:
        self.transport, self.namespace = transport, namespace
        self.resources: set[str] = set()
        """Resources of kinds with several versions that the server has."""
        self.served: dict[str, bool] = {}
        """``group/version`` → whether the server has it, of groups with such kinds."""
        self._discovered: dict[str, asyncio.Task[frozenset[str] | None]] = {}

    async def release(self) -> str:
        """Return the known release that is nearest to the server's; the default release if its version cannot be
        parsed."""
        version = await self._get("/version")
        return nearest_release(str(version.get("gitVersion", ""))) or DEFAULT_RELEASE

    async def reported_gates(self) -> tuple[Mapping[str, bool], str]:
        """Return the feature gates that the server reports, or none and the reason."""
        try:
            found = reported_gates(await self.transport.get_raw("/metrics"))
        except StatusError as error:
            return {}, f"/metrics: {error.status.reason or error.status.code}"
        return found, "" if found else "/metrics has none"

    async def read(self, kind: ReadKind) -> tuple[Sequence[Mapping[str, Any]], Note | None]:
        """Return the objects of a kind as plain values, and a note on what could not be read, or None."""
        version = await self._version(kind)
        if version is None:
            return (), self._note(kind, "not served", "the server has no {}") if kind.consequence else None
        prefix = f"/apis/{kind.ref.group}/{version}" if kind.ref.group else f"/api/{version}"
        try:
            return await self._list(f"{prefix}/{kind.plural}", kind, version), None
        except StatusError as error:
            if error.status.code not in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
                raise
            if error.is_not_found:
                return (), self._note(kind, "not served", "the server has no {}") if kind.consequence else None
        if kind.ref.namespaced and self.namespace:
            try:
                items = await self._list(f"{prefix}/namespaces/{self.namespace}/{kind.plural}", kind, version)
            except StatusError as error:
                if error.status.code != HTTPStatus.FORBIDDEN:
                    raise
            else:
                return items, self._note(kind, "partial", f"you may read {{}} of namespace {self.namespace} only")
        return (), self._note(kind, "forbidden", "you may not read {} (kubectl dra rights prints the role to ask for)")

    def _note(self, kind: ReadKind, problem: str, text: str) -> Note:
        said = text.format(kind.plural)
        return Note(kind.plural, problem, f"{said}: {kind.consequence}" if kind.consequence else said)

    async def _version(self, kind: ReadKind) -> str | None:
        """Return the newest version of the kind that both sides have."""
        definition = definition_of(kind.ref.group, kind.ref.kind)
        known = [version.name for version in definition.versions] if definition is not None else [kind.ref.version]
        # No request is spent on a kind that has only one version.
        if len(known) == 1:
            return known[0]
        # All versions are looked up, not only down to the first that is served: simulations serve the same.
        found = [await self._discover(f"{kind.ref.group}/{version}") for version in known]
        for version, plurals in zip(known, found, strict=True):
            if plurals is None:
                return version
            if kind.plural in plurals:
                self.resources.add(kind.plural)
                return version
        return None

    async def _discover(self, group_version: str) -> frozenset[str] | None:
        """Return the resources of a version, or None if they may not be read."""
        # One request for all kinds of a group, which are read concurrently.
        if group_version not in self._discovered:
            self._discovered[group_version] = asyncio.create_task(self._read_discovery(group_version))
        return await self._discovered[group_version]

    async def _read_discovery(self, group_version: str) -> frozenset[str] | None:
        try:
            answer = await self._get(f"/apis/{group_version}")
        except StatusError as error:
            if error.is_not_found:
                self.served[group_version] = False
                return frozenset()
            if error.status.code == HTTPStatus.FORBIDDEN:
                return None
            raise
        self.served[group_version] = True
        return frozenset(str(one.get("name")) for one in answer.get("resources") or ())

    async def _list(self, path: str, kind: ReadKind, version: str) -> list[Mapping[str, Any]]:
        items: list[Mapping[str, Any]] = []
        api_version = f"{kind.ref.group}/{version}" if kind.ref.group else version
        query = {"limit": str(PAGE)}
        while True:
            try:
                answer = await self._get(path, query)
            except StatusError as error:
                if error.status.code != HTTPStatus.GONE or "continue" not in query:
                    raise
                # The list changed for too long to be read page by page.
                items, query = [], {}
                continue
            # Go writes an empty list as null.
            found = answer.get("items") or ()
            # Items of a list have neither, as in every answer of Kubernetes.
            known = {"kind": kind.ref.kind, "apiVersion": api_version}
            items.extend({**known, **item} for item in found if isinstance(item, Mapping))
            more = (answer.get("metadata") or {}).get("continue")
            if not more:
                return items
            query = {"limit": str(PAGE), "continue": str(more)}

    async def _get(self, path: str, query: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        body = await self.transport.get_raw(path, query)
        try:
            answer = _plain(body)
        except FAULTS as error:
            raise InvalidInput(f"{path}: the server answers no JSON: {error}") from error
        if not isinstance(answer, Mapping):
            raise InvalidInput(f"{path}: the server answers something else than Kubernetes does")
        return answer
