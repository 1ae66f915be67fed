"""Requests that are passed on to the server of a node, a pod or a service: sub-resource ``proxy``
(docs/spec/apimachinery.md §12).

``kubectl get --raw /api/v1/nodes/NAME/proxy/healthz`` is one. A node's own agent is asked with the API server's
certificate and has to prove itself; every other server is asked without any credential and proves nothing, as in
Kubernetes. A redirect is handed on and never followed. The HTTP client is imported with the
first request that needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from cathedra.api.status import failure
from cathedra.apiserver.admission.webhooks.networktexts import network_text
from cathedra.apiserver.http.answers.response import Response
from cathedra.apiserver.http.proxying.passing import pass_back, passed_headers
from cathedra.apiserver.http.proxying.places import NodeEndpoint, place_of
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.request import Call
from cathedra.apiserver.requestinfo import RequestInfo
from cathedra.asgi.application import Send

if TYPE_CHECKING:
    import aiohttp

    from cathedra.apiserver.http.proxying.kubelet import KubeletConnections

__all__ = ["ReverseProxy"]

_CONNECT_SECONDS: Final = 30.0
_UNRESERVED: Final = "/:@!$&'()*+,;=~"
_QUERY: Final = f"{_UNRESERVED}%?"
"""Letters that stay as they are."""


class ReverseProxy:
    """Passes requests on to nodes, pods and services. ``nodes`` makes, or finds, the connections to node agents."""

    def __init__(self, registry: Registry, nodes: Callable[[], KubeletConnections]) -> None:
        self._registry = registry
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
        query = quote(request.scope["query_string"].decode("latin-1"), safe=_QUERY)
        suffix = f"?{query}" if query else ""
        if not below and request.info.reads:
            headers = ((b"location", f"{quote(prefix, safe=_UNRESERVED)}/{suffix}".encode()),)
            return Response(301, b"", b"text/plain; charset=utf-8", headers)
        path = quote(below or "/", safe=_UNRESERVED)
        body = await request.body()
        import aiohttp  # start-up time: with the first request that is passed on
        import yarl

        if isinstance(place, NodeEndpoint):
            nodes = self._nodes()
            session, url = nodes.session, nodes.url("http", place.node, place.address, place.port, path)
        else:
            session, url = self._client(), f"{place.origin}{path}"
        try:
            async with session.request(
                request.info.method,
                yarl.URL(f"{url}{suffix}", encoded=True),
                headers=[*_plain(passed_headers(request)), ("X-Forwarded-Uri", quote(request.info.path))],
                data=body or None,
                allow_redirects=False,
            ) as answer:
                moved = _moved(answer, url.removesuffix(path), prefix)
                await pass_back(request, answer, send, replaced=moved)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            text = f"error trying to reach service: {network_text(error)}"
            raise failure(503, "ServiceUnavailable", text) from None
        return None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # as above

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=False),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            )
        return self._session


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
