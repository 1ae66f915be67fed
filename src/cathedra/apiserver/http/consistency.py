"""One client, several servers on one store: what one has acknowledged holds for every later request at another.

Each server hears of the others' writes a moment later. So a read that wants the latest state asks first how far the
store is. A write on a store such as etcd does so too; at a replica it does not, for the primary compares the state that
it was made from: what was refused is looked at again when this server has caught up, as kube-apiserver's
``GuaranteedUpdate`` does with its cached state. What admission let pass by an older policy, quota or namespace has
passed, as in kube-apiserver, where admission reads informers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.apiserver.http.answers.response import Response
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.subresources.comparison import is_compared
from cathedra.apiserver.verbs import read
from cathedra.asgi.application import Send
from cathedra.asgi.upgrade import UPGRADE

__all__ = ["carried_out", "may_be_outdated", "needs_latest"]

Attempt = Callable[[Request, Send], Awaitable[Response | None]]
"""Carries out a request: an answer, or None if it went out as a stream already."""
_READS: Final = frozenset({"get", "list", "watch"})
_BY_STATE: Final = frozenset({400, 401, 403, 404, 405, 409, 422})
"""The statuses of refusals that a newer state may take back. Of the others, 429 has to do with seats, and 413 leaves a
body unread."""
_DESCRIBED: Final = ("/api", "/openapi/")
"""Where the resources that are served are told of."""


async def carried_out(registry: Registry, request: Request, send: Send, attempt: Attempt) -> Response | None:
    """The answer to a request, by a state in which everything is that was acknowledged before it.

    Raises:
        StatusError: the request was refused; 503 or 504, a shared store does not answer.
    """
    if needs_latest(request, registry):
        await registry.catch_up()
        return await attempt(request, send)
    began = registry.revision
    try:
        response = await attempt(request, send)
    except StatusError as error:
        if not (may_be_outdated(error.code) and await registry.has_moved(began)):
            raise
    else:
        if response is None or not (may_be_outdated(response.status) and await registry.has_moved(began)):
            return response
    request.record.annotations.clear()
    return await attempt(request, send)


def needs_latest(request: Request, registry: Registry) -> bool:
    """Whether a request has to wait for what other servers on the same store have acknowledged."""
    info = request.info
    if not info.is_resource:
        return info.path.startswith(_DESCRIBED)
    if info.verb not in _READS:
        if info.connecting or UPGRADE in request.extensions or not registry.lags:
            return True  # what is passed on is passed on once
        return not is_compared(info.verb, GroupResource(info.group, info.resource), info.subresource)
    return read.needs_latest(request.parameter("resourceVersion"), registry.revision)


def may_be_outdated(status: int) -> bool:
    """Whether a newer state may take back a refusal with that status."""
    return status in _BY_STATE
