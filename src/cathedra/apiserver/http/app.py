"""The ASGI application: who asks, what for, and the answer; failures become Status objects here and nowhere else."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from cathedra.api.status import StatusError, internal_error
from cathedra.apiserver.authentication.authenticator import Authenticator
from cathedra.apiserver.authorization.authorizer import Attributes, refusal
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.http.discovery import Discovery
from cathedra.apiserver.http.information import Information
from cathedra.apiserver.http.issuer import issuer_document
from cathedra.apiserver.http.path import parse_path
from cathedra.apiserver.http.proxy import Proxy
from cathedra.apiserver.http.render import in_form_of
from cathedra.apiserver.http.request import ClientGone, Receive, Request, Scope, Send
from cathedra.apiserver.http.resources import ResourceHandler, wrong_method
from cathedra.apiserver.http.response import JSON, Response, send_response, status_response, text_response
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.apiserver.verbs.world import World

__all__ = ["Application"]

LOG: Final = logging.getLogger(__name__)
_CONNECTED: Final = frozenset({"log", "exec", "attach", "portforward", "proxy"})
Open = Callable[[Request], Awaitable[Response | None]]


class Application:
    """The API server as an ASGI application."""

    def __init__(
        self,
        world: World,
        catalog: Catalog,
        authenticator: Authenticator,
        discovery: Discovery,
        information: Information,
        proxy: Proxy,
    ) -> None:
        self._world = world
        self._authenticator = authenticator
        self._discovery = discovery
        self._information = information
        self._proxy = proxy
        self._resources = ResourceHandler(world, catalog)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one WebSocket."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        audit_id = str(uuid.UUID(int=self._world.random.getrandbits(128), version=4)).encode()
        try:
            response = await self._answer(scope, receive, send, audit_id)
        except StatusError as error:
            response = status_response(error)
        except ClientGone:
            return
        except StorageError as error:
            LOG.error("the store failed: %s", error)
            response = status_response(internal_error(str(error)))
        if response is not None:
            if response.status >= 400 and response.content_type == JSON:
                response = in_form_of(response, dict(scope["headers"]).get(b"accept", b"").decode("latin-1"))
            await send_response(send, response, audit_id=audit_id, head=scope["method"] == "HEAD")

    async def _answer(self, scope: Scope, receive: Receive, send: Send, audit_id: bytes) -> Response | None:
        user = self._authenticator.authenticate(scope)
        request = Request(scope, receive, user)
        if b"impersonate-user" in dict(scope["headers"]):
            request.user = self._authenticator.impersonate(request, self._world.authorizer)
        target = parse_path(request.path)
        if target is not None:
            if target.subresource in _CONNECTED and target.resource in {"pods", "nodes", "services"}:
                return await self._proxy.http(request, target, send, audit_id)
            return await self._resources.handle(request, target, send, audit_id)
        self._authorize_path(request)
        if request.method not in {"GET", "HEAD"} and _read_only(request.path):
            raise wrong_method()
        response = (
            self._information.answer(request)
            or issuer_document(request, self._world.tokens)
            or self._discovery.answer(request)
        )
        return response or text_response("404 page not found\n", 404)

    def _authorize_path(self, request: Request) -> None:
        if self._information.is_public(request.path):
            return
        attributes = Attributes(user=request.user, verb=request.method.lower(), path=request.path)
        decision = self._world.authorizer.authorize(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            user = self._authenticator.authenticate(scope)
            target = parse_path(scope["path"])
            if target is None or target.subresource not in _CONNECTED:
                await _refuse_websocket(send, text_response("404 page not found\n", 404))
                return
            await self._proxy.websocket(Request(scope, receive, user), target, send)
        except StatusError as error:
            await _refuse_websocket(send, status_response(error))


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
