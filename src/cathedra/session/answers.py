"""The sending half of a server session: results, pages, refusals and events as messages.

An object that the client received recently is sent as its number. Lists are encoded piece by piece, each once the
client has taken most of the last one, so that a client that reads slowly holds no copy of a table in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from cathedra.api.core.meta_v1 import Status
from cathedra.api.nulltimes import as_shown
from cathedra.api.scheme import GroupVersionKind, kind_of
from cathedra.api.status import StatusError
from cathedra.api.struct import KubeStruct, encode
from cathedra.apiserver.http.answers.negotiation import JSON_FORM
from cathedra.apiserver.http.answers.render import render_list
from cathedra.apiserver.pipeline.operations import deletion_status
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call, CallAnswer, Listing
from cathedra.frames import MessageWriter
from cathedra.kinds.definition import VersionDefinition
from cathedra.session.protocol import (
    STATUS,
    EndMessage,
    FailureMessage,
    ListMessage,
    ObjectMessage,
    Payload,
    PlainMessage,
    RequestMessage,
    SendWindow,
    ServedOverHTTP,
    UseHTTP,
)
from cathedra.session.requests import Requests, with_kind

LOG: Final = logging.getLogger(__name__)
SLOW_SECONDS: Final = 60.0
"""Time for which a client may leave messages unread; then its connection is aborted."""
_BUFFERED: Final = 4 * 1024 * 1024
"""Unread bytes from which a client counts as slow."""
_PIECE: Final = 512 * 1024
"""About the bytes of objects in one message of a list."""
_ENVELOPE: Final = 64
"""About the bytes of a message beside its object."""


class AnswerSender:
    """Sends messages on one connection. What is put before `open` or after `close` is dropped."""

    def __init__(self, requests: Requests, before_flush: Callable[[], None]) -> None:
        """``before_flush`` is called at the end of each turn of the loop and may put events."""
        self._pipeline = requests.pipeline
        self._gates = requests.context.gates
        self._before_flush = before_flush
        self._window = SendWindow()
        self._writer: MessageWriter | None = None
        self._transport: Any = None
        self._cutting: asyncio.TimerHandle | None = None
        self._taken = asyncio.Event()
        self._taken.set()

    def open(self, transport: Any) -> None:
        """Begin to send on a connection."""
        self._transport = transport
        self._writer = MessageWriter(transport, self._before_flush)
        # Beyond this the transport calls `pause`. The default of 64 KiB would pause for a single list.
        transport.set_write_buffer_limits(high=_BUFFERED)

    def close(self) -> None:
        """Drop unsent messages: the connection is lost. Calls still under way may go on to put messages."""
        self._stop_cutting()
        if self._writer is not None:
            self._writer.close()
        self._writer = self._transport = None
        self._window = SendWindow()  # it would keep its objects alive as long as a call that holds the session

    @property
    def is_open(self) -> bool:
        """True between `open` and `close`."""
        return self._writer is not None

    @property
    def is_slow(self) -> bool:
        """True while the client has too much to read: nothing more should be encoded for it."""
        return self._cutting is not None

    def pause(self) -> None:
        """Note that the client is slow; if it stays so, its connection is aborted."""
        if self._cutting is None:
            self._cutting = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._cut)
        self._taken.clear()

    def resume(self) -> None:
        """Note that the client reads again."""
        self._stop_cutting()
        self._taken.set()

    async def until_taken(self) -> None:
        """Wait as long as the client is slow."""
        while self.is_slow:
            await self._taken.wait()

    def schedule(self) -> None:
        """Schedule a write, with ``before_flush``, for the end of this turn."""
        if self._writer is not None:
            self._writer.schedule()

    def flush(self) -> None:
        """Write what was put."""
        if self._writer is not None:
            self._writer.flush()

    def put(self, message: Any, size: int = 0) -> None:
        """Send a message; ``size`` is that of its object."""
        if self._writer is not None:
            self._writer.put(message, size + _ENVELOPE)

    def refuse(self, number: int, record: RequestRecord, error: StatusError) -> None:
        """Send the refusal of a request, and set the status of its record."""
        record.status = error.code
        # Not a failure: the client sends the call over HTTP, where the final answer is recorded.
        if isinstance(error, ServedOverHTTP):
            self.put(UseHTTP(number))
            return
        if self._pipeline.audits and self._pipeline.wants_response(record):
            record.response_body = encode(error.to_json())
        self.put(FailureMessage(number, encode(error.status)))

    async def answer(self, request: RequestMessage, record: RequestRecord, answer: CallAnswer) -> None:
        """Send the result of a request, and complete its record."""
        call = answer.call
        if self._pipeline.audits and self._pipeline.wants_response(record):
            record.response_body = self._logged(call, answer)
        if answer.entry is not None:
            payload = self.stored(answer.entry, call.version, request.form)
            self.put(ObjectMessage(request.id, payload), len(payload.body))
            if call.verb == "create":
                record.created_name = answer.entry.object.metadata.name
        elif answer.listing is None:
            plain = _plain(request.id, answer.value)
            self.put(plain, len(plain.body))
        elif call.verb == "list":
            await self._page(request, call.version, answer.listing)
        else:
            self.put(EndMessage(request.id))  # of the deletion of a collection, whose objects no client reads
        record.status = answer.status

    def stored(self, entry: StoredObject, version: VersionDefinition, form: int) -> Payload:
        """Return the payload of a stored object in one version."""
        obj = entry.view(version)
        number = self._window.number_of(obj, form)
        # The store keeps the JSON of each version, so the object is not encoded again for each client.
        return Payload(number) if number else self._new(obj, form, entry.body(version))

    def made(self, obj: Any, form: int) -> Payload:
        """Return the payload of an object that is not stored in this form, as a bookmark or a converted object."""
        number = self._window.number_of(obj, form)
        return Payload(number) if number else self._new(obj, form, encode(obj))

    def _new(self, obj: Any, form: int, body: bytes) -> Payload:
        self._window.add(obj, form)
        return Payload(form, body)

    async def _page(self, request: RequestMessage, version: VersionDefinition, listing: Listing) -> None:
        objects: list[Payload] = []
        size = 0
        for entry in listing.entries:
            # Encoded here and not taken from the store: keeping the JSON of a whole table for one list would double its
            # memory.
            payload = self.made(entry.view(version), request.form)
            objects.append(payload)
            size += len(payload.body) + _ENVELOPE
            if size >= _PIECE:
                self.put(ListMessage(request.id, objects), size)
                objects, size = [], 0
                # Other connections are served between the pieces.
                await asyncio.sleep(0)
                await self.until_taken()
        # Only the last message has the revision: a client that loses the connection before it has no list at all.
        last = ListMessage(request.id, objects, str(listing.revision), listing.continue_, listing.remaining)
        self.put(last, size)

    def _logged(self, call: Call, answer: CallAnswer) -> bytes:
        """Return what the audit event shows of an answer: the body that it would have over HTTP."""
        if answer.listing is not None:
            shown = render_list(call, answer.listing, JSON_FORM)
            return shown.body + shown.tail
        if answer.entry is None:
            plain = _plain(0, as_shown(answer.value, self._gates))
            return with_kind(GroupVersionKind.parse(plain.api_version, plain.kind), plain.body)
        if answer.gone and not call.definition.strategy.returns_deleted_object:
            return encode(deletion_status(call, answer.entry))
        return with_kind(call.gvk, answer.entry.shown(call.version))

    def _cut(self) -> None:
        LOG.warning("a connection is closed: its client takes nothing off it")
        self._cutting = None
        if self._transport is not None:
            self._transport.abort()

    def _stop_cutting(self) -> None:
        if self._cutting is not None:
            self._cutting.cancel()
            self._cutting = None


def _plain(number: int, answer: KubeStruct) -> PlainMessage:
    """Return an answer that is no stored object as a message."""
    kind = STATUS if isinstance(answer, Status) else kind_of(type(answer))
    return PlainMessage(number, kind.api_version, kind.kind, encode(answer))
