"""The ASGI application: authenticate, authorize, answer, record.

Every request, WebSockets included, takes the same way: its `RequestInfo` is parsed once, its user is found out, it is
authorized by that info, dispatched by that info, and recorded for metrics and audit whatever became of it. Failures
become Status objects here and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from cathedra.api.status import StatusError, internal_error
from cathedra.apiserver.authentication.authenticator import Authenticator
from cathedra.apiserver.authorization.authorizer import REASON, Attributes, refusal
from cathedra.apiserver.authorization.impersonation import asks_to_impersonate, impersonated
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.computation import timed_out
from cathedra.apiserver.http.about.discovery import Discovery
from cathedra.apiserver.http.about.health import HealthAndVersion
from cathedra.apiserver.http.about.issuer import issuer_document
from cathedra.apiserver.http.answers.compression import compressed, takes_gzip, worth_compressing
from cathedra.apiserver.http.answers.render import YAML_OF_JSON, in_form_of, in_yaml
from cathedra.apiserver.http.answers.response import (
    JSON,
    Response,
    head_of,
    send_response,
    status_response,
    text_response,
)
from cathedra.apiserver.http.consistency import carried_out
from cathedra.apiserver.http.proxying.aggregation import AggregatedServers
from cathedra.apiserver.http.proxying.proxy import Proxy
from cathedra.apiserver.http.request import ClientGone, Request
from cathedra.apiserver.http.resources import ResourceHandler, not_served, wrong_method
from cathedra.apiserver.names import generate_uid
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.traffic.audit import AuditLog
from cathedra.apiserver.traffic.deadlines import REQUEST_SECONDS, Deadlines, deadline_of
from cathedra.apiserver.traffic.flow import Flow
from cathedra.apiserver.traffic.levels import Seat
from cathedra.apiserver.traffic.metrics import CONTENT_TYPE, Metrics
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.asgi.application import Message, Receive, Scope, Send
from cathedra.asgi.peercertificate import PEER_CERTIFICATE, PeerCertificate
from cathedra.asgi.upgrade import SESSION_UPGRADE
from cathedra.client.local.messages import SESSION_PATH

__all__ = ["Application"]

CLIENT_GONE: Final = 499
"""The status that is recorded for a client that left before its answer."""
SWITCHED: Final = 101
LOG: Final = logging.getLogger(__name__)
_PANIC: Final = "This request caused apiserver to panic. Look in the logs for details.\n"
_NOT_FOUND: Final = "404 page not found\n"
_SELECTED: Final = frozenset({"list", "watch", "deletecollection"})
_Way = Callable[[Request, Send], Awaitable[None]]
_STARTS: Final = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})


class SessionDoor(Protocol):
    """Opens sessions in the binary protocol on connections that leave HTTP."""

    async def open(self, request: Request, send: Send) -> None:
        """Take the upgrade that an authorized request asks for.

        Raises:
            StatusError: it is refused.
        """


class Application:
    """The API server as an ASGI application."""

    def __init__(
        self,
        server: ServerContext,
        catalog: Catalog,
        authenticator: Authenticator,
        discovery: Discovery,
        health: HealthAndVersion,
        proxy: Proxy,
        *,
        aggregated: AggregatedServers,
        flow: Flow,
        audit: AuditLog | None = None,
    ) -> None:
        self._server = server
        self._authenticator = authenticator
        self._discovery = discovery
        self._health = health
        self._aggregated = aggregated
        self._flow = flow
        self.deadlines = Deadlines()
        """Those of all requests, also of ones that come another way."""
        self.sessions: SessionDoor | None = None
        """None: this server speaks HTTP alone."""
        self._audit = audit
        self.metrics = Metrics(server.registry, flow, catalog)
        """What is counted, also of requests that come another way."""
        if audit is not None:
            self.metrics.audit_events = lambda: audit.written
        self._resources = ResourceHandler(server, catalog, proxy)
        self._ways: Mapping[str, _Way] = {"http": self._http, "websocket": self._websocket}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or one WebSocket, and tell metrics and audit of it however it ends."""
        answer = self._ways.get(scope["type"])
        if answer is None:
            return
        now = self._server.clock.monotonic
        request = Request(scope, receive, generate_uid(self._server.random), now())
        record = request.record
        self.metrics.begin(record)

        async def observed(message: Message) -> None:
            if not record.status and message["type"] in _STARTS:
                record.status = message.get("status", SWITCHED)
                if request.info.long_running and record.status < 400:
                    self._log_stage(request, "ResponseStarted")
                if request.place.headers and "headers" in message:
                    message["headers"] = [*message["headers"], *request.place.headers]
            try:
                await send(message)
            except OSError as error:  # what a server raises where the client has left
                raise ClientGone(request.path) from error

        try:
            await answer(request, observed)
        except ClientGone:
            record.status = record.status or CLIENT_GONE
        except asyncio.CancelledError:
            record.status = record.status or CLIENT_GONE
            raise
        except Exception:
            # The last resort: whatever failed, the client gets an answer and the record says what it was.
            LOG.exception("%s %s failed", record.info.method, record.info.path)
            if record.status:
                record.status = 500
                raise
            await self._refuse(request, observed, text_response(_PANIC, 500))
        finally:
            self.metrics.end(record, now() - record.began)
            self._log_stage(request, "ResponseComplete")

    async def _http(self, request: Request, send: Send) -> None:
        response: Response | None
        try:
            response = await self._answer(request, send)
        except StatusError as error:
            response = status_response(error)
        except StorageError as error:
            LOG.error("the store failed: %s", error)
            response = status_response(internal_error(str(error)))
        if response is not None:
            await self._send(request, response, send)

    async def _websocket(self, request: Request, send: Send) -> None:
        try:
            if self._server.registry.shared:
                await self._server.registry.catch_up()
            self._authenticate(request)
            self._authorize(request)
            response = await self._passed_websocket(request, send)
        except StatusError as error:
            response = status_response(error)
        if response is not None:
            await self._refuse(request, send, response)

    async def _passed_websocket(self, request: Request, send: Send) -> Response | None:
        """Pass a WebSocket on to who answers for it; an answer is a refusal."""
        if (service := self._aggregated.behind(request.info)) is not None:
            await self._aggregated.websocket(request, service, send)
            return None
        return await self._resources.websocket(request, send)

    async def _send(self, request: Request, response: Response, send: Send) -> None:
        if response.status >= 400 and response.content_type == JSON:
            response = in_form_of(response, request.header(b"accept"))
        if response.content_type == YAML_OF_JSON:
            made = response
            response = await self._server.computations.compute(lambda _: in_yaml(made), request.user.name)
        if self._audit is not None:
            request.record.response_body = response.body + response.tail
        if worth_compressing(response) and takes_gzip(request.header(b"accept-encoding")):
            response = await compressed(response)
        head, exchange = request.info.method == "HEAD", request.exchange
        if exchange is None or head or request.info.long_running or not exchange.ready:
            await send_response(send, response, audit_id=request.audit_id, head=head)
            return
        request.record.status = response.status
        lines = head_of(response, request.audit_id, request.place.lines)
        exchange.answer(response.status, lines, response.body, response.tail)

    async def _refuse(self, request: Request, send: Send, response: Response) -> None:
        """Send an answer; on a WebSocket that is not open yet, plain HTTP."""
        if request.scope["type"] == "http":
            await self._send(request, response, send)
            return
        headers = [(b"content-type", response.content_type), (b"audit-id", request.audit_id)]
        await send({"type": "websocket.http.response.start", "status": response.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": response.body})

    async def _answer(self, request: Request, send: Send) -> Response | None:
        try:
            self._authenticate(request)
        except StatusError:
            # The credential may be one that another server has just given out. What is raised again has no name here:
            # a frame that names an exception and is in its traceback is a cycle, with the whole request in it.
            registry = self._server.registry
            if not await registry.has_moved(registry.revision):
                raise
            self._authenticate(request)
        place = request.place = self._flow.place(request.user, request.info)
        if request.info.verb == "watch":
            return await self._watched(request, send)
        if request.info.long_running:
            return await self._handled(request, send)
        seconds = deadline_of(request.parameter("timeout")) if request.query else REQUEST_SECONDS
        level = place.level
        if level is not None and not level.acquire():
            await level.queue_up(place.flow)
        try:
            if request.info.reads:
                return await self._handled(request, send)  # served from memory, at once
            try:
                with self.deadlines.within(seconds):
                    return await self._handled(request, send)
            except TimeoutError:
                raise timed_out() from None
        finally:
            if level is not None:
                level.release()

    async def _watched(self, request: Request, send: Send) -> Response | None:
        """Answer a watch, which holds a seat until its first events are sent: they are as much work as a list."""
        place = request.place
        if place.level is not None and self._aggregated.behind(request.info) is None:
            if not place.level.acquire():
                await place.level.queue_up(place.flow)
            request.seat = Seat(place.level)
        try:
            return await self._handled(request, send)
        finally:
            request.seat.release()

    def _authenticate(self, request: Request) -> None:
        """Find out whose request it is, and whom it is to be answered for."""
        headers, record = request.headers, request.record
        shown: PeerCertificate | None = request.extensions.get(PEER_CERTIFICATE)
        certificate, ended = None, False
        if shown is not None:
            certificate, ended = shown.der, shown.has_ended(self._server.clock.now())
        path = request.info.path
        request.user = record.user = self._authenticator.authenticate(headers, certificate, path=path, ended=ended)
        if asks_to_impersonate(headers):
            user = impersonated(request.user, headers, self._server.authorizer)
            request.user = record.impersonated = user
        if record.query:
            request.check_query()

    def _handled(self, request: Request, send: Send) -> Awaitable[Response | None]:
        registry = self._server.registry
        if not registry.shared:
            return self._carried_out(request, send)
        return carried_out(registry, request, send, self._carried_out)

    def _carried_out(self, request: Request, send: Send) -> Awaitable[Response | None]:
        self._authorize(request)
        info = request.info
        if (service := self._aggregated.behind(info)) is not None:
            return self._aggregated.forward(request, service, send)
        if info.is_resource:
            return self._resources.handle(request, send)
        return self._told(request, send)

    async def _told(self, request: Request, send: Send) -> Response | None:
        """The answer where the path names no resource."""
        info = request.info
        if not info.reads and _read_only(info.path):
            raise wrong_method()
        if info.path == SESSION_PATH and self.sessions is not None and SESSION_UPGRADE in request.extensions:
            await self.sessions.open(request, send)
            return None
        if info.path == "/metrics":
            return Response(200, self.metrics.text(), CONTENT_TYPE)
        response = (
            self._health.answer(request)
            or issuer_document(request, self._server.tokens)
            or await self._discovery.answer(request)
        )
        if response is None and info.path.startswith("/api/"):
            # What begins like the core group is answered like it, whatever version follows.
            raise not_served()
        return response or text_response(_NOT_FOUND, 404)

    def _authorize(self, request: Request) -> None:
        """Let the request pass.

        Raises:
            StatusError: 403, its user may not do that.
        """
        info, record = request.info, request.record
        selected = info.verb in _SELECTED
        attributes = Attributes.of(
            info,
            request.user,
            field_selector=request.parameter("fieldSelector") if selected else "",
            label_selector=request.parameter("labelSelector") if selected else "",
        )
        decision = self._server.authorizer.authorize(attributes)
        record.annotations[REASON] = decision.reason
        allowed = record.allowed = decision.allowed
        if not allowed:
            raise refusal(attributes, decision)

    def _log_stage(self, request: Request, stage: str) -> None:
        """Write an audit event, if there is a log."""
        if self._audit is None:
            return
        record = request.record
        record.user_agent = request.header(b"user-agent")
        record.source = (request.scope.get("client") or ("",))[0]
        record.request_body = request.read_body
        now = self._server.clock.now()
        received = now - (self._server.clock.monotonic() - record.began)
        self._audit.write(record, stage, received, now)


def _read_only(path: str) -> bool:
    """Whether the path knows reading only; the list of groups answers every method."""
    parts = path.strip("/").split("/")
    return parts[0] in {"api", "version"} or (parts[0] == "apis" and len(parts) > 1)
