"""Watches over HTTP: one JSON document per line or one protobuf frame each, bookmarks, time limits
(docs/spec/apimachinery.md §9)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.protobuf import watch_frame, wrap
from cathedra.api.status import StatusError
from cathedra.api.struct import encode, replace
from cathedra.apiserver.http.answers import broadcast, tables
from cathedra.apiserver.http.answers.negotiation import PROTOBUF_TYPE, AnswerForm
from cathedra.apiserver.http.answers.protobuf import to_protobuf
from cathedra.apiserver.http.request import ClientGone
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.watching import Seen
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.read import WatchStart
from cathedra.asgi.application import Receive, Send
from cathedra.asgi.direct import DirectAnswer

_STREAMED_PROTOBUF: Final = f"{PROTOBUF_TYPE};stream=watch".encode()
_AT_ONCE: Final = 32
"""Initial events that are encoded before their size is checked."""
_PIECE: Final = 256 * 1024
"""Bytes of initial events that are sent at once, about."""
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class WatchOptions(msgspec.Struct, frozen=True):
    """The options of a watch, as its stream needs them."""

    timeout: float
    """Seconds after which the server ends the watch."""
    bookmarks: bool = False
    initial_bookmark: bool = False
    """True if a bookmark marks the end of the initial events."""
    include: str = ""
    """The objects in the rows of a table."""


class WatchStream:
    """One watch, from its initial events to its end."""

    def __init__(
        self,
        server: ServerContext,
        call: Call,
        start: WatchStart,
        form: AnswerForm,
        options: WatchOptions,
        has_begun: Callable[[], None] = lambda: None,
    ) -> None:
        """``has_begun`` is called when the initial events are sent."""
        self._server = server
        self._call = call
        self._start = start
        self._form = form
        self._options = options
        self._has_begun = has_begun
        self._converts = call.definition.conversion is not None
        self._rows = 0
        self._marked = asyncio.get_running_loop().time()
        """Time at which the last bookmark was sent, or the watch began."""
        self._protobuf = form.media_type == PROTOBUF_TYPE
        self._lines = (call.version.type, self._protobuf, form.drops_managers)
        """The form in which lines are shared with other watches."""

    async def run(
        self,
        send: Send,
        receive: Receive,
        audit_id: bytes,
        push: tuple[DirectAnswer, broadcast.WatchBroadcaster] | None = None,
    ) -> None:
        """Stream until the client disconnects, the time is over, or the server ends the watch.

        With ``push``, encoded events are written to it directly, except those that a webhook converts: these have to be
        awaited.
        """
        watcher = self._start.watcher
        loop = asyncio.get_running_loop()
        # ``end`` and not ``close``: events that are queued when the time is over are still sent. The client resumes
        # after them.
        timer = loop.call_later(self._options.timeout, watcher.end)
        # Without this task a watch on a quiet resource would outlive its client until the next event.
        gone = asyncio.create_task(_disconnected(receive, watcher.close), name="watch disconnect")
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _headers(self._form, audit_id)})
            # Before the broadcaster takes over: events of the watcher must come after the initial ones.
            await self._send_initial(send)
            self._has_begun()
            if push is not None and not self._converts:
                await self._broadcast(*push).run()
            else:
                await self._run_by_messages(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except StatusError as error:
            # The status 200 was sent, so an error can only be an event.
            body = _event(self._form, "ERROR", encode(error.to_json()))
            await send({"type": "http.response.body", "body": body, "more_body": False})
        except TimeoutError:
            raise ClientGone("a watcher takes nothing off its connection") from None
        finally:
            # All three are ended here, whatever ended the watch: a task or watcher that remains would live as long as
            # the server.
            timer.cancel()
            gone.cancel()
            self._start.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await gone

    def _broadcast(self, direct: DirectAnswer, broadcaster: broadcast.WatchBroadcaster) -> broadcast.BroadcastWatch:
        """Return the watch in the form that the fan-out takes."""
        return broadcast.BroadcastWatch(
            self._start.watcher,
            direct,
            broadcaster,
            encoded=lambda events: b"".join([self._line(seen) for seen in events]),
            shared=None if self._form.transform else self._lines,
            bookmark=(lambda: self._bookmark(self._server.registry.revision)) if self._options.bookmarks else None,
        )

    async def _run_by_messages(self, send: Send) -> None:
        while batch := await self._next_batch():
            async with asyncio.timeout(broadcast.SLOW_SECONDS):
                await self._send_events(send, batch)

    async def _next_batch(self) -> list[Seen] | bytes:
        watcher = self._start.watcher
        if not self._options.bookmarks:
            return await watcher.take()
        loop = asyncio.get_running_loop()
        left = self._marked + broadcast.BOOKMARK_SECONDS - loop.time()
        try:
            # Events first: a bookmark promises that everything up to its revision was sent.
            if left > 0 or watcher.has_events:
                async with asyncio.timeout(left if left > 0 else None):
                    return await watcher.take()
        except TimeoutError:
            pass
        self._marked = loop.time()
        return self._bookmark(self._server.registry.revision)

    async def _send_initial(self, send: Send) -> None:
        """Send the existing objects piece by piece: the next piece is encoded when the client has taken most of the
        last."""
        events, lines, size = self._start.initial_events(), [], 0
        while some := list(islice(events, _AT_ONCE)):
            for seen in await self._in_version(some):
                lines.append(self._line(seen))
                size += len(lines[-1])
            if size >= _PIECE:
                await self._send_lines(send, lines)
                # A list of 100,000 objects takes seconds to encode. Other requests get the loop in between.
                await asyncio.sleep(0)
                lines, size = [], 0
        if self._options.initial_bookmark:
            lines.append(self._bookmark(self._start.revision, {INITIAL_EVENTS_END: "true"}))
        await self._send_lines(send, lines)  # also if it is empty: then the headers go out at once

    async def _send_lines(self, send: Send, lines: list[bytes]) -> None:
        async with asyncio.timeout(broadcast.SLOW_SECONDS):
            await send({"type": "http.response.body", "body": b"".join(lines), "more_body": True})

    async def _send_events(self, send: Send, batch: list[Seen] | bytes) -> None:
        if not isinstance(batch, bytes):
            batch = b"".join([self._line(seen) for seen in await self._in_version(batch)])
        await send({"type": "http.response.body", "body": batch, "more_body": True})

    async def _in_version(self, events: list[Seen]) -> list[Seen]:
        """Return the events with objects in the version of the call.

        Raises:
            StatusError: 500, a webhook should convert them and failed.
        """
        if not self._converts:
            return events
        entries = await self._server.seen(self._call, [event.entry for event in events])
        return [Seen(event.type, entry) for event, entry in zip(events, entries, strict=True)]

    def _line(self, seen: Seen) -> bytes:
        call, entry = self._call, self._entry(seen)
        if not self._form.transform:
            # The first watch encodes the event; the others, hundreds perhaps, send the same bytes.
            return seen.line(self._lines) or seen.keep_line(self._lines, self._whole(seen))
        if self._form.transform == "Table":
            row = tables.row(call, entry, self._options.include, self._server.clock.now(), self._form.version)
            return self._table_line(seen.type.value, row, entry.object.metadata.resource_version)
        shown = tables.partial(entry, call, self._form.version)
        return _event(self._form, seen.type.value, encode(shown))

    def _entry(self, seen: Seen) -> StoredObject:
        return seen.entry.without_managers() if self._form.drops_managers else seen.entry

    def _whole(self, seen: Seen) -> bytes:
        call, entry = self._call, self._entry(seen)
        if self._protobuf:
            return watch_frame(seen.type.value, wrap(call.gvk, entry.message(call.version)))
        body = entry.shown(call.version)
        return b"".join((b'{"type":"', seen.type.value.encode(), b'","object":', call.prefix, body[1:], b"}\n"))

    def _table_line(self, kind: str, row: dict[str, Any], revision: str) -> bytes:
        document = tables.table(
            self._call,
            [row],
            {"resourceVersion": revision},
            version=self._form.version,
            # Only the first table has the definitions of its columns, as in Kubernetes; kubectl prints the header from
            # it.
            with_columns=self._rows == 0,
        )
        self._rows += 1
        return encode({"type": kind, "object": msgspec.Raw(document)}) + b"\n"

    def _bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        if self._form.transform == "Table":
            partial = {
                "kind": "PartialObjectMetadata",
                "apiVersion": f"meta.k8s.io/{self._form.version}",
                "metadata": metadata,
            }
            cells = ["" for _ in tables.columns(self._call)]
            return self._table_line("BOOKMARK", {"cells": cells, "object": partial}, str(revision))
        if self._form.transform:
            kind, api_version = "PartialObjectMetadata", f"meta.k8s.io/{self._form.version}"
        else:
            kind, api_version = self._call.definition.kind, self._call.api_version
        shown = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if not self._form.transform:
            # A bookmark has the fields of an empty object: typed clients decode it as one, and refuse null in required
            # lists.
            empty = self._call.version.type()
            marked = replace(empty, metadata=ObjectMeta(resource_version=str(revision), annotations=annotations or {}))
            body = StoredObject("", marked, 0).shown(self._call.version)
            return _event(self._form, "BOOKMARK", self._call.prefix + body[1:])
        return _event(self._form, "BOOKMARK", encode(shown))


async def send_error_stream(send: Send, error: StatusError, form: AnswerForm, audit_id: bytes) -> None:
    """Answer a watch whose resource version is too old: HTTP 200, one ERROR event, the end."""
    await send({"type": "http.response.start", "status": 200, "headers": _headers(form, audit_id)})
    event = _event(form, "ERROR", encode(error.to_json()))
    await send({"type": "http.response.body", "body": event, "more_body": False})


def _headers(form: AnswerForm, audit_id: bytes) -> list[tuple[bytes, bytes]]:
    protobuf = form.media_type == PROTOBUF_TYPE
    return [
        (b"audit-id", audit_id),
        (b"cache-control", b"no-cache, private"),
        (b"content-type", _STREAMED_PROTOBUF if protobuf else b"application/json"),
        (b"transfer-encoding", b"chunked"),
    ]


def _event(form: AnswerForm, kind: str, body: bytes) -> bytes:
    """Return one event with the JSON of an object, kind and apiVersion included."""
    if form.media_type == PROTOBUF_TYPE:
        return watch_frame(kind, to_protobuf(body))
    return b"".join((b'{"type":"', kind.encode(), b'","object":', body, b"}\n"))


async def _disconnected(receive: Receive, close: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    close()
