"""A stand-in for the members of an etcd cluster: one log of writes, and members that hang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from cathedra._proto import etcd_pb2 as pb

__all__ = ["Cluster"]


class Cluster:
    """The state of the members. A member that hangs accepts calls and answers none; its watches are silent."""

    def __init__(self, *endpoints: str, member_id: int = 1) -> None:
        self.revision = 10
        self.stored: dict[bytes, tuple[int, bytes]] = {}
        self.events: list[Any] = []
        self.transactions: list[Any] = []
        self.hanging: set[str] = set()
        self.silent: set[str] = set()
        """Members whose watches are silent, while they answer calls."""
        self.connecting: set[str] = set()
        """Members to which no metadata of a watch is sent yet, while calls are answered."""
        self.refuse: Callable[[Any], Exception | None] = lambda _: None
        self._member_id = member_id
        self._watches: list[_Watch] = []
        self.members = {endpoint: _Member(self, endpoint) for endpoint in endpoints}

    def header(self) -> Any:
        return pb.ResponseHeader(revision=self.revision, member_id=self._member_id)

    async def transact(self, request: Any) -> Any:
        self.transactions.append(request)
        error = self.refuse(request)
        if error is not None:
            raise error
        revision = self.revision + 1
        answer = self._carried_out(request, revision)
        changed = [event for event in self.events if event.kv.mod_revision == revision]
        if changed:
            self.revision = revision
        answer.header.CopyFrom(self.header())
        for watch in self._watches:
            if changed:
                watch.send(pb.WatchResponse(header=self.header(), events=changed))
        return answer

    def _carried_out(self, request: Any, revision: int) -> Any:
        succeeded = all(self._revision_of(one.key) == one.mod_revision for one in request.compare)
        answers = [self._operation(one, revision) for one in (request.success if succeeded else request.failure)]
        return pb.TxnResponse(succeeded=succeeded, responses=answers)

    def _operation(self, operation: Any, revision: int) -> Any:
        which = operation.WhichOneof("request")
        if which == "request_txn":
            return pb.ResponseOp(response_txn=self._carried_out(operation.request_txn, revision))
        if which == "request_put":
            put = operation.request_put
            self.stored[put.key] = (revision, put.value)
            self.events.append(pb.Event(kv=pb.KeyValue(key=put.key, value=put.value, mod_revision=revision)))
            return pb.ResponseOp(response_put=pb.PutResponse())
        if which == "request_delete_range":
            key = operation.request_delete_range.key
            deleted = int(self.stored.pop(key, None) is not None)
            self.events.append(pb.Event(type="DELETE", kv=pb.KeyValue(key=key, mod_revision=revision)))
            return pb.ResponseOp(response_delete_range=pb.DeleteRangeResponse(deleted=deleted))
        return pb.ResponseOp(response_range=self.read(operation.request_range))

    def read(self, request: Any) -> Any:
        end = request.range_end or request.key + b"\0"
        kvs = [
            pb.KeyValue(key=key, value=value, mod_revision=revision)
            for key, (revision, value) in sorted(self.stored.items())
            if request.key <= key < end
        ]
        return pb.RangeResponse(header=self.header(), kvs=[] if request.count_only else kvs, count=len(kvs))

    def watch(self, watch: _Watch) -> None:
        self._watches.append(watch)

    def _revision_of(self, key: bytes) -> int:
        return self.stored[key][0] if key in self.stored else 0


class _Member:
    """The stubs of one endpoint."""

    def __init__(self, cluster: Cluster, endpoint: str) -> None:
        self._cluster = cluster
        self.endpoint = endpoint
        self.kv = self.watch = self.maintenance = self

    @property
    def hangs(self) -> bool:
        return self.endpoint in self._cluster.hanging

    async def transact(self, request: bytes) -> Any:
        return await self.Txn(pb.TxnRequest.FromString(request))

    async def Txn(self, request: Any) -> Any:  # noqa: N802
        return await self._answered(lambda: self._cluster.transact(request))

    async def Range(self, request: Any) -> Any:  # noqa: N802
        async def read() -> Any:
            return self._cluster.read(request)

        return await self._answered(read)

    def Watch(self, metadata: Any) -> _Watch:  # noqa: N802
        watch = _Watch(self, self._cluster)
        self._cluster.watch(watch)
        return watch

    async def _answered(self, answer: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.sleep(0.001)
        if self.hangs:
            await asyncio.Event().wait()
        return await answer()


class _Watch:
    """A watch of everything, which begins with the past events after its start."""

    def __init__(self, member: _Member, cluster: Cluster) -> None:
        self._member = member
        self._cluster = cluster
        self._messages: asyncio.Queue[Any] = asyncio.Queue()
        self._reader: asyncio.Task[Any] | None = None

    async def write(self, request: Any) -> None:
        if self._member.endpoint in self._cluster.connecting:
            await asyncio.Event().wait()  # as grpc.aio, also if the call is cancelled meanwhile
        self.send(pb.WatchResponse(header=self._cluster.header(), created=True))
        start = request.create_request.start_revision
        past = [event for event in self._cluster.events if event.kv.mod_revision >= start]
        if past:
            self.send(pb.WatchResponse(header=self._cluster.header(), events=past))

    def send(self, message: Any) -> None:
        if not self._member.hangs and self._member.endpoint not in self._cluster.silent:
            self._messages.put_nowait(message)

    def cancel(self) -> None:
        if self._reader is not None:
            self._reader.cancel()

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            # As grpc.aio, which raises CancelledError in the reader of a call that is cancelled.
            self._reader = asyncio.ensure_future(self._messages.get())
            yield await self._reader
