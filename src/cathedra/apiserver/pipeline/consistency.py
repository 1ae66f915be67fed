"""One client, several servers on one store: a write that one has acknowledged holds for every later request to another.

Each server receives the others' writes a moment later. A read of the latest state therefore waits until this server has
caught up. On a store such as etcd a write does so too. On a replica it does not, because the primary compares the state
that the write was made from: a refused request is carried out again when this server has caught up, as kube-apiserver's
``GuaranteedUpdate`` does with its cached state. What admission allowed by an older policy, quota or namespace stays
allowed, as in kube-apiserver, where admission reads informers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.subresources.comparison import is_compared
from cathedra.apiserver.verbs import read

__all__ = ["Outcome", "carried_out", "may_be_outdated", "needs_latest"]

_READS: Final = frozenset({"get", "list", "watch"})
_BY_STATE: Final = frozenset({400, 401, 403, 404, 405, 409, 422})
"""The statuses of refusals that a newer state may take back. Of the others, 429 has to do with seats, and 413 leaves a
body unread."""
_DESCRIBED: Final = ("/api", "/openapi/")
"""Paths of the documents that list the resources that are served."""


class Outcome(Protocol):
    """What a request ended with."""

    @property
    def status(self) -> int:
        """The HTTP status."""


R = TypeVar("R", bound=Outcome | None)


async def carried_out(registry: Registry, record: RequestRecord, attempt: Callable[[], Awaitable[R]]) -> R:
    """Carry out a request by a state that contains every write that was acknowledged before it.

    ``attempt`` returns an outcome, or None if the answer went out as a stream.

    Raises:
        StatusError: the request was refused; 503 or 504, a shared store does not answer.
    """
    if needs_latest(record, registry):
        await registry.catch_up()
        return await attempt()
    began = registry.revision
    try:
        outcome = await attempt()
    except StatusError as error:
        if not (may_be_outdated(error.code) and await registry.has_moved(began)):
            raise
    else:
        if outcome is None or not (may_be_outdated(outcome.status) and await registry.has_moved(began)):
            return outcome
    record.annotations.clear()
    record.warnings.clear()
    return await attempt()


def needs_latest(record: RequestRecord, registry: Registry) -> bool:
    """Return True if a request has to wait for what other servers on the same store have acknowledged."""
    info = record.info
    if not info.is_resource:
        return info.path.startswith(_DESCRIBED)
    if info.verb not in _READS:
        if info.connecting or record.upgrades or not registry.lags:
            return True  # what is passed on to another server is passed on once
        return not is_compared(info.verb, GroupResource(info.group, info.resource), info.subresource)
    return read.needs_latest(record.resource_version, registry.revision)


def may_be_outdated(status: int) -> bool:
    """Return True if a newer state may take back a refusal with that status."""
    return status in _BY_STATE
