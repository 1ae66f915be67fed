"""Commit log of a store that several servers share: etcd, or the store of another server of the cluster.

The store assigns revisions, and this process follows it: tables change only by what comes back on the watch, whichever
server wrote it. A write is acknowledged when it has come back, so a client that wrote here reads here what it wrote.
What other servers acknowledged is here after `catch_up`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import KubeObject, StatusDetails
from cathedra.api.status import StatusError, failure, internal_error, timeout
from cathedra.apiserver.registry.commitlog import WriteConflict
from cathedra.apiserver.registry.layout import MAX_VALUE, check_size, stamped
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.protocol import (
    FencedStorage,
    HistoryLost,
    SharedStorage,
    StorageError,
    StoreProgress,
    StoreUnavailable,
    Superseded,
    Write,
)

LOG: Final = logging.getLogger(__name__)
NUDGE_SECONDS: Final = 0.02
"""Time without an event after which the store is made to report its revision on the watch."""
LATE_SECONDS: Final = 1.0
"""Time after which the readiness check reports that this server does not catch up."""
WAIT_SECONDS: Final = 5.0
"""Time that a request waits for this server to catch up."""
RELOAD_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 2.0
RETRY_AFTER: Final = 1


class _Awaited(msgspec.Struct, frozen=True, gc=False):
    """A revision that has not arrived yet."""

    revision: int
    certain: bool
    since: float


class _OwnWrite:
    """A write of this server that is under way."""

    __slots__ = ("done", "entry", "key", "locks", "object", "table", "value")

    def __init__(
        self, table: Table, key: str, obj: Any, value: bytes | None, done: asyncio.Future[StoredObject], locks: bool
    ) -> None:
        self.table, self.key, self.object, self.value = table, key, obj, value
        self.done = done
        """The future of its caller."""
        self.locks = locks
        """True if its key is locked until it ends."""
        self.entry: StoredObject | None = None
        """The state that it has come back as on the watch."""


class _FencedWrite:
    """A write with fences that is under way."""

    stored: asyncio.Future[int]
    """The task that sends it."""
    done: asyncio.Future[StoredObject]
    """The future of its caller."""

    def __init__(self, table: Table, change: StoredChange, value: bytes) -> None:
        self.table, self.change, self.value = table, change, value
        self.repeated = False
        """True if it was compared with writes of other servers with which the writes behind it were not compared."""

    async def end(self) -> int:
        """Return the revision that the write has given to the fence.

        Raises:
            Superseded: the fence has another revision, or the writes behind this one must be compared again.
        """
        await asyncio.wait((self.stored,))
        if self.stored.cancelled() or self.stored.exception() is not None:
            await asyncio.wait((self.done,))
            raise Superseded(0)
        if self.repeated:
            raise Superseded(self.stored.result())
        return self.stored.result()


class SharedCommitLog:
    """Writes of many servers, numbered by the store.

    Writes and `catch_up` fail with a StatusError: 503 when the store cannot be reached, 504 when it cannot be known
    whether the write was kept, 500 when the store refuses.
    """

    def __init__(self, storage: SharedStorage, tables: Tables) -> None:
        self._storage = storage
        self._loop: asyncio.AbstractEventLoop | None = None
        """As in `CommitLog`."""
        # Tested once: `isinstance` with a protocol reads its members each time.
        self._fencing = storage if isinstance(storage, FencedStorage) else None
        self._tables = tables
        self._settled = 0
        self._compacted = 0
        self._lost = ""
        """Reason why this server does not follow the store; "" if it does."""
        self._own: dict[str, _OwnWrite] = {}
        """By storage key: this server's writes that are under way. They need not be decoded when they come back."""
        self._waiting: dict[asyncio.Future[None], _Awaited] = {}
        """In the order in which they began: futures of revisions that have not arrived."""
        self._ticking: asyncio.TimerHandle | None = None
        self._nudging: asyncio.Task[None] | None = None
        self._nudged = 0
        """A revision that the store has been made to report on the watch."""
        self._asking: asyncio.Task[None] | None = None
        self._unasked: list[asyncio.Future[int]] = []
        """Callers of `catch_up` that the question under way does not answer."""
        self._fenced: dict[str, _FencedWrite] = {}
        """By fence: the last write of this server, while it is under way."""
        self._tasks: set[asyncio.Future[Any]] = set()
        self._following: asyncio.Task[None] | None = None

    @property
    def revision(self) -> int:
        """The revision up to which this server has seen everything."""
        return self._settled

    @property
    def problem(self) -> str:
        """Return the reason why reads of the latest state or writes fail at present; "" if they do not."""
        # A server that follows no more would serve old states without an error. Its readiness check fails instead, and
        # clients are sent to another.
        if self._following is None or self._following.done() or self._lost:
            return self._lost or "this server does not follow the store"
        return self._storage.problem or self._late()

    def share_revisions(self, shared: bool) -> None:
        """Let writes of one resource share a revision, or not (`SharedStorage.shares_revisions`)."""
        self._storage.shares_revisions = shared

    async def load(self) -> None:
        """Read everything and begin to follow.

        Raises:
            StorageError: the store cannot be read.
        """
        self._loop = asyncio.get_running_loop()
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
        # Usually nothing was written elsewhere, and the watch is already there: no task and no timer are needed.
        if revision > self._settled:
            # The revision may be that of another program's write to the store, which never arrives on the watch.
            await self._reached(revision, certain=False)

    def put(
        self, table: Table, key: str, previous: StoredObject | None, obj: KubeObject, fences: Collection[str] = ()
    ) -> asyncio.Future[StoredObject]:
        """Write a new state. Ends with WriteConflict if another server was faster, also in a write with one of the same
        ``fences``.

        Raises:
            StatusError: 500, it is too large.
        """
        value = self._tables.layout.write(table.definition, obj)
        if len(value) > MAX_VALUE:
            check_size(value)
        if not fences or self._fencing is None:
            return self._write(table, key, obj, value, self._sent(table, key, previous, value))
        order = {fence: self._fence(fence) for fence in fences}
        fenced = _FencedWrite(table, StoredChange(0, StoredObject(key, obj, 0), previous), value)
        fenced.stored = asyncio.ensure_future(self._send_fenced(fenced, order))
        fenced.done = done = self._write(table, key, obj, value, fenced.stored)
        self._fenced.update(dict.fromkeys(fences, fenced))
        done.add_done_callback(lambda _: self._unfence(fenced))
        return done

    def remove(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Remove an object. Ends with WriteConflict if another server was faster."""
        return self._write(table, previous.key, last, None, self._sent(table, previous.key, previous, None))

    def end(self, table: Table, previous: StoredObject, last: Any) -> asyncio.Future[StoredObject]:
        """Write a last state and remove the object. Ends with WriteConflict if another server was faster."""
        return self._shielded(self._end(table, previous, last), table, previous.key)

    def retire_fence(self, fence: str, vacant: Callable[[], bool]) -> None:
        """Remove a fence in a later turn of the loop, if ``vacant`` returns True then, and no write has had the fence
        since the last one that this server has seen."""
        # On kine and on another server's store there are none. Of several servers, one removes it.
        if self._fencing is not None and self._tables.unclaimed_revision(fence):
            self._spawn(self._retire_fence(fence, vacant))

    async def _retire_fence(self, fence: str, vacant: Callable[[], bool]) -> None:
        revision = self._tables.unclaimed_revision(fence)
        if not revision or fence in self._fenced or not vacant():
            return
        try:
            await self._storage.write(fence, None, expected=revision)
        except Superseded:
            LOG.debug("%s is in use again, or was removed by another server", fence)
        except StorageError as error:
            # It does no harm, and the next start of a server removes it.
            LOG.warning("%s, of a pool that is gone, stays in the store: %s", fence, error)

    async def close(self) -> None:
        """Wait a moment for writes under way to settle, and close the store."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        if self._ticking is not None:
            self._ticking.cancel()
        for arrived in self._waiting:
            arrived.cancel()
        tasks = [*self._tasks, *((self._following,) if self._following else ())]
        for task in tasks:
            task.cancel()
        try:
            for task in tasks:
                with contextlib.suppress(asyncio.CancelledError, StatusError, StorageError, WriteConflict):
                    await task
        finally:
            await self._storage.close()

    def _sent(self, table: Table, key: str, previous: StoredObject | None, value: bytes | None) -> asyncio.Future[int]:
        write = self._storage.write(table.stored_under + key, value, expected=_revision(previous))
        return asyncio.ensure_future(write)

    def _fence(self, key: str) -> int | _FencedWrite:
        """Return the revision of a fence that this server has seen, or the write that is about to change it."""
        fenced = self._fenced.get(key)
        # A write that is done has arrived, unless the store is late. Then it is not in the table either, and its
        # revision would hide that.
        return self._tables.unclaimed_revision(key) if fenced is None or fenced.done.done() else fenced

    async def _send_fenced(self, fenced: _FencedWrite, order: Mapping[str, int | _FencedWrite]) -> int:
        """Write an object after this server's earlier writes with the same fences. While another server was faster
        with a fence, but not with the object, compare it again and repeat.

        Raises:
            StatusError: it contradicts what the other server has written, or that does not arrive here.
        """
        storage, table = self._fencing, fenced.table
        assert storage is not None
        key, previous = fenced.change.entry.key, fenced.change.previous
        write = partial(storage.write_fenced, table.stored_under + key, fenced.value, expected=_revision(previous))
        try:
            # In order: at the same moment all but one would be refused.
            revisions = {fence: one if isinstance(one, int) else await one.end() for fence, one in order.items()}
            return await write(fences=revisions)
        except Superseded as late:
            superseded = late
        fenced.repeated = True
        while True:
            await self._reached(superseded.revision, certain=False)
            if table.get(key) is not previous:
                raise superseded
            # The revisions are read in the same turn as what is compared. A write of this server that changes one of
            # them meanwhile is among what is compared.
            fences = table.check(key, previous, fenced.change.entry.object) if table.check is not None else ()
            try:
                return await write(fences={fence: self._tables.unclaimed_revision(fence) for fence in fences})
            except Superseded as late:
                superseded = late

    def _unfence(self, fenced: _FencedWrite) -> None:
        for fence in [fence for fence, last in self._fenced.items() if last is fenced]:
            del self._fenced[fence]

    def _write(
        self,
        table: Table,
        key: str,
        obj: KubeObject,
        value: bytes | None,
        writing: asyncio.Future[int],
        *,
        locks: bool = True,
    ) -> asyncio.Future[StoredObject]:
        """Follow a write that was sent in this turn of the loop, and lock its key until the end (``locks``). It is
        completed even if the future that is returned is cancelled: the store may have it already."""
        # With callbacks, for a task costs a tenth of a write on the first server's store.
        done: asyncio.Future[StoredObject] = asyncio.Future(loop=self._loop)
        # Noted in the turn in which the write is sent: it may come back on the watch before its answer.
        self._own[table.stored_under + key] = own = _OwnWrite(table, key, obj, value, done, locks)
        if locks:
            table.under_way[key] = ()
        # The loop keeps weak references to tasks only. Without this set a write whose client has left could be
        # collected midway.
        self._tasks.add(writing)
        writing.add_done_callback(partial(self._answered, own))
        return done

    def _answered(self, own: _OwnWrite, writing: asyncio.Future[int]) -> None:
        self._tasks.discard(writing)
        if writing.cancelled():
            self._finish(own, asyncio.CancelledError(), 0)
            return
        error = writing.exception()
        revision = writing.result() if error is None else error.revision if isinstance(error, Superseded) else 0
        # The event came back before the answer, which is the rule on the first server's own store.
        if revision <= self._settled:
            self._finish(own, error, revision)
            return

        def reached(arriving: asyncio.Future[None]) -> None:
            # If the write was made, it is durable now; that it comes back only saves the next writer of the object a
            # conflict. But the loser of a race must not try again before it sees the winner.
            late = asyncio.CancelledError() if arriving.cancelled() else arriving.exception()
            self._finish(own, error if late is None or error is None else late, revision)

        # A write that was made arrives without being hastened. What superseded one may be a removal, of which the
        # revision is not known.
        self._reached(revision, certain=error is None).add_done_callback(reached)

    def _finish(self, own: _OwnWrite, error: BaseException | None, revision: int) -> None:
        table, key, done = own.table, own.key, own.done
        # Before the caller continues. A later write of another server with an equal value must be decoded as its own.
        del self._own[table.stored_under + key]
        if own.locks:
            table.end(key)
        if done.done():
            return  # the caller was cancelled meanwhile
        if error is None:
            found = table.get(key)
            # The object was written again or removed meanwhile. The caller gets the state of its own write
            # nevertheless.
            if found is None or found.revision != revision:
                found = own.entry
            if found is None or found.revision != revision:
                found = StoredObject(key, stamped(own.object, revision), revision)
            done.set_result(found)
        elif isinstance(error, asyncio.CancelledError):
            done.cancel()
        elif isinstance(error, Superseded):
            done.set_exception(WriteConflict(key))
        else:
            done.set_exception(refusal(error) if isinstance(error, StorageError) else error)

    async def _end(self, table: Table, previous: StoredObject, last: Any) -> StoredObject:
        value = self._tables.layout.write(table.definition, last)
        # The key stays locked between the two writes. Another write in between would let the removal fail with a
        # conflict after the last state was shown.
        key = previous.key
        shown = await self._write(table, key, last, value, self._sent(table, key, previous, value), locks=False)
        removing = self._sent(table, key, shown, None)
        return await self._write(table, key, shown.object, None, removing, locks=False)

    async def _ask(self) -> None:
        """Read the store's revision until no caller waits for a further answer."""
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
            # Reached with callers only if this task was cancelled: they would otherwise wait for ever.
            _settle([*asked, *self._unasked], lambda one: one.cancel())

    def _reached(self, revision: int, *, certain: bool) -> asyncio.Future[None]:
        """Return a future that ends when this server has seen a revision, or with a StatusError after `WAIT_SECONDS`.

        ``certain``: it is a revision of an object, so it arrives on the watch by itself.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()
        if revision <= self._settled:
            arrived.set_result(None)
            return arrived
        self._waiting[arrived] = _Awaited(revision, certain, loop.time())
        # One timer for all that wait: under load most writes wait for a few milliseconds.
        if self._ticking is None:
            self._ticking = loop.call_later(NUDGE_SECONDS, self._tick, self._settled)
        return arrived

    def _tick(self, before: int) -> None:
        """Nudge the store once for all that wait, if nothing has arrived since ``before``, and fail what waits too
        long."""
        loop = asyncio.get_running_loop()
        began_before = loop.time() - WAIT_SECONDS
        for arrived, awaited in tuple(self._waiting.items()):
            if awaited.since > began_before:
                break
            self._fail(arrived, _overdue(self._settled, awaited.revision))
        if not self._waiting:
            self._ticking = None
            return
        self._ticking = loop.call_later(NUDGE_SECONDS, self._tick, self._settled)
        # A nudge is a write to the store. It is saved while events arrive, and while an earlier one is on its way.
        silent = self._settled == before and self._nudged <= self._settled and self._nudging is None
        if silent and any(not awaited.certain for awaited in self._waiting.values()):
            self._nudging = self._spawn(self._nudge())

    async def _nudge(self) -> None:
        try:
            self._nudged = await self._storage.nudge()
        except StorageError as error:
            for arrived, awaited in tuple(self._waiting.items()):
                if not awaited.certain:
                    self._fail(arrived, refusal(error))
        finally:
            self._nudging = None

    def _fail(self, arrived: asyncio.Future[None], error: StatusError) -> None:
        del self._waiting[arrived]
        if not arrived.done():  # else its caller was cancelled meanwhile
            arrived.set_exception(error)
            arrived.exception()  # marks it as retrieved

    def _late(self) -> str:
        awaited = next(iter(self._waiting.values()), None)
        if awaited is None or asyncio.get_running_loop().time() - awaited.since < LATE_SECONDS:
            return ""
        return f"this server has seen revision {self._settled} of the store, {awaited.revision} is still on its way"

    async def _follow(self) -> None:
        while True:
            try:
                # Closed at once on an error: an abandoned generator would keep its stream open until it is collected.
                async with contextlib.aclosing(self._storage.follow(self._settled)) as stream:
                    async for progress in stream:
                        self._take(progress)
            except HistoryLost as lost:
                LOG.warning("%s: everything is read again and all watches end", lost)
                await self._reload_until_done()
            except StoreUnavailable as gone:
                self._lost = f"this server no longer follows the store: {gone}"
                LOG.error("%s", self._lost)
                return

    async def _reload(self) -> None:
        snapshot = await self._storage.load(self._forget)
        # The tables report the differences to the server's indexes. Watches end, because the changes in between are
        # lost.
        self._tables.load(snapshot)
        self._advance(snapshot.revision)

    async def _reload_until_done(self) -> None:
        while True:
            try:
                await self._reload()
            except StorageError as error:
                self._lost = f"this server no longer follows the store: {error}"
                LOG.error("%s", self._lost)
                await asyncio.sleep(RELOAD_SECONDS)
            else:
                self._lost = ""
                return

    def _take(self, progress: StoreProgress) -> None:
        for write in progress.writes:
            # A restarted watch or a reload may deliver writes again. Entering one twice would put an old state over a
            # newer one.
            if write.revision > self._settled:
                self._enter(write)
        self._advance(progress.revision)

    def _enter(self, write: Write) -> None:
        own = self._own.get(write.key)
        # Another server's write with the same value would do no harm: the objects are equal.
        if own is None or own.value != write.value:
            self._tables.take(write, self._tables.locate(write.key))
            return
        table, revision, previous = own.table, write.revision, own.table.get(own.key)
        if write.value is not None:
            entry = self._tables.layout.written(table.definition, own.key, revision, own.object, write.value)
        elif previous is not None:
            entry = StoredObject(own.key, stamped(own.object, revision), revision)
        else:
            return
        own.entry = entry
        table.apply(StoredChange(revision, entry, previous, deleted=write.value is None))

    def _advance(self, revision: int) -> None:
        self._settled = max(self._settled, revision)
        reached = [one for one, awaited in self._waiting.items() if awaited.revision <= self._settled]
        for arrived in reached:
            del self._waiting[arrived]
            if not arrived.done():  # else its caller was cancelled meanwhile
                arrived.set_result(None)

    def _forget(self, revision: int) -> None:
        """Drop history that the store has compacted: then every server refuses the same watches as too old."""
        self._compacted = max(self._compacted, revision)
        for table in self._tables:
            # Not beyond what this server has seen: the floor must not lie above the present revision, or no watch could
            # start.
            table.forget(min(self._compacted, self._settled))

    def _shielded(self, work: Any, table: Table, key: str) -> asyncio.Future[Any]:
        table.under_way[key] = ()
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


def _revision(previous: StoredObject | None) -> int:
    return previous.revision if previous else 0


def _settle(waiting: Iterable[asyncio.Future[int]], settle: Callable[[asyncio.Future[int]], object]) -> None:
    for one in waiting:
        if not one.done():  # else its caller was cancelled meanwhile
            settle(one)


def _overdue(settled: int, revision: int) -> StatusError:
    return timeout(
        f"Timeout: this server has seen revision {settled} of the store, {revision} is still on its way", RETRY_AFTER
    )


def refusal(error: StorageError) -> StatusError:
    """Return what a client receives when the store failed."""
    if not isinstance(error, StoreUnavailable):
        return internal_error(str(error))
    if error.unknown:
        return timeout(f"Timeout: {error}; the request may have been carried out", RETRY_AFTER)
    details = StatusDetails(retry_after_seconds=RETRY_AFTER)
    return failure(503, "ServiceUnavailable", f"the server is currently unable to handle the request: {error}", details)
