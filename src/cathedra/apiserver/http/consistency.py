"""One client, several servers on one store: what one has acknowledged holds for every later request at another.

Each server hears of the others' writes a moment later. So a read that wants the latest state asks first how far the
store is. A write on a store such as etcd does so too; at a replica it does not, for the primary compares the state that
it was made from: what was refused is looked at again when this server has caught up, as kube-apiserver's
``GuaranteedUpdate`` does with its cached state. What admission let pass by an older policy or quota has passed, as in
kube-apiserver, where admission reads informers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.http.answers.response import Response
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.queryvalues import NumberError, parse_uint64
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.requestinfo import RequestInfo
from cathedra.apiserver.subresources.reviews import REVIEWS

__all__ = ["carried_out", "needs_latest"]

Attempt = Callable[[], Awaitable[Response | None]]
"""Carries out a request: an answer, or None if it went out as a stream already."""
_READS: Final = frozenset({"get", "list", "watch"})
_BY_STATE: Final = frozenset({400, 401, 403, 404, 405, 409, 422})
"""The statuses of refusals that a newer state may take back. Of the others, 429 has to do with seats, and 413 leaves a
body unread."""
_DESCRIBED: Final = ("/api", "/apis", "/openapi/")
"""Where the resources that are served are told of."""


async def carried_out(registry: Registry, request: Request, attempt: Attempt) -> Response | None:
    """The answer to a request, by a state in which everything is that was acknowledged before it.

    Raises:
        StatusError: 503 or 504, a shared store does not answer.
    """
    if needs_latest(request, registry):
        await registry.catch_up()
        return await attempt()
    began = registry.revision
    response = await attempt()
    if response is None or response.status not in _BY_STATE or not await registry.has_moved(began):
        return response
    request.record.annotations.clear()
    return await attempt()


def needs_latest(request: Request, registry: Registry) -> bool:
    """Whether a request has to wait for what other servers on the same store have acknowledged."""
    info = request.info
    if not info.is_resource:
        return info.path.startswith(_DESCRIBED)
    if info.verb not in _READS:
        return not registry.lags or info.connecting or _is_not_compared(info)
    version = request.parameter("resourceVersion")
    if not version:
        return True
    try:
        return parse_uint64(version) > registry.revision
    except NumberError:
        return False  # the verb itself says what is wrong with it


def _is_not_compared(info: RequestInfo) -> bool:
    """Whether what is written is not the object itself that is named, so that no comparison would find the state too
    old: all that are in a collection, what a budget allows, or nothing at all."""
    if info.verb == "deletecollection" or info.subresource in {"eviction", "token"}:
        return True
    return GroupResource(info.group, info.resource) in REVIEWS
