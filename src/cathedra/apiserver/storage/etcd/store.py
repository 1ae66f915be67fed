"""Store in etcd v3, under the keys that Kubernetes uses, shared by any number of API servers.

A write is a transaction that compares the revision of the last write (`groupcommit`). What all servers wrote comes back
on one watch of the whole prefix. etcd numbers the writes: its revisions are the objects' resource versions.

Calls and the watch may be at different members. A member that hangs keeps its connections and sends nothing, so the
watch counts as lost if an acknowledged write does not arrive on it, and is made anew at the member that calls reach.

Old revisions are compacted as kube-apiserver does it: every five minutes what is older than five minutes. All servers
take part; a transaction on one key, ``compact_rev_key``, lets one of them do the work of a round. Real API servers on
the same etcd use the same key and the same rule, so they do not get in each other's way.

kine serves the same protocol from SQLite, PostgreSQL or MySQL. It accepts only the forms of transactions that
kube-apiserver sends: one comparison, one operation on success, and a read on failure. Every transaction has one of
these forms; only etcd gets several of them in one, or further comparisons (`FencedStorage`). Three weaker promises of
kine are handled where they matter: revisions of empty reads, revisions of pages, and progress of watches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final

import grpc.aio

from cathedra._proto import etcd_pb2 as pb
from cathedra.apiserver.storage.etcd.connection import READ_SECONDS, EtcdAddress, EtcdConnection
from cathedra.apiserver.storage.etcd.groupcommit import CREATED, GroupCommit, put, transaction
from cathedra.apiserver.storage.protocol import (
    HistoryLost,
    Record,
    StorageError,
    StoreContent,
    StoreProgress,
    Write,
)
from cathedra.clock import Clock

LOG: Final = logging.getLogger(__name__)
INTERVAL_SECONDS: Final = 300.0
"""Seconds between two rounds of compaction, and the age of the revisions that a round removes."""
_PAGE: Final = 1000
_DELETE: Final = pb.Event.DELETE
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_REQUIRE_LEADER: Final = (("hasleader", "true"),)
"""Metadata that makes a member which has lost its cluster end the watch instead of being silent."""
_NUDGE: Final = "cathedra.dev/nudge"
"""A key without a meaning. Writing it makes every watch report the revision of that write."""
SILENT_SECONDS: Final = 1.5
"""Time in which an acknowledged write has to arrive on the watch, at least; at most twice as long passes."""


class EtcdStorage:
    """A `SharedStorage` in etcd v3."""

    def __init__(self, address: EtcdAddress, *, clock: Clock, compaction_interval: float = INTERVAL_SECONDS) -> None:
        self._prefix = f"{address.prefix}/".encode()
        self._clock = clock
        self._interval = compaction_interval
        self._connection = EtcdConnection(address, clock, self._left)
        self._commits = GroupCommit(self._connection, self._prefix)
        self._background: tuple[asyncio.Task[None], ...] = ()
        self._nudged = 0
        """Revision of the last known write of the key `_NUDGE`."""
        self._watch: Any = None
        """The call of the watch that is followed, and the endpoint that it goes to."""
        self._watched = ""
        self._followed = 0
        """The revision up to which the watch has yielded everything."""
        self._messages = 0
        """Messages of the watch so far."""

    @property
    def shares_revisions(self) -> bool:
        """True if several writes of a resource may get one revision."""
        return self._commits.mixes

    @shares_revisions.setter
    def shares_revisions(self, shared: bool) -> None:
        self._commits.mixes = shared

    @property
    def problem(self) -> str:
        """Return the reason why the last call to etcd failed, or the watch; "" if it did not."""
        return self._connection.problem

    async def load(self, compacted: Callable[[int], None]) -> StoreContent:
        """Return all objects at one revision, read page by page.

        Raises:
            StorageError: etcd does not answer, or refuses.
        """
        if not self._background:
            compactor = Compactor(self._connection, self._clock, compacted, self._interval)
            self._background = (
                asyncio.create_task(compactor.run(), name="etcd compaction"),
                asyncio.create_task(self._check_watch(), name="etcd watch check"),
            )
        records: list[Record] = []
        # The first page must not choose the revision: kine reports one at which it counted the other pages, and a write
        # between reading and counting would be missing from the page and from the watch that begins after it.
        start, revision = self._prefix, await self._write_nudge()
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

    async def keep(self, key: str, value: bytes, seconds: int) -> int:
        """Write a key with a lease of its own, which is not kept alive: the next call grants another one."""
        lease = await self._connection.call(lambda stubs: stubs.lease.LeaseGrant(pb.LeaseGrantRequest(TTL=seconds)))
        full = self._key(key)
        found = (await self._range(pb.RangeRequest(key=full))).kvs
        request = transaction(full, found[0].mod_revision if found else CREATED, put(full, value, lease.ID))
        answer = await self._connection.call_once(lambda stubs: stubs.transact(request))
        if not answer.succeeded:
            raise StorageError(f"{key} was written by another server at this moment")
        return int(answer.header.revision)

    async def values(self, prefix: str) -> Mapping[str, bytes]:
        """Return the values of all keys that begin with ``prefix``."""
        start = self._key(prefix)
        answer = await self._range(pb.RangeRequest(key=start, range_end=start[:-1] + bytes((start[-1] + 1,))))
        return {self._name(kv.key): kv.value for kv in answer.kvs}

    def write(self, key: str, value: bytes | None, *, expected: int) -> asyncio.Future[int]:
        """As `SharedStorage.write`. Writes of one turn of the loop share transactions."""
        return self._commits.write(key, value, expected)

    def write_fenced(
        self, key: str, value: bytes | None, *, expected: int, fences: Mapping[str, int]
    ) -> asyncio.Future[int]:
        """As `FencedStorage.write_fenced`. kine compares one key in a transaction, so it compares no fences."""
        compared = {self._key(name): revision for name, revision in fences.items()} if self._commits.nests else {}
        return self._commits.write(key, value, expected, compared)

    async def latest(self) -> int:
        """Return the revision of a linearizable read of a key that exists."""
        # kine reports the latest revision beside a key that it finds. Beside nothing it reports the one up to which its
        # watches are, which may be older than a write that was acknowledged.
        answer = await self._range(pb.RangeRequest(key=self._key(_NUDGE), count_only=True))
        return int(answer.header.revision) if answer.count else await self._write_nudge()

    async def nudge(self) -> int:
        """Write a key that means nothing.

        A request for progress would do the same without a write, but up to etcd 3.4.24 and 3.5.7 its answer may
        overtake events.
        """
        return await self._write_nudge()

    async def follow(self, after: int) -> AsyncGenerator[StoreProgress, None]:
        """Yield the events of a watch of the whole prefix. It is made again from where it broke.

        Raises:
            HistoryLost: etcd has compacted what comes next.
        """
        pause = _FIRST_PAUSE
        self._followed = after
        while True:
            endpoint = self._connection.endpoint
            stream = self._connection.stubs.watch.Watch(metadata=_REQUIRE_LEADER)
            self._watch, self._watched = stream, endpoint
            try:
                # From the revision after the last one that was yielded: a gap would be a change that no watcher of this
                # server sees.
                async with asyncio.timeout(READ_SECONDS):
                    await stream.write(self._watch_request(self._followed + 1))
                async for answer in stream:
                    self._messages += 1
                    pause = _FIRST_PAUSE
                    progress = self._progress(answer)
                    if progress is not None:
                        yield progress
                    elif answer.canceled:
                        break
            except grpc.aio.AioRpcError as error:
                self._connection.leave(endpoint, f"the watch ended: {error.details()}")
            except TimeoutError:
                # If `_left` cancels a call whose metadata was not sent yet, grpc.aio never ends the first write.
                if self._watch is not None:
                    self._connection.leave(endpoint, f"no watch could be begun in {READ_SECONDS:g} s")
            except asyncio.CancelledError:
                # `_left` cancels the call alone, and the watch is made anew. All else cancels this task.
                task = asyncio.current_task()
                if task is None or task.cancelling() or self._watch is not None:
                    raise
            finally:
                # Also when the consumer ends the generator. etcd would go on sending events to a stream without a
                # reader.
                stream.cancel()
            await self._clock.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def close(self) -> None:
        """End what runs in the background and close the connections."""
        background, self._background = self._background, ()
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await self._commits.close()
        await self._connection.close()

    def _progress(self, answer: Any) -> StoreProgress | None:
        """Return what a message of the watch has, if that is new.

        Raises:
            HistoryLost: etcd has compacted what comes next.
        """
        if answer.canceled:
            if answer.compact_revision:
                raise HistoryLost(f"etcd has compacted the revisions up to {answer.compact_revision}")
            LOG.warning("etcd ended the watch: %s", answer.cancel_reason)
            return None
        self._connection.answered(self._watched)
        if answer.created:
            return None
        writes = tuple(self._written(event) for event in answer.events)
        # Progress of kine, whose headers name no member, may overtake events. Events after it would then be taken for
        # known ones.
        if not writes and not answer.header.member_id:
            return None
        # A message without events reports progress. Its revision may be older than what was yielded already.
        self._followed = max(self._followed, writes[-1].revision if writes else answer.header.revision)
        return StoreProgress(self._followed, writes)

    def _left(self, endpoint: str) -> None:
        """Make the watch anew if it is at an endpoint that does not answer."""
        if self._watch is not None and endpoint == self._watched:
            stream, self._watch = self._watch, None
            stream.cancel()

    async def _check_watch(self) -> None:
        """Leave the endpoint of a watch on which an acknowledged write does not arrive, until cancelled."""
        while True:
            messages, expected = self._messages, self._commits.acknowledged
            await self._clock.sleep(SILENT_SECONDS)
            if self._watch is not None and messages == self._messages and self._followed < expected:
                self._connection.leave(
                    self._watched,
                    f"the watch is at revision {self._followed}, and revision {expected} was acknowledged",
                )

    async def _write_nudge(self) -> int:
        """Write the key `_NUDGE`. Return the revision of a write of it that was made during this call."""
        key = self._key(_NUDGE)
        for first in (True, False):
            request = transaction(key, self._nudged, put(key))
            answer = await self._connection.call_once(lambda stubs: stubs.transact(request))  # noqa: B023 - called at once
            if answer.succeeded:
                self._nudged = answer.header.revision
                break
            found = answer.responses[0].response_range.kvs
            self._nudged = found[0].mod_revision if found else CREATED
            if not first:
                # Another server has written the key since the first attempt, which is as good.
                break
        self._commits.nests = bool(answer.header.member_id)  # headers of kine name no member
        self._commits.acknowledged = max(self._commits.acknowledged, self._nudged)
        return self._nudged

    async def _range(self, request: pb.RangeRequest) -> Any:
        return await self._connection.call(lambda stubs: stubs.kv.Range(request))

    @property
    def _end(self) -> bytes:
        """The first key after the prefix."""
        return self._prefix[:-1] + bytes((ord("/") + 1,))

    def _key(self, name: str) -> bytes:
        return self._prefix + name.encode()

    def _name(self, key: bytes) -> str:
        """Return a key that was read or watched below the prefix without the prefix."""
        return key[len(self._prefix) :].decode("utf-8", "replace")

    def _watch_request(self, start: int) -> pb.WatchRequest:
        create = pb.WatchCreateRequest(
            # Without progress messages a quiet prefix would look outdated, because other users of etcd raise its
            # revision.
            key=self._prefix,
            range_end=self._end,
            start_revision=start,
            progress_notify=True,
        )
        return pb.WatchRequest(create_request=create)

    def _written(self, event: Any) -> Write:
        kv = event.kv
        return Write(self._name(kv.key), kv.mod_revision, None if event.type == _DELETE else kv.value)


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
        """Run one round: if no other server has run it, compact up to the revision of this server's last round.

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
