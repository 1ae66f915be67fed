"""The API server as an ASGI application: requests and answers in bytes.

Every request, WebSockets included, is parsed once into a `RequestInfo`, goes through the pipeline
(`cathedra.apiserver.pipeline`) and is recorded however it ends. Errors become Status objects only here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from cathedra.api.status import StatusError, internal_error
from cathedra.apiserver.http.about.server import About
from cathedra.apiserver.http.answers.render import YAML_OF_JSON, in_form_of, in_yaml, warning_headers
from cathedra.apiserver.http.answers.response import (
    JSON,
    Response,
    compressed,
    head_of,
    send_response,
    status_response,
    takes_gzip,
    text_response,
    worth_compressing,
)
from cathedra.apiserver.http.proxying.aggregation import AggregatedServers
from cathedra.apiserver.http.request import ClientGone, Request
from cathedra.apiserver.http.resources import ResourceHandler
from cathedra.apiserver.names import generate_uid
from cathedra.apiserver.pipeline.consistency import has_moved
from cathedra.apiserver.pipeline.operations import not_served, wrong_method
from cathedra.apiserver.pipeline.pipeline import CLIENT_GONE, NO_MEMORY, Pipeline
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.asgi.application import PEER_CERTIFICATE, Message, Receive, Scope, Send
from cathedra.exposition import CONTENT_TYPE
from cathedra.releases import behaviours

SWITCHED: Final = 101
LOG: Final = logging.getLogger(__name__)
_PANIC: Final = "This request caused apiserver to panic. Look in the logs for details.\n"
_NOT_FOUND: Final = "404 page not found\n"
UpgradeHandler = Callable[[Request, Send], Awaitable[None]]
"""Carries out the upgrade that an authorized request names, or raises a StatusError."""
_Way = Callable[[Request, Send], Awaitable[None]]
_STARTS: Final = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})


class Application:
    """The API server as an ASGI application."""

    def __init__(
        self,
        server: ServerContext,
        pipeline: Pipeline,
        resources: ResourceHandler,
        about: About,
        *,
        aggregated: AggregatedServers,
        upgrades: Mapping[str, UpgradeHandler] = MappingProxyType({}),
    ) -> None:
        """``upgrades`` are paths on which other protocols than HTTP may be requested."""
        self._server = server
        self.pipeline = pipeline
        """The steps of every request."""
        self.metrics = pipeline.metrics
        self._about = about
        self._aggregated = aggregated
        self._upgrades = upgrades
        self._resources = resources
        self._ways: Mapping[str, _Way] = {"http": self._http, "websocket": self._websocket}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or one WebSocket, and record it however it ends."""
        answer = self._ways.get(scope["type"])
        if answer is None:
            return
        request = Request(scope, receive, generate_uid(self._server.random), self._server.clock.monotonic())
        record, pipeline = request.record, self.pipeline
        # Before anything can fail: the count of requests in flight is lowered in ``finally``, and must have been
        # raised.
        pipeline.begin(record)
        # A partial: a function within this one would make cells of its variables, for each request.
        observed = partial(self._observed, request, send)
        try:
            await answer(request, observed)
        except ClientGone:
            # A status that was sent stays in the record; only a request without an answer counts as abandoned.
            record.status = record.status or CLIENT_GONE
        except asyncio.CancelledError:
            record.status = record.status or CLIENT_GONE
            raise
        except Exception:
            # The last resort: whatever failed, the client gets an answer, and the record has its status.
            LOG.exception("%s %s failed", record.info.method, record.info.path)
            if record.status:
                # The head was sent, so no other answer is possible. The connection is closed, or the client would take
                # the first part for the whole answer.
                record.status = 500
                raise
            await self._refuse(request, observed, text_response(_PANIC, 500))
        finally:
            if pipeline.audits:
                self._note_for_audit(request)
            pipeline.end(record)

    async def _observed(self, request: Request, send: Send, message: Message) -> None:
        """Send a message of an answer. All messages pass here, also those of streams; the first has the status."""
        record, pipeline = request.record, self.pipeline
        if not record.status and message["type"] in _STARTS:
            record.status = message.get("status", SWITCHED)
            if record.info.long_running and record.status < 400:
                if pipeline.audits:
                    self._note_for_audit(request)
                pipeline.started(record, record.status)
            # Clients find the flow schema and priority level of a refusal by these headers (API Priority and Fairness).
            if record.classification.headers and "headers" in message:
                message["headers"] = [*message["headers"], *record.classification.headers]
        try:
            await send(message)
        except OSError as error:  # raised by servers after the client has disconnected
            raise ClientGone(request.path) from error

    def _note_for_audit(self, request: Request) -> None:
        """Note the parts of HTTP that audit events show."""
        record = request.record
        record.user_agent = request.header(b"user-agent")
        record.source = (request.scope.get("client") or ("",))[0]
        record.request_body = request.read_body

    async def _http(self, request: Request, send: Send) -> None:
        response: Response | None
        record = request.record
        try:
            try:
                self._authenticate(request)
            except StatusError:
                # The credential may be one that another server has just given out. The error that is raised again has
                # no name here: a frame that names an exception and is in its traceback is a cycle, with the whole
                # request in it.
                registry = self._server.registry
                if not await has_moved(registry, registry.revision):
                    raise
                self._authenticate(request)
            response = await self.pipeline.run(record, partial(self._carried_out, request, send))
        except StatusError as error:
            # Warnings are sent with refusals, too. kube-apiserver adds them as soon as they arise.
            response = status_response(error, warning_headers(record.warnings))
        except StorageError as error:
            LOG.error("the store failed: %s", error)
            response = status_response(internal_error(str(error)))
        except MemoryError:
            if record.status:  # the head is out
                raise
            # No defect, so one line is enough; a traceback would need memory, too.
            LOG.error("%s %s failed: %s", record.info.method, record.info.path, NO_MEMORY)
            response = status_response(internal_error(NO_MEMORY))
        if response is not None:
            await self._send(request, response, send)

    async def _websocket(self, request: Request, send: Send) -> None:
        response: Response | None
        try:
            # A WebSocket is passed on once. Unlike other requests, it cannot be repeated with a newer state.
            await self._server.registry.catch_up()
            self._authenticate(request)
            self.pipeline.authorize(request.record)
            response = await self._passed_websocket(request, send)
        except StatusError as error:
            response = status_response(error)
        if response is not None:
            await self._refuse(request, send, response)

    def _authenticate(self, request: Request) -> None:
        record = request.record
        self.pipeline.authenticate(record, request.headers, request.extensions.get(PEER_CERTIFICATE))
        request.user = record.acting
        if record.query:
            request.check_query()

    async def _passed_websocket(self, request: Request, send: Send) -> Response | None:
        """Pass a WebSocket on to the server that answers it. Return an answer if it is refused."""
        if (service := self._aggregated.behind(request.info)) is not None:
            await self._aggregated.websocket(request, service, send)
            return None
        return await self._resources.websocket(request, send)

    async def _send(self, request: Request, response: Response, send: Send) -> None:
        if response.status >= 400 and response.content_type == JSON:
            response = in_form_of(response, request.header(b"accept"))
        if response.content_type == YAML_OF_JSON:
            # A name of its own, because the lambda runs in a thread after ``response`` was assigned again.
            made = response
            response = await self._server.computations.compute(lambda _: in_yaml(made), request.user.name)
        if self.pipeline.audits:
            request.record.response_body = response.body + response.tail
        # After the audit record, which holds the body in plain text.
        if worth_compressing(response) and takes_gzip(request.header(b"accept-encoding")):
            response = await compressed(response)
        # After compression: the metric is about the size on the network.
        if request.info.verb == "list":
            request.record.response_size = len(response.body) + len(response.tail)
        # The fast path hands status, lines and body to the connection in one call. It needs a whole answer and a
        # connection that takes bytes now.
        head, direct = request.info.method == "HEAD", request.direct
        if direct is None or head or request.info.long_running or not direct.ready:
            await send_response(send, response, audit_id=request.audit_id, head=head)
            return
        request.record.status = response.status
        lines = head_of(response, request.audit_id, request.record.classification.lines)
        direct.answer(response.status, lines, response.body, response.tail)

    async def _refuse(self, request: Request, send: Send, response: Response) -> None:
        """Send an answer: on a WebSocket that is not open yet, in plain HTTP."""
        if request.scope["type"] == "http":
            await self._send(request, response, send)
            return
        headers = [(b"content-type", response.content_type), (b"audit-id", request.audit_id)]
        await send({"type": "websocket.http.response.start", "status": response.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": response.body})

    def _carried_out(self, request: Request, send: Send) -> Awaitable[Response | None]:
        info = request.info
        # Aggregated groups come first. Their resources are unknown to this server's catalog, which would answer 404.
        if (service := self._aggregated.behind(info)) is not None:
            return self._aggregated.forward(request, service, send)
        if info.is_resource and not info.path.startswith("//"):
            return self._resources.handle(request, send)
        return self._about_server(request, send)

    async def _about_server(self, request: Request, send: Send) -> Response | None:
        """Return the answer to a request on a path that names no resource."""
        info = request.info
        if not info.reads and _read_only(info.path):
            raise wrong_method()
        if (upgrade := self._upgrades.get(info.path)) is not None:
            await upgrade(request, send)
            return None
        if info.path == "/metrics":
            return Response(200, self.metrics.text(), CONTENT_TYPE)
        # The routes of kube-apiserver begin with one slash. The parsed path has lost further ones, which stay in the
        # operation that is authorized: such a path would be answered as another one.
        response = None if info.path.startswith("//") else await self._about.answer(request)
        answers_status = self._server.gates.has(behaviours.UNKNOWN_PATHS_ANSWER_STATUS)
        if response is None and (info.path.startswith("/api/") or answers_status):
            # What begins like the core group is answered like it, whatever version follows.
            raise not_served()
        return response or text_response(_NOT_FOUND, 404)


def _read_only(path: str) -> bool:
    """Return True if the path may only be read; the list of groups answers every method."""
    parts = path.strip("/").split("/")
    return parts[0] in {"api", "version"} or (parts[0] == "apis" and len(parts) > 1)
