"""Group commit of writes to etcd: those that begin in one turn of the event loop share transactions.

Each write is a transaction that compares the revision of its key. In a group these are nested in one transaction, so
each has its own comparison and its own outcome: one that is refused does not fail the others. A call to etcd costs
several times what a write in it costs, at both ends.

A transaction has one revision. Clients resume a watch after the revision of the last event that they have seen. If two
events of one watch have the same one, a client that loses its connection between them misses the second, unless the
server sends both again. Cathedra's servers do (`Table.resume`), kube-apiserver does not. While one uses the store, a
group has at most one write of each resource (`mixes`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from cathedra._proto import etcd_pb2 as pb
from cathedra.api.protobuf.wire import delimited, varint
from cathedra.apiserver.storage.etcd.connection import EtcdConnection
from cathedra.apiserver.storage.protocol import StorageError, StoreUnavailable, Superseded

__all__ = ["CREATED", "GroupCommit", "deletion", "put", "transaction"]

CREATED: Final = 0
"""The expected revision of a write that creates its key."""
NO_FENCES: Final[Mapping[bytes, int]] = {}
_MOST_WRITES: Final = 64
"""Writes in a group. etcd accepts 128 operations in a transaction, nested ones included (``--max-txn-ops``), so a write
may have 63 fences. A claim has at most 32 devices."""
_MOST_BYTES: Final = 512 * 1024
"""Bytes of values in a group. etcd accepts requests of 1.5 MiB (``--max-request-bytes``)."""
_MOST_UNDER_WAY: Final = 2
"""Groups under way. Writes that begin meanwhile gather, so that groups grow with the load."""
_ENOUGH_UNDER_WAY: Final = 16
"""Writes under way beside which no further group is sent. Under load one large group then follows the other, which
costs 3 to 8 % less processor time than two that overlap. The price is latency: 48 clients or more that write without a
pause wait for two transactions instead of one and a half."""
_MOST_SEPARATE: Final = 16
"""Groups under way where writes of one resource do not share them, so that groups do not grow as much."""


class _Pending(msgspec.Struct, frozen=True, gc=False, eq=False):
    name: str
    """The key without the store's prefix."""
    key: bytes
    value: bytes | None
    expected: int
    done: asyncio.Future[int]
    fences: tuple[tuple[bytes, int], ...] = ()
    """Further keys, with the revisions that they must have. They are written too."""

    def transaction(self) -> bytes:
        change = deletion(self.key) if self.value is None else put(self.key, self.value)
        request = transaction(self.key, self.expected, change)
        # Fields of one message may stand in any order, so the bytes of two messages are the message of both.
        for key, revision in self.fences:
            request += transaction(key, revision, put(key))
        return request

    @property
    def resource(self) -> str:
        # The first part of the key names the resource or its group, which is as good: a group separates what could be
        # seen on one watch.
        return self.name.partition("/")[0]


class GroupCommit:
    """Groups writes into transactions, which are never sent twice. If an answer was lost, a read may prove the outcome
    of a write."""

    def __init__(self, connection: EtcdConnection, prefix: bytes) -> None:
        """``prefix``: that of all keys."""
        self._prefix = prefix
        self.nests = False
        """True if the store accepts nested transactions: etcd does, kine does not."""
        self.mixes = False
        """True if a group may have several writes of a resource."""
        self.acknowledged = 0
        """Revision of the last write that is known to have been made, by any server."""
        self._connection = connection
        self._pending: deque[_Pending] = deque()
        self._flushing = False
        self._tasks: dict[asyncio.Task[None], int] = {}
        """Groups under way, with their numbers of writes."""

    def write(
        self, name: str, value: bytes | None, expected: int, fences: Mapping[bytes, int] = NO_FENCES
    ) -> asyncio.Future[int]:
        """Write (None: remove) a key whose last write has the revision ``expected``, and write ``fences``, which must
        have theirs. ``name`` is the key without the prefix, those of ``fences`` have it. Return the revision of the
        write.

        The future ends with Superseded, StoreUnavailable or StorageError.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()
        key = self._prefix + name.encode()
        self._pending.append(_Pending(name, key, value, expected, done, tuple(fences.items()) if fences else ()))
        if not self._flushing:
            self._flushing = True
            loop.call_soon(self._flush)
        return done

    async def close(self) -> None:
        """Cancel what is under way or gathers."""
        for write in self._pending:
            write.done.cancel()
        self._pending.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _flush(self) -> None:
        """Send what has gathered, as far as groups may be under way."""
        self._flushing = False
        gathers = self.nests and self.mixes
        while self._pending and len(self._tasks) < (_MOST_UNDER_WAY if gathers else _MOST_SEPARATE):
            if gathers and sum(self._tasks.values()) >= _ENOUGH_UNDER_WAY:
                return
            group = self._next_group()
            task = asyncio.ensure_future(self._send(group))
            self._tasks[task] = len(group)
            task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._flush()

    def _next_group(self) -> list[_Pending]:
        """Take the next writes that may share a transaction, in their order."""
        if not self.nests:
            return [self._pending.popleft()]
        group: list[_Pending] = []
        distinct: set[str] = set()
        later: deque[_Pending] = deque()
        size = 0
        while self._pending and len(group) < _MOST_WRITES and size < _MOST_BYTES:
            write = self._pending.popleft()
            length = len(write.value or b"")
            # etcd refuses two writes of one key in a transaction. The registry begins none before the last has ended,
            # unless its caller was cancelled.
            separate = write.name if self.mixes else write.resource
            if separate in distinct or (group and size + length > _MOST_BYTES):
                later.append(write)
                continue
            distinct.add(separate)
            group.append(write)
            size += length
        later.extend(self._pending)
        self._pending = later
        return group

    async def _send(self, group: list[_Pending]) -> None:
        try:
            await self._carry_out(group)
        # Anything else is a defect here. The callers wait for the futures alone, and would wait for ever.
        except BaseException as error:
            for write in group:
                _fail(write, error)
            if not isinstance(error, Exception):
                raise

    async def _carry_out(self, group: list[_Pending]) -> None:
        requests = [write.transaction() for write in group]
        single = len(group) == 1
        request = requests[0] if single else _nested(requests)
        try:
            answer = await self._connection.call_once(lambda stubs: stubs.transact(request))
        except StoreUnavailable as lost:
            for write in group:
                await self._prove(write, lost)
            return
        except StorageError as error:
            if single or not _is_invalid(error):
                for write in group:
                    _fail(write, error)
                return
            # What is wrong with one write must not fail the others. Only a request that was not carried out for its
            # form is sent again.
            for write in group:
                await self._carry_out([write])
            return
        revision = int(answer.header.revision)
        outcomes = [answer] if single else [one.response_txn for one in answer.responses]
        for write, outcome in zip(group, outcomes, strict=True):
            self._end(write, outcome, revision)

    def _end(self, write: _Pending, outcome: Any, revision: int) -> None:
        if outcome.succeeded:
            # kine reports success for the removal of a key of which it has no row any more.
            if write.value is None and not outcome.responses[0].response_delete_range.deleted:
                _fail(write, Superseded(revision))
                return
            self.acknowledged = max(self.acknowledged, revision)
            if not write.done.done():  # else its caller was cancelled meanwhile
                write.done.set_result(revision)
            return
        # Of a key that was removed the revision is not known. The store's own is at or after the removal.
        if all(one.response_range.kvs for one in outcome.responses):
            # The highest, so that the next attempt begins when this server has seen what another one has allocated.
            revision = max(int(kv.mod_revision) for one in outcome.responses for kv in one.response_range.kvs)
            self.acknowledged = max(self.acknowledged, revision)
        _fail(write, Superseded(revision))

    async def _prove(self, write: _Pending, lost: StoreUnavailable) -> None:
        """End a creation whose answer was lost with the revision at which the key was created, if a read proves it.

        The value has the uid that this server made, so no other writer creates the same one. Nothing else is provable:
        an equal update may be another writer's, a key that is absent may have been created and removed, and a
        transaction without effect may still be on its way.
        """
        if not lost.unknown or write.expected != CREATED or write.value is None:
            _fail(write, lost)
            return
        request = pb.RangeRequest(key=write.key)
        try:
            found = (await self._connection.call(lambda stubs: stubs.kv.Range(request))).kvs
        except StorageError:
            found = ()
        if not found or found[0].value != write.value:
            _fail(write, lost)
        elif not write.done.done():
            write.done.set_result(int(found[0].mod_revision))


def _is_invalid(error: StorageError) -> bool:
    cause = error.__cause__
    return isinstance(cause, grpc.aio.AioRpcError) and cause.code() is grpc.StatusCode.INVALID_ARGUMENT


def _fail(write: _Pending, error: BaseException) -> None:
    if not write.done.done():
        if isinstance(error, asyncio.CancelledError):
            write.done.cancel()
        else:
            write.done.set_exception(error)
            write.done.exception()  # marks it as retrieved: its caller may have gone


# Transactions in protobuf's wire form (`TxnRequest` in proto/etcd.proto). The generated messages would be made field by
# field and copied into each other: 7 µs of processor time for a write, and a pod of a burst is six of them. These
# functions take 2.


def put(key: bytes, value: bytes = b"", lease: int = 0) -> bytes:
    """Return the operation that writes a key; with a lease, until that expires."""
    request = b"\x0a" + delimited(key)
    if value:
        request += b"\x12" + delimited(value)
    if lease:
        request += b"\x18" + varint(lease)
    return b"\x12" + delimited(request)


def deletion(key: bytes) -> bytes:
    """Return the operation that removes a key."""
    return b"\x1a" + delimited(b"\x0a" + delimited(key))


def transaction(key: bytes, expected: int, change: bytes) -> bytes:
    """Return the transaction that makes ``change`` if the last write of ``key`` has the revision ``expected``, and else
    reads the key."""
    named = delimited(key)
    return b"".join(
        (
            b"\x0a",
            delimited(b"\x10\x02\x1a" + named + b"\x30" + varint(expected)),  # EQUAL is 0, and MOD is 2
            b"\x12",
            delimited(change),
            b"\x1a",
            delimited(b"\x0a" + delimited(b"\x0a" + named)),
        )
    )


def _nested(requests: list[bytes]) -> bytes:
    # Without a comparison of its own it always succeeds, and each of the others has its own outcome.
    return b"".join([b"\x12" + delimited(b"\x22" + delimited(request)) for request in requests])
