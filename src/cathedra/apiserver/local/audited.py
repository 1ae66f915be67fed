"""The in-process transport of a cluster with an audit log: calls are logged as if they had come over HTTP.

Without it, the log would lack what scheduler, controllers and simulated nodes in the API server's process did.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from cathedra.api.status import StatusError
from cathedra.api.struct import KubeStruct, encode
from cathedra.apiserver.local.requests import record_of
from cathedra.apiserver.pipeline.pipeline import CLIENT_GONE, Recorder
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.transport import InProcessTransport
from cathedra.client.local.messages import LocalRequest
from cathedra.client.local.transport import options_of
from cathedra.client.transport import APICall, WatchEvent

__all__ = ["AuditedTransport"]


class AuditedTransport:
    """A transport to the server in this process, as one user, whose calls are in the audit log."""

    def __init__(self, inner: InProcessTransport, recorder: Recorder, agent: str) -> None:
        """``recorder`` writes the log; ``agent`` is the part's user agent in it."""
        self._inner = inner
        self._recorder = recorder
        self._agent = agent

    async def call(self, call: APICall) -> Any:
        """Carry out a call and log it."""
        record, status = self._begin(call), CLIENT_GONE
        try:
            answer = await self._inner.annotating(record.annotations).call(call)
            status = 201 if call.verb == "create" else 200
            if isinstance(answer, KubeStruct):
                record.response_body = encode(answer)
                metadata = getattr(answer, "metadata", None)
                record.created_name = getattr(metadata, "name", "")
        except StatusError as error:
            status = error.code
            raise
        finally:
            # Also when the caller is cancelled: an event that has begun must be completed.
            record.status = status
            self._recorder.end(record)
        return answer

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes; the log shows the begin and the end of the stream."""
        record, status = self._begin(call), 200
        try:
            async with self._inner.annotating(record.annotations).watch(call) as events:
                self._recorder.started(record, 200)
                yield events
        except StatusError as error:
            status = error.code
            raise
        finally:
            record.status = status
            self._recorder.end(record)

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the schemas of a group version. It is not logged: it is no request on a resource."""
        return await self._inner.get_raw(path, query)

    async def close(self) -> None:
        """Do nothing: it holds no resources."""

    def _begin(self, call: APICall) -> RequestRecord:
        ref, namespace = call.ref, call.namespace
        if call.verb == "update":
            namespace = namespace or call.body.metadata.namespace
        request = LocalRequest(
            0,
            0,
            call.verb,
            ref.group,
            ref.version,
            ref.resource,
            namespace if ref.namespaced else "",
            call.name,
            call.subresource,
            0,
            options_of(call),
            b"" if call.body is None else encode(call.body),
        )
        record = record_of(self._recorder, request, self._inner.user, agent=self._agent)
        self._recorder.begin(record)
        with contextlib.suppress(StatusError):
            # For the log alone: the call itself is refused by the transport. A body that was denied is not logged.
            self._recorder.authorize(record)
            record.request_body = request.body
        return record
