"""The commit log of a store that several servers share: the store numbers the writes, and this process follows.

The store numbers the writes, and this process follows it: tables change only by what comes back on the watch, be it
another server's write or one of our own. A write is acknowledged when it has come back; so a client that wrote here
reads here what it wrote. What others acknowledged is seen after `catch_up`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final

from cathedra.api.core.meta_v1 import KubeObject, StatusDetails
from cathedra.api.status import StatusError, failure, internal_error, timeout
from cathedra.api.struct import replace
from cathedra.apiserver.registry.commitlog import WriteConflict
from cathedra.apiserver.registry.layout import SharedLayout, check_size
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.protocol import (
    HistoryLost,
    Record,
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
"""How long events may be on their way before the store is asked to say how far it is."""
WAIT_SECONDS: Final = 5.0
"""How long a request waits for this server to catch up."""
RELOAD_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 2.0
RETRY_AFTER: Final = 1


class SharedCommitLog:
    """Writes of many servers, numbered by the store.

    Writes and `catch_up` fail with a StatusError: 503 when the store cannot be reached, 504 when it cannot be known
    whether the write was kept, 500 when the store refuses.
    """

    def __init__(self, storage: SharedStorage, tables: Tables, layout: SharedLayout) -> None:
        self._storage = storage
        self._tables = tables
        self._layout = layout
        self._settled = 0
        self._compacted = 0
        self._lost = False
        self._own: dict[str, tuple[bytes | None, Any]] = {}
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._probing: asyncio.Task[int] | None = None
        self._next_probe: asyncio.Task[int] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._following: asyncio.Task[None] | None = None

    @property
    def revision(self) -> int:
        """The revision up to which this server has seen everything."""
        return self._settled

    @property
    def healthy(self) -> bool:
        """Whether the store answers and this server follows it."""
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
        """Wait until everything that any server acknowledged before this call is here.

        Raises:
            StatusError: 503 or 504, the store does not answer.
        """
        probe = self._next_probe
        if probe is None:
            probe = self._next_probe = self._spawn(self._probe(self._probing))
        try:
            revision = await asyncio.shield(probe)
        except StorageError as error:
            raise refusal(error) from error
        await self._reached(revision)

    def put(
        self, table: Table, key: str, previous: StoredObject | None, obj: KubeObject
    ) -> asyncio.Future[StoredObject]:
        """Write a new state. Ends with WriteConflict if another server was faster.

        Raises:
            StatusError: 500, it is too large.
        """
        value = self._layout.write(table.definition, obj)
        check_size(value)
        return self._shielded(self._write(table, key, previous, obj, value), table, key)

    def remove(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Remove an object. Ends with WriteConflict if another server was faster."""
        return self._shielded(self._write(table, previous.key, previous, last, None), table, previous.key)

    def end(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Write a last state and remove the object. Ends with WriteConflict if another server was faster."""
        return self._shielded(self._end(table, previous, last), table, previous.key)

    async def close(self) -> None:
        """Give what is under way a moment to settle, and let go of the store."""
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
        return StoredObject(key, _stamped(obj, revision), revision)

    async def _end(self, table: Table, previous: StoredObject, last: Any) -> StoredObject:
        value = self._layout.write(table.definition, last)
        shown = await self._write(table, previous.key, previous, last, value)
        return await self._write(table, previous.key, shown, shown.object, None)

    async def _probe(self, before: asyncio.Task[int] | None) -> int:
        """Ask how far the store is; callers that come while this is under way share the next question."""
        if before is not None:
            await asyncio.wait([before])
        self._probing, self._next_probe = self._next_probe, None
        return await self._storage.latest()

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
        located = self._tables.locate(write.key)
        if located is None:
            kept = None if write.value is None else Record(write.key, write.revision, write.value)
            self._tables.set_aside(write.key, kept)
            return
        table, key = located
        previous = table.get(key)
        own = self._own.get(write.key)
        mine = own is not None and own[0] == write.value
        if write.value is None:
            if previous is not None:
                last = _stamped(own[1] if own is not None and mine else previous.object, write.revision)
                table.apply(
                    StoredChange(write.revision, StoredObject(key, last, write.revision), previous, deleted=True)
                )
            return
        if own is not None and mine:
            entry = StoredObject(key, _stamped(own[1], write.revision), write.revision)
        else:
            try:
                entry = self._tables.entry(table, Record(write.key, write.revision, write.value))
            except StorageError as error:
                LOG.error("passed over: %s", error)
                return
        table.apply(StoredChange(write.revision, entry, previous))

    def _advance(self, revision: int) -> None:
        self._settled = max(self._settled, revision)
        for arrived, wanted in self._waiting.items():
            if wanted <= self._settled and not arrived.done():
                arrived.set_result(None)

    def _forget(self, revision: int) -> None:
        """What lies before a revision is gone for every server alike."""
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
            task.exception()  # a caller that was cancelled meanwhile asks no more


def _stamped(obj: KubeObject, revision: int) -> Any:
    return replace(obj, metadata=replace(obj.metadata, resource_version=str(revision)))


def refusal(error: StorageError) -> StatusError:
    """What a client is told when the store did not do its work."""
    if not isinstance(error, StoreUnavailable):
        return internal_error(str(error))
    if error.unknown:
        return timeout(f"Timeout: {error}; the request may have been carried out", RETRY_AFTER)
    details = StatusDetails(retry_after_seconds=RETRY_AFTER)
    return failure(503, "ServiceUnavailable", f"the server is currently unable to handle the request: {error}", details)
