"""One client, several servers on one store: a write that one has acknowledged holds for every later request to another.

Each server receives the others' writes a moment later. A read of the latest state therefore waits until this server has
caught up. A write does not, because the store compares the state that it was made from: a refused request is carried
out again when this server has caught up, as kube-apiserver's ``GuaranteedUpdate`` does with its cached state. What
admission allowed by an older policy, quota or namespace stays allowed, as in kube-apiserver, where admission reads
informers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from cathedra.api.protobuf import has_message
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.subresources.dispatch import is_compared
from cathedra.apiserver.verbs import read

_READS: Final = frozenset({"get", "list", "watch"})
_BY_STATE: Final = frozenset({400, 401, 403, 404, 405, 409, 422})
"""The statuses of refusals that a newer state may take back. Of the others, 429 has to do with seats, and 413 leaves a
body unread."""
_DESCRIBED: Final = ("/api", "/openapi/")
"""Paths of the documents that list the resources that are served."""


class HasStatus(Protocol):
    """The outcome of a request."""

    @property
    def status(self) -> int:
        """The HTTP status of the outcome."""


R = TypeVar("R", bound=HasStatus | None)
T = TypeVar("T")


async def carried_out(registry: Registry, record: RequestRecord, attempt: Callable[[], Awaitable[R]]) -> R:
    """Carry out a request by a state that contains every write that was acknowledged before it.

    ``attempt`` returns an outcome, or None if the answer went out as a stream.

    Raises:
        StatusError: the request was refused; 503 or 504, a shared store does not answer.
    """
    if needs_latest(record, registry):
        await registry.catch_up()
        return await attempt()
    # Read before the attempt: a write that arrives during it may be the reason why it was refused.
    began = registry.revision
    try:
        outcome = await attempt()
    except StatusError as error:
        # Most refusals are right. The question costs one round trip to the store, and only refused requests pay for it.
        if error.code not in _BY_STATE or not await has_moved(registry, began):
            raise
    else:
        if outcome is None or outcome.status not in _BY_STATE or not await has_moved(registry, began):
            return outcome
    # They describe the first attempt, which has left nothing behind.
    record.annotations.clear()
    record.warnings.clear()
    return await attempt()


async def judged_again(registry: Registry, attempt: Callable[[], Awaitable[T]]) -> T:
    """Carry out a write within the process; once more if other servers have written since the state that refused it.

    Raises:
        StatusError: the write was refused; 503 or 504, a shared store does not answer.
    """
    began = registry.revision
    try:
        return await attempt()
    except StatusError as error:
        if error.code not in _BY_STATE or not await has_moved(registry, began):
            raise
    return await attempt()


def needs_latest(record: RequestRecord, registry: Registry) -> bool:
    """Return True if a request has to wait for what other servers on the same store have acknowledged."""
    info = record.info
    if not info.is_resource:
        return info.path.startswith(_DESCRIBED)
    if info.verb not in _READS:
        if info.connecting or record.upgrades:
            return True  # what is passed on to another server is passed on once
        resource = GroupResource(info.group, info.resource)
        if not is_compared(info.verb, resource, info.subresource):
            return True
        table = registry.by_resource.get(resource) if info.verb == "create" else None
        # An instance whose definition was just deleted would stay in the store: nothing compares the definition.
        return table is not None and not has_message(table.definition.type)
    return read.needs_latest(record.resource_version, registry.revision)


async def has_moved(registry: Registry, since: int) -> bool:
    """Catch up, and return True if other servers have acknowledged anything that was not here at a revision. If they
    have not, a refusal by the state at that revision was right.

    Raises:
        StatusError: 503 or 504, a shared store does not answer.
    """
    if not registry.shared:
        return False
    await registry.catch_up()
    return registry.revision > since
