"""Rights of readers, by SubjectAccessReviews of the API server.

An answer needs the right to list what it is computed from: nodes, slices, classes and taint rules of the cluster, and
pods and claims of the namespace that is named. Everything else in it is left out, or shown without names, where the
reader may not list it. Reviews are kept for `KEPT_SECONDS`, so a right that is taken away counts for no longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.core.authorization_v1 import ResourceAttributes
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.goquote import go_quote
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.client.client import Client
from cathedra.client.reviews import AccessReviews, ExpiringCache
from cathedra.clock import Clock
from cathedra.insight.reading.state import ClusterState, ReadKind, read_kind
from cathedra.mcp.redaction import Visibility

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
        extra = tuple(sorted((name, tuple(values)) for name, values in (user.extra or {}).items()))
        key = (user.username, user.uid, user.groups, extra, wanted)
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
