"""Rights of readers, by SubjectAccessReviews of the API server, and states without what they may not read.

An answer needs the right to list what it is computed from: nodes, slices, classes and taint rules of the cluster, and
pods and claims of the namespace that is named. Everything else in it is left out, or shown without names, where the
reader may not list it. Reviews are kept for `KEPT_SECONDS`, so a right that is taken away counts for no longer.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.core.authorization_v1 import ResourceAttributes
from cathedra.api.core.core_v1 import Container, Node, Pod, PodSpec, PodStatus
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.goquote import go_quote
from cathedra.api.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceSlice,
)
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.reviews import AccessReviews, ExpiringCache, user_key
from cathedra.clock import Clock
from cathedra.insight.inventory.usage import HIDDEN_NAMESPACE
from cathedra.insight.reading.state import ClusterState, Key, Note, ReadKind, read_kind
from cathedra.semantics.pods import is_terminal

KEPT_SECONDS: Final = 10.0
"""Time for which the outcome of a review is used."""
_MOST_KEPT: Final = 65536
_AT_ONCE: Final = 16
"""Reviews that are requested at the same time."""
MOST_NAMESPACES: Final = 256
"""Namespaces that are reviewed for one reader; others are hidden."""
BASIS: Final = (Node, ResourceSlice, DeviceClass, DeviceTaintRule)
"""Kinds of which an answer without some objects would be wrong."""
_HOLDERS: Final = (Pod, ResourceClaim)


@dataclass(frozen=True, slots=True)
class Access:
    """The right to list a kind in a namespace, or in all of them ("")."""

    kind: type[KubeObject]
    namespace: str = ""

    @property
    def known(self) -> ReadKind:
        """The entry of the kind."""
        return read_kind(self.kind)


class ReaderRights:
    """The rights of all readers."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._reviews = AccessReviews(client)
        self._known: ExpiringCache[object, bool] = ExpiringCache(clock, _MOST_KEPT)
        self._limit = asyncio.Semaphore(_AT_ONCE)

    async def require(self, user: UserInfo, wanted: Iterable[Access]) -> None:
        """Check that a user has all of these rights.

        Raises:
            StatusError: 403, one is missing, which the message names; or the server refuses the review.
            ConnectionError: the API server does not answer.
        """
        wanted = tuple(wanted)
        found = await asyncio.gather(*(self._allows_anywhere(user, one) for one in wanted))
        for one, allowed in zip(wanted, found, strict=True):
            if not allowed:
                raise _refusal(user, one)

    async def visibility(self, user: UserInfo, state: ClusterState, first: Iterable[str] = ()) -> Visibility:
        """Return the objects of a state that a user may list. The namespaces in ``first`` are reviewed in any case.

        Raises:
            StatusError: the server refuses a review.
            ConnectionError: the API server does not answer.
        """
        used = sorted({key[0] for kind in _HOLDERS for key in state.objects.get(kind, {})})
        namespaces = tuple(dict.fromkeys((*first, *used)))[:MOST_NAMESPACES]
        everywhere = await asyncio.gather(*(self._allows(user, Access(kind)) for kind in _HOLDERS))
        shown: frozenset[str] | None = None
        if not all(everywhere):
            allowed = await asyncio.gather(*(self._holders(user, name) for name in namespaces))
            shown = frozenset(name for name, may in zip(namespaces, allowed, strict=True) if may)
        kinds = [kind for kind in state.objects if kind not in _HOLDERS]
        found = await asyncio.gather(*(self._namespaces(user, kind, state, shown) for kind in kinds))
        return Visibility(shown, dict(zip(kinds, found, strict=True)))

    async def _holders(self, user: UserInfo, namespace: str) -> bool:
        found = await asyncio.gather(*(self._allows_anywhere(user, Access(kind, namespace)) for kind in _HOLDERS))
        return all(found)

    async def _namespaces(
        self, user: UserInfo, kind: type[KubeObject], state: ClusterState, shown: frozenset[str] | None
    ) -> frozenset[str] | None:
        """Return the namespaces in which a user may list a kind; None: all, or the kind has none."""
        if await self._allows(user, Access(kind)):
            return None
        if not read_kind(kind).ref.namespaced:
            return frozenset()
        used = sorted({key[0] for key in state.objects[kind] if shown is None or key[0] in shown})[:MOST_NAMESPACES]
        found = await asyncio.gather(*(self._allows(user, Access(kind, name)) for name in used))
        return frozenset(name for name, may in zip(used, found, strict=True) if may)

    async def _allows_anywhere(self, user: UserInfo, wanted: Access) -> bool:
        """Return True if a user has a right in its namespace or in all of them."""
        if wanted.namespace and await self._allows(user, Access(wanted.kind)):
            return True
        return await self._allows(user, wanted)

    async def _allows(self, user: UserInfo, wanted: Access) -> bool:
        key = (user_key(user), wanted)
        known = self._known.get(key)
        if known is not None:
            return known
        ref = wanted.known.ref
        attributes = ResourceAttributes(
            verb="list", group=ref.group, version=ref.version, resource=ref.resource, namespace=wanted.namespace
        )
        async with self._limit:
            allowed = await self._reviews.allows(user, attributes)
        self._known.put(key, allowed, KEPT_SECONDS)
        return allowed


def _refusal(user: UserInfo, wanted: Access) -> Exception:
    """Return the error of the API server for a list that is refused."""
    ref = wanted.known.ref
    where = f"in the namespace {go_quote(wanted.namespace)}" if wanted.namespace else "at the cluster scope"
    resource = GroupResource(ref.group, ref.resource)
    why = (
        f"User {go_quote(user.username)} cannot list resource {go_quote(ref.resource)} "
        f"in API group {go_quote(ref.group)} {where}"
    )
    return forbidden(resource, "", why)


# States without what a reader may not know: pods and claims of hidden namespaces have neither names nor contents.
#
# An answer is computed from such a state, so no text of any tool can name what is hidden. Devices that hidden claims
# hold count as held, and CPU and memory of hidden pods as used: otherwise every verdict would be wrong. Names are
# replaced by pseudonyms, which are the same in all answers of a process. Labels and affinity of hidden pods are left
# out, because a question with an affinity could find them out.

_CHARACTERS: Final = 12
"""Characters of a pseudonym: 48 bits, so that no two of 100,000 objects share one."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """The objects that a reader may list."""

    namespaces: frozenset[str] | None = None
    """Namespaces whose pods and claims may be listed; None: all."""
    kinds: Mapping[type[KubeObject], frozenset[str] | None] = field(default_factory=dict)
    """Kind → namespaces in which it may be listed, or None for all. Kinds that are absent may not be listed."""

    @property
    def key(self) -> object:
        """Identity of equal views, whose states can be shared."""
        return self.namespaces, frozenset(self.kinds.items())

    def shows(self, namespace: str) -> bool:
        """Return True if the pods and claims of a namespace may be listed."""
        return self.namespaces is None or namespace in self.namespaces


def visible_state(state: ClusterState, visibility: Visibility, secret: bytes) -> ClusterState:
    """Return the state as a reader may see it; pseudonyms are derived from ``secret``."""
    objects: dict[type[KubeObject], Mapping[Key, KubeObject]] = {}
    notes, unknown = list(state.notes), set(state.unknown)
    hiding = _Hiding(secret)
    for kind, items in state.objects.items():
        if kind in _HOLDERS:
            objects[kind] = items if visibility.namespaces is None else dict(hiding.seen(items, visibility.namespaces))
            continue
        allowed = visibility.kinds.get(kind, frozenset())
        if allowed is None:
            objects[kind] = items
            continue
        objects[kind] = {key: one for key, one in items.items() if key[0] in allowed}
        if not allowed and kind not in unknown:
            unknown.add(kind)
            notes.append(_forbidden(kind))
    undecodable = tuple(one for one in state.undecodable if not one.key[0] or visibility.shows(one.key[0]))
    return dataclasses.replace(
        state,
        objects=objects,
        notes=tuple(notes),
        unknown=frozenset(unknown),
        undecodable=undecodable,
        followed=None,
    )


def _forbidden(kind: type[KubeObject]) -> Note:
    known = read_kind(kind)
    text = f"you may not list {known.plural}"
    return Note(known.plural, "forbidden", f"{text}: {known.consequence}" if known.consequence else text)


class _Hiding:
    """Replaces objects, with the same pseudonyms wherever they refer to each other."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def seen(self, items: Mapping[Key, KubeObject], namespaces: frozenset[str]) -> Iterator[tuple[Key, KubeObject]]:
        for key, one in items.items():
            if key[0] in namespaces:
                yield key, one
            elif isinstance(one, ResourceClaim) and one.status.allocation is not None:
                hidden = self._claim(one)
                yield (HIDDEN_NAMESPACE, hidden.metadata.name), hidden
            elif (
                isinstance(one, Pod) and not is_terminal(one) and (one.spec.node_name or one.status.nominated_node_name)
            ):
                pod = self._pod(one)
                yield (HIDDEN_NAMESPACE, pod.metadata.name), pod

    def _name(self, kind: str, namespace: str, name: str) -> str:
        digest = hmac.digest(self._secret, f"{kind}/{namespace}/{name}".encode(), hashlib.sha256)
        return f"{kind}-{digest.hex()[:_CHARACTERS]}"

    def _metadata(self, kind: str, metadata: ObjectMeta) -> ObjectMeta:
        return ObjectMeta(
            name=self._name(kind, metadata.namespace, metadata.name),
            namespace=HIDDEN_NAMESPACE,
            uid=self._name("uid", "", metadata.uid),
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            resource_version=metadata.resource_version,
        )

    def _claim(self, claim: ResourceClaim) -> ResourceClaim:
        namespace, status = claim.metadata.namespace, claim.status
        assert status.allocation is not None, "a claim without devices is left out"
        requests = {one.name: f"request-{place}" for place, one in enumerate(claim.spec.devices.requests or ())}
        # Configuration is the owner's, and its parameters may be secrets.
        devices = replace(
            status.allocation.devices,
            config=(),
            results=tuple(
                replace(one, request=_renamed(one.request, requests)) for one in status.allocation.devices.results
            ),
        )
        users = tuple(
            replace(
                one,
                name=self._name("pod" if one.resource == "pods" else one.resource, namespace, one.name),
                uid=self._name("uid", "", one.uid),
            )
            for one in status.reserved_for
        )
        return ResourceClaim(
            metadata=self._metadata("claim", claim.metadata),
            spec=ResourceClaimSpec(
                devices=DeviceClaim(
                    requests=tuple(_bare(one, requests[one.name]) for one in claim.spec.devices.requests or ())
                )
            ),
            status=ResourceClaimStatus(
                allocation=replace(status.allocation, devices=devices),
                reserved_for=users,
            ),
        )

    def _pod(self, pod: Pod) -> Pod:
        spec, namespace = pod.spec, pod.metadata.namespace
        entries: list[Any] = []
        for place, one in enumerate(spec.resource_claims):
            made = next(
                (each.resource_claim_name for each in pod.status.resource_claim_statuses if each.name == one.name), ""
            )
            name = one.resource_claim_name or made
            if name:
                entries.append(
                    type(one)(name=f"claim-{place}", resource_claim_name=self._name("claim", namespace, name))
                )
        return Pod(
            metadata=self._metadata("pod", pod.metadata),
            spec=PodSpec(
                containers=tuple(_bare_container(one, place) for place, one in enumerate(spec.containers)),
                init_containers=tuple(_bare_container(one, place) for place, one in enumerate(spec.init_containers)),
                node_name=spec.node_name,
                host_network=spec.host_network,
                overhead=spec.overhead,
                resources=spec.resources,
                priority=spec.priority,
                preemption_policy=spec.preemption_policy,
                tolerations=spec.tolerations,
                termination_grace_period_seconds=spec.termination_grace_period_seconds,
                scheduler_name=spec.scheduler_name,
                resource_claims=tuple(entries),
            ),
            status=PodStatus(
                phase=pod.status.phase,
                conditions=tuple(type(one)(type=one.type, status=one.status) for one in pod.status.conditions),
                nominated_node_name=pod.status.nominated_node_name,
                start_time=pod.status.start_time,
            ),
        )


def _bare_container(one: Container, place: int) -> Container:
    """Return a container's share of its node: resources, and ports of the host."""
    ports = tuple(replace(port, name="") for port in one.ports if port.host_port)
    return Container(name=f"container-{place}", resources=one.resources, ports=ports, restart_policy=one.restart_policy)


def _bare(request: DeviceRequest, name: str) -> DeviceRequest:
    """Return a request with its classes and counts alone."""
    exactly = request.exactly
    if exactly is not None:
        exactly = replace(exactly, selectors=())
    alternatives = tuple(replace(one, selectors=()) for one in request.first_available)
    return replace(request, name=name, exactly=exactly, first_available=alternatives)


def _renamed(request: str, names: Mapping[str, str]) -> str:
    name, slash, alternative = request.partition("/")
    return f"{names.get(name, 'request')}{slash}{alternative}"
