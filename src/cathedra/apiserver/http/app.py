"""The ASGI application: who asks, what for, and the answer; failures become Status objects here and nowhere else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from cathedra.api.status import StatusError, internal_error
from cathedra.apiserver.authentication.authenticator import Authenticator
from cathedra.apiserver.authentication.user import ANONYMOUS
from cathedra.apiserver.authorization.authorizer import Attributes, refusal
from cathedra.apiserver.authorization.impersonation import asks_to_impersonate, impersonated
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.http.compression import compressed, worth_compressing
from cathedra.apiserver.http.discovery import Discovery
from cathedra.apiserver.http.health import HealthAndVersion
from cathedra.apiserver.http.issuer import issuer_document
from cathedra.apiserver.http.protocol import EXTENSION
from cathedra.apiserver.http.proxy import Proxy
from cathedra.apiserver.http.render import in_form_of
from cathedra.apiserver.http.request import ClientGone, Receive, Request, Scope, Send
from cathedra.apiserver.http.resources import ResourceHandler, wrong_method
from cathedra.apiserver.http.response import JSON, Response, send_response, status_response, text_response
from cathedra.apiserver.names import generate_uid
from cathedra.apiserver.requestinfo import parse_path
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.traffic.audit import AuditLog
from cathedra.apiserver.traffic.deadlines import deadline_of, timed_out
from cathedra.apiserver.traffic.flow import Flow
from cathedra.apiserver.traffic.metrics import CONTENT_TYPE, Metrics
from cathedra.apiserver.traffic.record import RequestRecord
from cathedra.apiserver.verbs.context import ServerContext

__all__ = ["Application"]

CLIENT_GONE: Final = 499
"""What is written down for a client that left before its answer."""
LOG: Final = logging.getLogger(__name__)
_CONNECTED: Final = frozenset({"log", "exec", "attach", "portforward", "proxy"})
Open = Callable[[Request], Awaitable[Response | None]]


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
        flow: Flow,
        audit: AuditLog | None = None,
    ) -> None:
        self._server = server
        self._authenticator = authenticator
        self._discovery = discovery
        self._health = health
        self._proxy = proxy
        self._flow = flow
        self._audit = audit
        self._metrics = Metrics(server.registry, flow)
        if audit is not None:
            self._metrics.audit_events = lambda: audit.written
        self._resources = ResourceHandler(server, catalog)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one WebSocket."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        now = self._server.clock.monotonic
        audit_id = generate_uid(self._server.random)
        record = RequestRecord(scope["method"], scope["path"], scope["query_string"], audit_id, now())
        request = Request(scope, receive, ANONYMOUS)
        self._metrics.begin(record)
        try:
            response = await self._respond(request, record, send)
            if response is not None:
                record.status = response.status
                await self._send(request, response, record, send)
        except ClientGone:
            record.status = record.status or CLIENT_GONE
        finally:
            record.status = record.status or 200
            self._metrics.end(record, now() - record.began)
            self._written_down(request, record)

    async def _respond(self, request: Request, record: RequestRecord, send: Send) -> Response | None:
        """The answer, failures included; None if it went out as a stream."""
        try:
            return await self._answer(request, record, send)
        except StatusError as error:
            return status_response(error)
        except StorageError as error:
            LOG.error("the store failed: %s", error)
            return status_response(internal_error(str(error)))

    async def _send(self, request: Request, response: Response, record: RequestRecord, send: Send) -> None:
        if response.status >= 400 and response.content_type == JSON:
            response = in_form_of(response, request.header(b"accept"))
        if self._audit is not None:
            record.response_body = response.body + response.tail
        if worth_compressing(response, request.header(b"accept-encoding").encode()):
            response = await compressed(response)
        await send_response(send, response, audit_id=record.audit_id.encode(), head=record.method == "HEAD")

    async def _answer(self, request: Request, record: RequestRecord, send: Send) -> Response | None:
        request.user = record.user = self._authenticator.authenticate(*_credentials(request.scope))
        if asks_to_impersonate(request.scope["headers"]):
            request.user = record.impersonated = impersonated(
                request.user, request.scope["headers"], self._server.authorizer
            )
        if record.long_running:
            return await self._handled(request, record, send)
        seconds = deadline_of(request.parameter("timeout"))
        if self._flow.exempt(request.user):
            return await self._in_time(request, record, send, seconds)
        if not self._flow.acquire():
            await self._flow.queue_up(request.user)
        try:
            return await self._in_time(request, record, send, seconds)
        finally:
            self._flow.release()

    async def _in_time(self, request: Request, record: RequestRecord, send: Send, seconds: float) -> Response | None:
        if record.method in {"GET", "HEAD"}:
            return await self._handled(request, record, send)  # served from memory, at once
        try:
            async with asyncio.timeout(seconds):
                return await self._handled(request, record, send)
        except TimeoutError:
            raise timed_out() from None

    async def _handled(self, request: Request, record: RequestRecord, send: Send) -> Response | None:
        target = parse_path(request.path)
        if target is not None:
            audit_id = record.audit_id.encode()
            if target.subresource in _CONNECTED and target.resource in {"pods", "nodes", "services"}:
                return await self._proxy.http(request, target, send, audit_id)
            return await self._resources.handle(request, target, send, audit_id)
        self._authorize_path(request)
        if request.method not in {"GET", "HEAD"} and _read_only(request.path):
            raise wrong_method()
        if request.path == "/metrics":
            return Response(200, self._metrics.text(), CONTENT_TYPE)
        response = (
            self._health.answer(request)
            or issuer_document(request, self._server.tokens)
            or self._discovery.answer(request)
        )
        return response or text_response("404 page not found\n", 404)

    def _written_down(self, request: Request, record: RequestRecord) -> None:
        """Tell the audit log, if there is one."""
        if self._audit is None:
            return
        record.user_agent = request.header(b"user-agent")
        record.source = (request.scope.get("client") or ("",))[0]
        record.request_body = request.read_body
        record.allowed = record.status != 403
        record.annotations = request.annotations
        record.created_name = request.created_name
        now = self._server.clock.now()
        received = now - (self._server.clock.monotonic() - record.began)
        self._audit.write(record, "ResponseComplete", received, now)

    def _authorize_path(self, request: Request) -> None:
        if self._health.is_public(request.path):
            return
        attributes = Attributes(user=request.user, verb=request.method.lower(), path=request.path)
        decision = self._server.authorizer.authorize(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            user = self._authenticator.authenticate(*_credentials(scope))
            target = parse_path(scope["path"])
            if target is None or target.subresource not in _CONNECTED:
                await _refuse_websocket(send, text_response("404 page not found\n", 404))
                return
            request = Request(scope, receive, user)
            if asks_to_impersonate(scope["headers"]):
                request.user = impersonated(request.user, request.scope["headers"], self._server.authorizer)
            await self._proxy.websocket(request, target, send)
        except StatusError as error:
            await _refuse_websocket(send, status_response(error))


def _credentials(scope: Scope) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
    """The headers of a request and the client certificate of its connection."""
    return scope["headers"], scope.get("extensions", {}).get(EXTENSION)


def _read_only(path: str) -> bool:
    """Whether the path knows reading only; the list of groups does not care how it is asked."""
    parts = path.strip("/").split("/")
    return parts[0] in {"api", "version"} or (parts[0] == "apis" and len(parts) > 1)


async def _refuse_websocket(send: Send, response: Response) -> None:
    """Answer the upgrade with plain HTTP."""
    await send(
        {
            "type": "websocket.http.response.start",
            "status": response.status,
            "headers": [(b"content-type", response.content_type)],
        }
    )
    await send({"type": "websocket.http.response.body", "body": response.body})
