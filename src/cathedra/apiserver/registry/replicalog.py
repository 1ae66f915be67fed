"""The commit log of a replica: another API server numbers and keeps the writes, and this one follows it at once.

What this process writes it enters when the primary has settled it, with the object that it has at hand; what others
write comes as it is stored. Both come in the order of their revisions, so a table never shows a later write first.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from cathedra.api.core.meta_v1 import KubeObject, StatusDetails
from cathedra.api.status import failure
from cathedra.api.struct import encode, replace
from cathedra.apiserver.registry.commitlog import WriteConflict
from cathedra.apiserver.registry.layout import check_size
from cathedra.apiserver.registry.sharedcommitlog import refusal
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table, wake
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.primary.messages import Change
from cathedra.apiserver.storage.primary.store import Outcome, PrimaryStore, ResourceUnserved
from cathedra.apiserver.storage.protocol import Record, StorageError, StoreUnavailable, Superseded

__all__ = ["ReplicaLog"]

LOG: Final = logging.getLogger(__name__)
_UNNUMBERED: Final = "0"
_PLACE: Final = b'"resourceVersion":"0"'
"""What stands where the primary writes the resource version. It is the first in an object: what comes before it in
metadata are texts, in which quotation marks are escaped."""
_BEFORE: Final = b'"resourceVersion":"'


class ReplicaLog:
    """Writes of one process, which the primary numbers. They end with a StatusError if the store fails (500, 503, 504),
    or if their resource has gone (404)."""

    def __init__(self, storage: PrimaryStore, tables: Tables) -> None:
        self._storage = storage
        self._tables = tables
        self._settled = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of all writes; to ask which one runs is a system call."""

    @property
    def revision(self) -> int:
        """The revision of the last write that was seen."""
        return self._settled

    @property
    def healthy(self) -> bool:
        """Whether the primary is there."""
        return self._storage.healthy

    async def load(self) -> None:
        """Read everything and begin to follow.

        Raises:
            StorageError: it cannot be read.
        """
        self._loop = asyncio.get_running_loop()
        content = await self._storage.load()
        self._settled = content.revision
        self._tables.load(content)
        self._storage.follow(self._enter)

    async def catch_up(self) -> None:
        """Wait until everything that any server acknowledged before this call is here.

        Raises:
            StatusError: 503, the primary has gone.
        """
        try:
            self._settled = max(self._settled, await self._storage.latest())
        except StoreUnavailable as error:
            raise refusal(error) from error

    def put(
        self, table: Table, key: str, previous: StoredObject | None, obj: KubeObject
    ) -> asyncio.Future[StoredObject]:
        """Write a new state. Ends with WriteConflict if another server was faster.

        Raises:
            StatusError: 500, it is too large.
        """
        body = encode(replace(obj, metadata=replace(obj.metadata, resource_version=_UNNUMBERED)))
        check_size(body)
        return self._forward(table, key, previous, obj, body)

    def remove(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Remove an object. Ends with WriteConflict if another server was faster."""
        body = encode(replace(last, metadata=replace(last.metadata, resource_version=_UNNUMBERED)))
        return self._forward(table, previous.key, previous, last, body, removal=True)

    def end(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Write a last state and remove the object. Ends with WriteConflict if another server was faster."""
        body = encode(replace(last, metadata=replace(last.metadata, resource_version=_UNNUMBERED)))
        return self._forward(table, previous.key, previous, last, body, removal=True, shown=True)

    async def close(self) -> None:
        """Let go of the primary."""
        await self._storage.close()

    def _forward(
        self,
        table: Table,
        key: str,
        previous: StoredObject | None,
        obj: Any,
        body: bytes,
        *,
        removal: bool = False,
        shown: bool = False,
    ) -> asyncio.Future[StoredObject]:
        done: asyncio.Future[StoredObject] = asyncio.Future(loop=self._loop)
        head, _, tail = body.partition(_PLACE)
        head, tail = head + _BEFORE, b'"' + tail

        def settled(outcome: Outcome) -> None:
            result: StoredObject | Exception
            if isinstance(outcome, int):
                stamped = replace(obj, metadata=replace(obj.metadata, resource_version=str(outcome)))
                bodies = {} if removal else {table.definition.type: b"%b%d%b" % (head, outcome, tail)}
                result = StoredObject(key, stamped, outcome, bodies)
                # A last state that is shown has come before, as a write of another server.
                before = table.get(key) if shown else previous
                self._apply(table, StoredChange(outcome, result, before, deleted=removal))
            else:
                result = _failure(key, outcome)
            if waiting := table.under_way.pop(key, None):
                wake(waiting)
            if done.done():
                return  # the caller was cancelled meanwhile and asks no more
            if isinstance(result, StoredObject):
                done.set_result(result)
            else:
                done.set_exception(result)

        expected = previous.revision if previous is not None else 0
        self._storage.forward(table.stored_under + key, expected, (head, tail), settled, removal=removal, shown=shown)
        return done

    def _apply(self, table: Table, change: StoredChange) -> None:
        self._settled = change.revision
        table.apply(change)

    def _enter(self, change: Change) -> None:
        """Take over a write of another server."""
        located = self._tables.locate(change.key)
        if located is None:
            self._settled = change.revision
            kept = None if change.removal else Record(change.key, change.revision, change.body)
            self._tables.set_aside(change.key, kept)
            return
        table, key = located
        previous = table.get(key)
        try:
            entry = self._tables.later(table, key, change.revision, change.body, previous)
        except StorageError as error:
            LOG.error("passed over: %s", error)
            return
        if previous is not None or not change.removal:
            self._apply(table, StoredChange(change.revision, entry, previous, deleted=change.removal))


def _failure(key: str, outcome: Superseded | StorageError) -> Exception:
    if isinstance(outcome, Superseded):
        return WriteConflict(key)
    if isinstance(outcome, ResourceUnserved):
        return failure(404, "NotFound", "the server could not find the requested resource", StatusDetails())
    return refusal(outcome)
