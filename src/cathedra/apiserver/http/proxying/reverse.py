"""Requests that are passed on to the server of a node, a pod or a service: sub-resource ``proxy``
(docs/spec/apimachinery.md §12).

``kubectl get --raw /api/v1/nodes/NAME/proxy/healthz`` is one. A node's own agent is asked with the API server's
certificate and has to prove itself; every other server is asked without any credential and proves nothing, as in
Kubernetes. A redirect is handed on and never followed. The HTTP client is imported with the
first request that needs it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from cathedra.api.status import StatusError, failure
from cathedra.apiserver.admission.webhooks.networktexts import network_text
from cathedra.apiserver.http.answers.response import Response
from cathedra.apiserver.http.proxying.limits import PassedRequests
from cathedra.apiserver.http.proxying.links import through, with_links
from cathedra.apiserver.http.proxying.passing import PassedBody, pass_back, passed_headers
from cathedra.apiserver.http.proxying.places import NodeEndpoint, ProxyTarget, place_of
from cathedra.apiserver.http.proxying.upgrades import NodeRequestHead, ask_node, pass_upgrade
from cathedra.apiserver.http.proxying.websockets import pass_websocket
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.request import Call
from cathedra.apiserver.requestinfo import RequestInfo
from cathedra.asgi.application import Send
from cathedra.asgi.upgrade import UPGRADE, Upgrade

if TYPE_CHECKING:
    import aiohttp

    from cathedra.apiserver.http.proxying.kubelet import KubeletConnections

__all__ = ["ReverseProxy"]

_CONNECT_SECONDS: Final = 30.0
_PORTS: Final = {"http": "80", "https": "443"}
_UNRESERVED: Final = "/:@!$&'()*+,;=~"
_QUERY: Final = f"{_UNRESERVED}%?"
"""Letters that stay as they are."""


class ReverseProxy:
    """Passes requests on to nodes, pods and services. ``nodes`` makes, or finds, the connections to node agents."""

    def __init__(self, registry: Registry, nodes: Callable[[], KubeletConnections], passed: PassedRequests) -> None:
        self._registry = registry
        self._passed = passed
        self._nodes = nodes
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Let go of connections."""
        if self._session is not None:
            await self._session.close()

    async def forward(self, request: Request, call: Call, send: Send) -> Response | None:
        """Pass an authorized request on, and its answer back as it comes.

        Raises:
            StatusError: there is nowhere to pass it on to; or 503, the server there cannot be reached.
        """
        place = place_of(self._registry, call)
        prefix, below = _parted(request.info)
        suffix = _suffix(request)
        if not below and request.info.reads:
            headers = ((b"location", f"{quote(prefix, safe=_UNRESERVED)}/{suffix}".encode()),)
            return Response(301, b"", b"text/plain; charset=utf-8", headers)
        target = f"{quote(below or '/', safe=_UNRESERVED)}{suffix}"
        upgrade: Upgrade | None = request.scope.get("extensions", {}).get(UPGRADE)
        with self._passed.admitted(request.user.name, _named(place)):
            if upgrade is not None:
                return await self._upgrade(request, send, place, target, upgrade)
            await self._pass(request, send, place, target, prefix)
        return None

    async def _pass(
        self, request: Request, send: Send, place: NodeEndpoint | ProxyTarget, target: str, prefix: str
    ) -> None:
        import aiohttp  # start-up time: with the first request that is passed on
        import yarl

        session, origin = self._origin(place, "http")
        body = await PassedBody.of(request)
        try:
            async with session.request(
                request.info.method,
                yarl.URL(f"{origin}{target}", encoded=True),
                headers=[*_plain(passed_headers(request)), *body.headers, _forwarded(request)],
                data=body.data,
                allow_redirects=False,
            ) as answer:
                change = through(prefix, urlsplit(origin).netloc)
                moved = _moved(answer, origin, prefix)
                await pass_back(request, answer, send, body, replaced=moved, page=lambda page: with_links(page, change))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreachable(error) from None

    async def websocket(self, request: Request, call: Call, send: Send) -> None:
        """Pass an authorized WebSocket on.

        Raises:
            StatusError: as `forward`; or what the server there says.
        """
        place = place_of(self._registry, call)
        _, below = _parted(request.info)
        import aiohttp  # as above
        import yarl

        session, origin = self._origin(place, "ws")
        url = yarl.URL(f"{origin}{quote(below or '/', safe=_UNRESERVED)}{_suffix(request)}", encoded=True)
        headers = [*passed_headers(request), _forwarded(request)]
        try:
            with self._passed.admitted(request.user.name, _named(place)):
                await pass_websocket(request, send, session, url, headers=headers)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreachable(error) from None

    async def _upgrade(
        self, request: Request, send: Send, place: NodeEndpoint | ProxyTarget, target: str, upgrade: Upgrade
    ) -> Response | None:
        method = request.info.method
        headers = (*passed_headers(request), _forwarded(request))
        if isinstance(place, NodeEndpoint):
            asking = self._nodes().upgrade(
                place.node, place.address, place.port, target, method=method, headers=headers
            )
        else:
            port = int(place.port or _PORTS[place.scheme])
            head = NodeRequestHead(place.address, place.address, port, target, method=method, headers=headers)
            asking = ask_node(head, _unverified() if place.scheme == "https" else None)
        try:
            return await pass_upgrade(asking, upgrade, send)
        except OSError as error:  # a TimeoutError is one too
            raise _unreachable(error) from None

    def _origin(self, place: NodeEndpoint | ProxyTarget, scheme: str) -> tuple[aiohttp.ClientSession, str]:
        """The connections to a place, and how its URLs begin; ``scheme`` is ``http`` or ``ws``."""
        if isinstance(place, NodeEndpoint):
            nodes = self._nodes()
            return nodes.session, nodes.url(scheme, place.node, place.address, place.port, "")
        return self._client(), f"{scheme}{place.origin.removeprefix('http')}"

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # as above

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=False, limit=0),  # as in `kubelet`
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            )
        return self._session


def _named(place: NodeEndpoint | ProxyTarget) -> str:
    return f"node {place.node}" if isinstance(place, NodeEndpoint) else place.origin


def _suffix(request: Request) -> str:
    """The query, as it goes behind a path."""
    query = quote(request.scope["query_string"].decode("latin-1"), safe=_QUERY)
    return f"?{query}" if query else ""


def _forwarded(request: Request) -> tuple[str, str]:
    """Where the client believes to be."""
    return ("X-Forwarded-Uri", quote(request.info.path))


def _unreachable(error: Exception) -> StatusError:
    return failure(503, "ServiceUnavailable", f"error trying to reach service: {network_text(error)}")


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _parted(info: RequestInfo) -> tuple[str, str]:
    """The path up to ``proxy``, and what follows it, which is another server's business."""
    parts = info.path.lstrip("/").split("/")
    length = 7 if info.below_namespace else 5  # api/v1/namespaces/NAMESPACE/pods/NAME/proxy
    below = f"/{'/'.join(parts[length:])}" if len(parts) > length else ""
    return f"/{'/'.join(parts[:length])}", below


def _plain(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers, asking for an answer that is not compressed: the client here would unpack it."""
    return [*((key, value) for key, value in headers if key != "accept-encoding"), ("Accept-Encoding", "identity")]


def _moved(answer: aiohttp.ClientResponse, origin: str, prefix: str) -> list[tuple[bytes, bytes]]:
    """The ``Location`` of an answer as the client has to ask for it: on that same server, below ``prefix``."""
    location = answer.headers.get("Location", "")
    parts = urlsplit(location)
    at = f"{parts.scheme}://{parts.netloc}" if parts.netloc else origin
    if not parts.path.startswith("/") or at != origin or parts.path.startswith(prefix):
        return []
    query = f"?{parts.query}" if parts.query else ""
    return [(b"location", f"{prefix}{parts.path}{query}".encode("latin-1", "replace"))]
