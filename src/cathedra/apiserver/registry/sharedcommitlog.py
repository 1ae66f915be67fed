"""Commit log of a store that several servers share: etcd, or the store of another server of the cluster.

The store assigns revisions, and this process follows it: tables change only by what comes back on the watch, whichever
server wrote it. A write is acknowledged when it has come back, so a client that wrote here reads here what it wrote.
What other servers acknowledged is here after `catch_up`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from cathedra.api.core.meta_v1 import KubeObject, StatusDetails
from cathedra.api.status import StatusError, failure, internal_error, timeout
from cathedra.apiserver.registry.commitlog import WriteConflict
from cathedra.apiserver.registry.layout import check_size, stamped
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.protocol import (
    HistoryLost,
    SharedStorage,
    StorageError,
    StoreProgress,
    StoreUnavailable,
    Superseded,
    Write,
)

__all__ = ["SharedCommitLog", "refusal"]

LOG: Final = logging.getLogger(__name__)
NUDGE_SECONDS: Final = 0.02
"""Time that events may be on their way before the store is made to report its revision on the watch."""
WAIT_SECONDS: Final = 5.0
"""Time that a request waits for this server to catch up."""
RELOAD_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 2.0
RETRY_AFTER: Final = 1


class SharedCommitLog:
    """Writes of many servers, numbered by the store.

    Writes and `catch_up` fail with a StatusError: 503 when the store cannot be reached, 504 when it cannot be known
    whether the write was kept, 500 when the store refuses.
    """

    def __init__(self, storage: SharedStorage, tables: Tables) -> None:
        self._storage = storage
        self._tables = tables
        self._settled = 0
        self._compacted = 0
        self._lost = False
        self._own: dict[str, tuple[bytes | None, Any]] = {}
        """By storage key: value and object of this server's write that is under way. They need not be decoded when
        they come back."""
        self._waiting: dict[asyncio.Future[None], int] = {}
        """Future → the revision that it waits for."""
        self._asking: asyncio.Task[None] | None = None
        self._unasked: list[asyncio.Future[int]] = []
        """Callers of `catch_up` that the question under way does not answer."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._following: asyncio.Task[None] | None = None

    @property
    def revision(self) -> int:
        """The revision up to which this server has seen everything."""
        return self._settled

    @property
    def healthy(self) -> bool:
        """Return True if the store answers and this server follows it."""
        following = self._following is not None and not self._following.done()
        return following and self._storage.healthy and not self._lost

    async def load(self) -> None:
        """Read everything and begin to follow.

        Raises:
            StorageError: the store cannot be read.
        """
        await self._reload()
        self._following = asyncio.create_task(self._follow(), name="store watch")

    async def catch_up(self) -> None:
        """Wait until this server has everything that any server acknowledged before this call.

        Raises:
            StatusError: 503 or 504, the store does not answer.
        """
        # The answer to a question that is under way may not include what was acknowledged since. So callers that come
        # meanwhile share the next question.
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._unasked.append(answer)
        if self._asking is None:
            self._asking = self._spawn(self._ask())
        try:
            revision = await answer
        except StorageError as error:
            raise refusal(error) from error
        if revision > self._settled:
            await self._reached(revision)

    def put(
        self, table: Table, key: str, previous: StoredObject | None, obj: KubeObject
    ) -> asyncio.Future[StoredObject]:
        """Write a new state. Ends with WriteConflict if another server was faster.

        Raises:
            StatusError: 500, it is too large.
        """
        value = self._tables.layout.write(table.definition, obj)
        check_size(value)
        return self._shielded(self._write(table, key, previous, obj, value), table, key)

    def remove(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Remove an object. Ends with WriteConflict if another server was faster."""
        return self._shielded(self._write(table, previous.key, previous, last, None), table, previous.key)

    def end(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Write a last state and remove the object. Ends with WriteConflict if another server was faster."""
        return self._shielded(self._end(table, previous, last), table, previous.key)

    async def close(self) -> None:
        """Wait a moment for writes under way to settle, and close the store."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        tasks = [*self._tasks, *((self._following,) if self._following else ())]
        for task in tasks:
            task.cancel()
        try:
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError, StatusError, StorageError, WriteConflict):
                    await task
        finally:
            await self._storage.close()

    async def _write(
        self, table: Table, key: str, previous: StoredObject | None, obj: KubeObject, value: bytes | None
    ) -> StoredObject:
        storage_key = table.stored_under + key
        self._own[storage_key] = (value, obj)
        try:
            expected = previous.revision if previous else 0
            revision = await self._storage.write(storage_key, value, expected=expected)
            if revision > self._settled:
                # It is durable now. That it comes back only saves the next writer of the object a conflict.
                with contextlib.suppress(StatusError):
                    await self._reached(revision)
        except Superseded as newer:
            await self._reached(newer.revision)
            raise WriteConflict(key) from None
        except StorageError as error:
            raise refusal(error) from error
        finally:
            del self._own[storage_key]
        found = table.get(key)
        if found is not None and found.revision == revision:
            return found
        return StoredObject(key, stamped(obj, revision), revision)

    async def _end(self, table: Table, previous: StoredObject, last: Any) -> StoredObject:
        value = self._tables.layout.write(table.definition, last)
        shown = await self._write(table, previous.key, previous, last, value)
        return await self._write(table, previous.key, shown, shown.object, None)

    async def _ask(self) -> None:
        """Ask the store for its revision until no caller waits for a further answer."""
        asked: list[asyncio.Future[int]] = []
        try:
            while self._unasked:
                asked, self._unasked = self._unasked, []
                try:
                    revision = await self._storage.latest()
                except StorageError as error:
                    failure = error
                    _settle(asked, lambda one: one.set_exception(failure))  # noqa: B023 - called at once
                else:
                    _settle(asked, lambda one: one.set_result(revision))  # noqa: B023 - called at once
        finally:
            self._asking = None
            _settle([*asked, *self._unasked], lambda one: one.cancel())

    async def _reached(self, revision: int) -> None:
        if self._settled >= revision:
            return
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[arrived] = revision
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.wait([arrived], timeout=NUDGE_SECONDS)
                if not arrived.done():
                    await self._storage.nudge()
                await arrived
        except TimeoutError:
            raise timeout(
                f"Timeout: this server has seen revision {self._settled} of the store, {revision} is still on its way",
                RETRY_AFTER,
            ) from None
        except StorageError as error:
            raise refusal(error) from error
        finally:
            self._waiting.pop(arrived, None)

    async def _follow(self) -> None:
        while True:
            try:
                async with contextlib.aclosing(self._storage.follow(self._settled)) as stream:
                    async for progress in stream:
                        self._take(progress)
            except HistoryLost as lost:
                LOG.warning("%s: everything is read again and all watches end", lost)
                await self._reload_until_done()
            except StoreUnavailable as gone:
                LOG.error("this server no longer follows the store: %s", gone)
                self._lost = True
                return

    async def _reload(self) -> None:
        snapshot = await self._storage.load(self._forget)
        self._tables.load(snapshot)
        self._advance(snapshot.revision)

    async def _reload_until_done(self) -> None:
        while True:
            try:
                await self._reload()
            except StorageError as error:
                LOG.error("this server no longer follows the store: %s", error)
                self._lost = True
                await asyncio.sleep(RELOAD_SECONDS)
            else:
                self._lost = False
                return

    def _take(self, progress: StoreProgress) -> None:
        for write in progress.writes:
            if write.revision > self._settled:
                self._enter(write)
        self._advance(progress.revision)

    def _enter(self, write: Write) -> None:
        own = self._own.get(write.key)
        located = self._tables.locate(write.key)
        if own is None or own[0] != write.value or located is None:
            self._tables.take(write)
            return
        table, key = located
        previous = table.get(key)
        if write.value is not None:
            layout = self._tables.layout
            entry = layout.written(table.definition, key, write.revision, own[1], write.value)
            table.apply(StoredChange(write.revision, entry, previous))
        elif previous is not None:
            entry = StoredObject(key, stamped(own[1], write.revision), write.revision)
            table.apply(StoredChange(write.revision, entry, previous, deleted=True))

    def _advance(self, revision: int) -> None:
        self._settled = max(self._settled, revision)
        for arrived, wanted in self._waiting.items():
            if wanted <= self._settled and not arrived.done():
                arrived.set_result(None)

    def _forget(self, revision: int) -> None:
        """Drop history that the store has compacted: then every server refuses the same watches as too old."""
        self._compacted = max(self._compacted, revision)
        for table in self._tables:
            table.forget(min(self._compacted, self._settled))

    def _shielded(self, work: Any, table: Table, key: str) -> asyncio.Future[Any]:
        task = self._spawn(work)
        task.add_done_callback(lambda _: table.end(key))
        return asyncio.shield(task)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have been cancelled meanwhile


def _settle(waiting: Iterable[asyncio.Future[int]], settle: Callable[[asyncio.Future[int]], object]) -> None:
    for one in waiting:
        if not one.done():  # else its caller was cancelled meanwhile
            settle(one)


def refusal(error: StorageError) -> StatusError:
    """Return what a client receives when the store failed."""
    if not isinstance(error, StoreUnavailable):
        return internal_error(str(error))
    if error.unknown:
        return timeout(f"Timeout: {error}; the request may have been carried out", RETRY_AFTER)
    details = StatusDetails(retry_after_seconds=RETRY_AFTER)
    return failure(503, "ServiceUnavailable", f"the server is currently unable to handle the request: {error}", details)
