"""Service of a store to the API servers in child processes, which write it as they would write etcd.

Such a server admits, defaults and validates by itself. Here a write's revision is compared, the next revision assigned,
and the write committed. Every server is sent what was settled, in order. A connection is a pair of sockets that the
child inherited, so there is nothing to listen on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, Final

from cathedra.api.status import StatusError
from cathedra.apiserver.registry.commitlog import CommitLog, Origin
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.registry.tables import Tables
from cathedra.apiserver.storage import primary
from cathedra.apiserver.storage.protocol import Record, StorageError, Write
from cathedra.frames import FrameError, MessageReader, MessageWriter

LOG: Final = logging.getLogger(__name__)
MOST_WAITING: Final = 256 * 1024 * 1024
"""Bytes that may wait for a server. One that takes no more has stopped, and its process is better started again."""


async def serve_replica(log: CommitLog, tables: Tables, connected: socket.socket) -> None:
    """Serve a store at the other end of a connected unix socket, until either end closes it."""
    connected.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(lambda: ReplicaConnection(log, tables), sock=connected)


class ReplicaConnection(asyncio.Protocol):
    """The connection of one server. It is sent what is stored first, then what is settled."""

    def __init__(self, log: CommitLog, tables: Tables) -> None:
        self._log, self._tables = log, tables
        self._reader = MessageReader(primary.FromReplica, primary.FRAME_BYTES)
        self._transport: Any = None
        self._outgoing: MessageWriter | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what is stored, and follow the log in the same turn: no write falls between the two."""
        self._transport = transport
        self._outgoing = MessageWriter(self._transport, at_once=primary.AT_ONCE)
        self._send_content()
        # After the content and in the same turn: a write between the two would be sent twice or never.
        self._log.followers.append(self)

    def data_received(self, data: bytes) -> None:
        """Take writes and questions."""
        try:
            for batch in self._reader.feed(data):
                for message in batch:
                    if type(message) is primary.Question:
                        self._send(primary.Settled(message.id, self._log.revision))
                    else:
                        self._write(message)
        except FrameError as error:
            LOG.error("an API server beside this one does not keep to the protocol and is cut: %s", error)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop following. Writes under way are completed: they may be durable already."""
        if self in self._log.followers:
            self._log.followers.remove(self)
        if self._outgoing is not None:
            self._outgoing.close()
            self._outgoing = None

    def close(self) -> None:
        """Close the connection; the process at the other end ends with it."""
        self._transport.close()

    def settled(self, write: Write, origin: Origin | None) -> None:
        """Send a settled write; to the server that made it, its revision alone."""
        if origin is not None and origin[0] is self:
            # The value is left out: the server kept what it sent. For large objects this halves the traffic.
            self._send(primary.Settled(origin[1], write.revision))
            return
        self._send(primary.Change(write.key, write.revision, write.value), len(write.value or b""))
        # Messages cannot be dropped, because the server could not notice the gap. Its process starts again with a full
        # load.
        if self._transport.get_write_buffer_size() > MOST_WAITING:
            LOG.error("an API server beside this one takes no more messages and is cut")
            self.close()

    def _write(self, message: primary.Forward) -> None:
        located = self._tables.locate(message.key)
        if located is None:
            writing, key, current = self._tables.under_way, message.key, self._tables.unclaimed_revision(message.key)
        else:
            (table, key), writing = located, located[0].under_way
            current = 0 if (found := table.get(key)) is None else found.revision
        if (waiting := writing.get(key)) is not None:
            # Writes of one object wait for each other, so the next one is compared with a settled state.
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            # The comparison is repeated from the start: the write that was waited for may have changed the revision.
            ended.add_done_callback(lambda _: self._write(message))
            waiting.append(ended)
            return
        if current != message.expected or not self._agrees(message, located):
            self._send(primary.Refused(message.id, current))
            return
        # Reserved before the log is called: it may settle at once, and a later message must already find the key taken.
        writing[key] = []

        def failed(error: str) -> None:
            self._send(primary.Refused(message.id, 0, error))

        self._log.take(message.key, message.value, located, (self, message.id), failed)

    def _agrees(self, message: primary.Forward, located: tuple[Table, str] | None) -> bool:
        """Return False if the write contradicts another object. The server that sent it compares it by itself then,
        with all that was settled here before the refusal."""
        if located is None or message.value is None or (check := located[0].check) is None:
            return True
        table, key = located
        record = Record(message.key, message.expected, message.value)
        try:
            check(key, table.get(key), self._tables.layout.read(table.definition, record))
        except StatusError:
            return False
        # What cannot be read allocates nothing here; `Tables.take` passes over it.
        except StorageError:
            return True
        return True

    def _send(self, message: Any, size: int = 0) -> None:
        if self._outgoing is not None:
            self._outgoing.put(message, size + primary.ENVELOPE_BYTES)

    def _send_content(self) -> None:
        for record in self._tables.records():
            self._send(primary.Change(record.key, record.revision, record.value), len(record.value))
        self._send(primary.Settled(primary.LOADED, self._log.revision))
