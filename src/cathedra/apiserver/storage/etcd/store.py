"""Store in etcd v3, under the keys that Kubernetes uses, shared by any number of API servers.

A write is one transaction that compares the revision of the last write. What all servers wrote comes back on one watch
of the whole prefix. etcd numbers the writes: its revisions are the objects' resource versions.

Old revisions are compacted as kube-apiserver does it: every five minutes what is older than five minutes. All servers
take part; a transaction on one key, ``compact_rev_key``, lets one of them do the work of a round. Real API servers on
the same etcd use the same key and the same rule, so they do not get in each other's way.

kine serves the same protocol from SQLite, PostgreSQL or MySQL. It accepts only the forms of transactions that
kube-apiserver sends: one comparison, one operation on success, and a read on failure. Every transaction here has one
of these forms, on etcd too. Three weaker promises of kine are handled where they matter: revisions of empty reads,
revisions of pages, and progress of watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import grpc.aio

from cathedra._proto import etcd_pb2 as pb
from cathedra.apiserver.storage.etcd.address import EtcdAddress
from cathedra.apiserver.storage.etcd.connection import EtcdConnection
from cathedra.apiserver.storage.protocol import (
    HistoryLost,
    Record,
    StorageError,
    StoreContent,
    StoreProgress,
    StoreUnavailable,
    Superseded,
    Write,
)
from cathedra.clock import Clock

LOG: Final = logging.getLogger(__name__)
INTERVAL_SECONDS: Final = 300.0
"""Seconds between two rounds of compaction, and the age of the revisions that a round removes."""
_PAGE: Final = 1000
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_REQUIRE_LEADER: Final = (("hasleader", "true"),)
"""Metadata that makes a member which has lost its cluster end the watch instead of being silent."""
_NUDGE: Final = "cathedra.dev/nudge"
"""A key without a meaning. Writing it makes every watch report the revision of that write."""
_CREATED: Final = 0
"""The expected revision of a write that creates its key."""


class EtcdStorage:
    """A `SharedStorage` in etcd v3."""

    def __init__(self, address: EtcdAddress, *, clock: Clock, compaction_interval: float = INTERVAL_SECONDS) -> None:
        self._prefix = f"{address.prefix}/"
        self._clock = clock
        self._interval = compaction_interval
        self._connection = EtcdConnection(address, clock)
        self._compaction: asyncio.Task[None] | None = None
        self._nudged = 0
        """Revision of the last known write of the key `_NUDGE`."""

    @property
    def healthy(self) -> bool:
        """Return True if the last call to etcd succeeded."""
        return self._connection.healthy

    async def load(self, compacted: Callable[[int], None]) -> StoreContent:
        """Return all objects at one revision, read page by page.

        Raises:
            StorageError: etcd does not answer, or refuses.
        """
        if self._compaction is None:
            compactor = Compactor(self._connection, self._clock, compacted, self._interval)
            self._compaction = asyncio.create_task(compactor.run(), name="etcd compaction")
        records: list[Record] = []
        # The first page must not choose the revision: kine reports one at which it counted the other pages, and a write
        # between reading and counting would be missing from the page and from the watch that begins after it.
        start, revision = self._prefix.encode(), await self._write_nudge()
        while True:
            request = pb.RangeRequest(key=start, range_end=self._end, limit=_PAGE, revision=revision)
            answer = await self._range(request)
            # All pages are read at one revision. At different revisions an object could be in none of them.
            found = ((self._name(kv.key), kv) for kv in answer.kvs)
            records += [Record(name, kv.mod_revision, kv.value) for name, kv in found if name != _NUDGE]
            if not answer.more:
                return StoreContent(revision, records)
            # The smallest key after the last one.
            start = answer.kvs[-1].key + b"\0"

    async def write(self, key: str, value: bytes | None, *, expected: int) -> int:
        """Write in one transaction, which is never sent twice. If its answer was lost, a read may prove its outcome.

        Raises:
            Superseded: another server wrote the object.
            StoreUnavailable: no answer.
            StorageError: etcd refused, as when it is full.
        """
        full = self._key(key)
        change = (
            pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=full))
            if value is None
            else pb.RequestOp(request_put=pb.PutRequest(key=full, value=value))
        )
        try:
            answer = await self._transaction(full, expected, change)
        except StoreUnavailable as error:
            if not error.unknown or expected != _CREATED or value is None:
                raise
            return await self._created(full, value, error)
        revision: int = answer.header.revision
        if answer.succeeded:
            # kine reports success for the removal of a key of which it has no row any more.
            if value is None and not answer.responses[0].response_delete_range.deleted:
                raise Superseded(revision)
            return revision
        found = answer.responses[0].response_range.kvs
        raise Superseded(int(found[0].mod_revision) if found else revision)

    async def latest(self) -> int:
        """Return the revision of a linearizable read of a key that exists."""
        # kine reports the latest revision beside a key that it finds. Beside nothing it reports the one up to which its
        # watches are, which may be older than a write that was acknowledged.
        answer = await self._range(pb.RangeRequest(key=self._key(_NUDGE), count_only=True))
        return int(answer.header.revision) if answer.count else await self._write_nudge()

    async def nudge(self) -> None:
        """Write a key that means nothing.

        A request for progress would do the same without a write, but up to etcd 3.4.24 and 3.5.7 its answer may
        overtake events.
        """
        await self._write_nudge()

    async def follow(self, after: int) -> AsyncGenerator[StoreProgress, None]:
        """Yield the events of a watch of the whole prefix. It is made again from where it broke.

        Raises:
            HistoryLost: etcd has compacted what comes next.
        """
        pause = _FIRST_PAUSE
        while True:
            endpoint = self._connection.endpoint
            stream = self._connection.stubs.watch.Watch(metadata=_REQUIRE_LEADER)
            try:
                # From the revision after the last one that was yielded: a gap would be a change that no watcher of this
                # server sees.
                await stream.write(self._watch_request(after + 1))
                async for answer in stream:
                    self._connection.healthy = True
                    pause = _FIRST_PAUSE
                    if answer.canceled:
                        if answer.compact_revision:
                            raise HistoryLost(f"etcd has compacted the revisions up to {answer.compact_revision}")
                        LOG.warning("etcd ended the watch: %s", answer.cancel_reason)
                        break
                    if answer.created:
                        continue
                    writes = tuple(self._written(event) for event in answer.events)
                    if not writes and not answer.header.member_id:
                        # Progress of kine, whose headers name no member, may overtake events. Events after it would
                        # then be taken for known ones.
                        continue
                    # A message without events reports progress. Its revision may be older than what was yielded
                    # already.
                    after = max(after, writes[-1].revision if writes else answer.header.revision)
                    yield StoreProgress(after, writes)
            except grpc.aio.AioRpcError as error:
                self._connection.failed(endpoint, error)
            finally:
                # Also when the consumer ends the generator. etcd would go on sending events to a stream without a
                # reader.
                stream.cancel()
            await self._clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def close(self) -> None:
        """End compaction and close the connections."""
        if self._compaction is not None:
            self._compaction.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._compaction
            self._compaction = None
        await self._connection.close()

    async def _created(self, key: bytes, value: bytes, lost: StoreUnavailable) -> int:
        """Return the revision at which ``key`` was created with ``value``, although the answer was lost.

        The value has the uid that this server made, so no other writer creates the same one. Nothing else is provable:
        an equal update may be another writer's, a key that is absent may have been created and removed, and a
        transaction without effect may still be on its way.

        Raises:
            StoreUnavailable: ``lost``, the read does not prove that the key was created.
        """
        try:
            found = (await self._range(pb.RangeRequest(key=key))).kvs
        except StorageError:
            raise lost from None
        if not found or found[0].value != value:
            raise lost
        return int(found[0].mod_revision)

    async def _write_nudge(self) -> int:
        """Write the key `_NUDGE`. Return the revision of a write of it that was made during this call."""
        key = self._key(_NUDGE)
        change = pb.RequestOp(request_put=pb.PutRequest(key=key))
        for first in (True, False):
            answer = await self._transaction(key, self._nudged, change)
            if answer.succeeded:
                self._nudged = answer.header.revision
                break
            found = answer.responses[0].response_range.kvs
            self._nudged = found[0].mod_revision if found else _CREATED
            if not first:
                # Another server has written the key since the first attempt, which is as good.
                break
        return self._nudged

    async def _transaction(self, key: bytes, expected: int, change: pb.RequestOp) -> Any:
        """Make ``change`` if the last write of ``key`` has the revision ``expected``; else read the key."""
        request = pb.TxnRequest(
            compare=[pb.Compare(result="EQUAL", target="MOD", key=key, mod_revision=expected)],
            success=[change],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key))],
        )
        return await self._connection.call_once(lambda stubs: stubs.kv.Txn(request))

    async def _range(self, request: pb.RangeRequest) -> Any:
        return await self._connection.call(lambda stubs: stubs.kv.Range(request))

    @property
    def _end(self) -> bytes:
        """The first key after the prefix."""
        return self._prefix[:-1].encode() + bytes((ord("/") + 1,))

    def _key(self, name: str) -> bytes:
        return f"{self._prefix}{name}".encode()

    def _name(self, key: bytes) -> str:
        return key.decode("utf-8", "replace").removeprefix(self._prefix)

    def _watch_request(self, start: int) -> pb.WatchRequest:
        create = pb.WatchCreateRequest(
            # Without progress messages a quiet prefix would look outdated, because other users of etcd raise its
            # revision.
            key=self._prefix.encode(),
            range_end=self._end,
            start_revision=start,
            progress_notify=True,
        )
        return pb.WatchRequest(create_request=create)

    def _written(self, event: Any) -> Write:
        removed = event.type == pb.Event.DELETE
        return Write(self._name(event.kv.key), event.kv.mod_revision, None if removed else event.kv.value)


_KEY: Final = b"compact_rev_key"


class Compactor:
    """The part of one server in compaction."""

    def __init__(
        self, connection: EtcdConnection, clock: Clock, compacted: Callable[[int], None], interval: float
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._compacted = compacted
        self._interval = interval
        self._round = 0
        self._revision = 0

    async def run(self) -> None:
        """Run a round after each interval, until cancelled."""
        while True:
            await self._clock.sleep(self._interval)
            try:
                await self.compact()
            except StorageError as error:
                LOG.warning("compaction waits for the next round: %s", error)

    async def compact(self) -> None:
        """One round: if no other server has had it, forget what was old when this server's last round ended.

        Raises:
            StorageError: etcd does not answer; the next round makes up for it.
        """
        request = pb.TxnRequest(
            compare=[pb.Compare(result="EQUAL", target="VERSION", key=_KEY, version=self._round)],
            success=[pb.RequestOp(request_put=pb.PutRequest(key=_KEY, value=str(self._revision).encode()))],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=_KEY))],
        )
        answer = await self._connection.call_once(lambda stubs: stubs.kv.Txn(request))
        old, self._revision = self._revision, answer.header.revision
        if not answer.succeeded:
            kept = answer.responses[0].response_range.kvs[0]
            self._round = kept.version
            self._tell(int(kept.value or b"0"))
            return
        self._round += 1
        if old:
            await self._connection.call(lambda stubs: stubs.kv.Compact(pb.CompactionRequest(revision=old)))
            self._tell(old)

    def _tell(self, revision: int) -> None:
        if revision:
            self._compacted(revision)
