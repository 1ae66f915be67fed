"""The primary's end of replicas: it numbers and keeps what they write, and tells each what the others write.

A replica is a process of the same cluster with an API server of its own, whose parts write there: admission, defaults,
validation and field owners are its work. What is left here is to see that nothing was written in between, as etcd does,
and to enter what was settled. The line is a pair of sockets that the process inherited: there is nothing to listen on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

from cathedra.apiserver.registry.commitlog import CommitLog, Forwarder
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.registry.watching import StoredChange
from cathedra.apiserver.storage.primary.messages import (
    AT_ONCE,
    ENVELOPE_BYTES,
    MOST_BYTES,
    Change,
    Content,
    Forward,
    FromReplica,
    Question,
    Reached,
    Refused,
    Settled,
    Unserved,
)
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.frames import FULL_BYTES, FrameError, MessageReader, MessageWriter

__all__ = ["Replicas"]

LOG: Final = logging.getLogger(__name__)
MOST_WAITING: Final = 256 * 1024 * 1024
"""Bytes that may wait for a replica. One that takes no more has stopped, and its process is better started again."""


class Replicas:
    """The replicas of one server."""

    def __init__(self, log: CommitLog, tables: Tables) -> None:
        self.log = log
        self.tables = tables
        self._lines: set[ReplicaLine] = set()

    async def serve(self, connected: socket.socket) -> None:
        """Serve the replica at the other end of a connected unix socket, until either end closes it."""
        connected.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(
            lambda: ReplicaLine(self, self._lines.discard), sock=connected
        )

    def joined(self, line: ReplicaLine) -> None:
        """From now on a replica follows."""
        self._lines.add(line)

    def close(self) -> None:
        """End every line."""
        for line in tuple(self._lines):
            line.close()


class ReplicaLine(asyncio.Protocol):
    """The line to one replica. It is told what is stored first, and what is settled after that."""

    def __init__(self, replicas: Replicas, left: Callable[[ReplicaLine], None]) -> None:
        self._replicas = replicas
        self._log, self._tables = replicas.log, replicas.tables
        self._left = left
        self._reader = MessageReader(FromReplica, MOST_BYTES)
        self._transport: Any = None
        self._outgoing: MessageWriter | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell what is stored, and follow from there."""
        self._transport = transport
        self._outgoing = MessageWriter(self._transport, at_once=AT_ONCE)
        self._tell_content()
        self._log.followers.append(self)
        self._replicas.joined(self)

    def data_received(self, data: bytes) -> None:
        """Take what the replica writes and asks."""
        try:
            for batch in self._reader.feed(data):
                for message in batch:
                    if type(message) is Question:
                        self._put(Reached(self._log.revision))
                    else:
                        self._write(message)
        except FrameError as error:
            LOG.error("the process of a replica cannot be understood and is cut: %s", error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """What it has begun goes on: it may be durable already."""
        if self in self._log.followers:
            self._log.followers.remove(self)
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None
        self._left(self)

    def close(self) -> None:
        """End the line; the replica's process ends with it."""
        self._transport.close()

    def settled(self, table: Table, change: StoredChange, body: bytes | None, origin: Forwarder | None) -> None:
        """Tell of a write: its maker the revision, any other the object."""
        if type(origin) is _Origin and origin.line is self:
            self._put(Settled(origin.id, change.revision))
            return
        entry = change.entry
        spelled = body if body is not None else self._tables.spelled(table, entry)
        self._put(Change(table.stored_under + entry.key, change.revision, spelled, change.deleted), len(spelled))
        if self._transport.get_write_buffer_size() > MOST_WAITING:
            LOG.error("the process of a replica takes nothing any more and is cut")
            self.close()

    def refuse(self, number: int, revision: int, failure: str = "") -> None:
        """Tell of a write that changed nothing: the object is at ``revision``, or the store failed (``failure``)."""
        self._put(Refused(number, revision, failure))

    def _write(self, message: Forward) -> None:
        located = self._tables.locate(message.key)
        if located is None:
            self._put(Unserved(message.id))
            return
        table, key = located
        waiting = table.under_way.get(key)
        if waiting is not None:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            ended.add_done_callback(lambda _: self._write(message))
            waiting.append(ended)
            return
        previous = table.get(key)
        current = 0 if previous is None else previous.revision
        if current != message.expected:
            self.refuse(message.id, current)
            return
        origin = _Origin(self, message.id)
        table.under_way[key] = []
        try:
            self._log.take(table, key, previous, message, origin)
        except StorageError as error:
            table.end(key)
            origin.failed(error)

    def _put(self, message: Any, size: int = 0) -> None:
        if self._outgoing is not None:
            self._outgoing.put(message, size + ENVELOPE_BYTES)

    def _tell_content(self) -> None:
        revision, size = self._log.revision, 0
        part: list[tuple[str, int, bytes]] = []
        for record in self._tables.records():
            part.append((record.key, record.revision, record.value))
            size += len(record.value) + len(record.key) + ENVELOPE_BYTES
            if size >= FULL_BYTES:
                self._put(Content(revision, tuple(part), last=False), size)
                part, size = [], 0
        self._put(Content(revision, tuple(part), last=True), size)


class _Origin:
    """Whose write it is, and what it calls it."""

    __slots__ = ("id", "line")

    def __init__(self, line: ReplicaLine, number: int) -> None:
        self.line = line
        self.id = number

    def failed(self, error: Exception) -> None:
        """Tell its maker that the store failed."""
        self.line.refuse(self.id, 0, str(error))
