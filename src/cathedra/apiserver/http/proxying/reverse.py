"""The sub-resource ``proxy``: requests passed on to the server of a node, a pod or a service
(docs/spec/apimachinery.md §12).

``kubectl get --raw /api/v1/nodes/NAME/proxy/healthz`` is one. A node's own agent is called with the API server's
certificate and has to prove its identity. Every other server is called without any credential and proves nothing, as in
Kubernetes. A redirect is handed on and never followed.

A page links to ``/style.css`` of its own server, which a browser would look for on the API server. Links of HTML pages
therefore get the prefix of the proxy; links to other hosts and relative ones stay. A page is walked once, from tag to
tag. Text that is no proper tag ends the walk, and the rest of the page stays as it is (``pkg/util/proxy/transport.go``
of k8s.io/apimachinery).
"""

from __future__ import annotations

import html
import re
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit, urlunsplit

from cathedra.api.status import StatusError, failure
from cathedra.apiserver.http.answers.response import Response
from cathedra.apiserver.http.proxying.passing import (
    PassedBody,
    PassedRequests,
    pass_back,
    pass_websocket,
    passed_headers,
)
from cathedra.apiserver.http.proxying.targets import NodeEndpoint, ProxyTarget, target_of
from cathedra.apiserver.http.proxying.upgrades import NodeRequestHead, ask_node, pass_upgrade
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.networktexts import network_text
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.request import Call
from cathedra.apiserver.requestinfo import RequestInfo
from cathedra.asgi.application import Send
from cathedra.asgi.upgrade import UPGRADE, Upgrade
from cathedra.client.http import close_session

if TYPE_CHECKING:
    import aiohttp

    from cathedra.apiserver.http.proxying.connections import KubeletConnections

_CONNECT_SECONDS: Final = 30.0
_PORTS: Final = {"http": "80", "https": "443"}
_UNRESERVED: Final = "/:@!$&'()*+,;=~"
_QUERY: Final = f"{_UNRESERVED}%?"
"""Letters that are not percent-encoded."""
_LINKS: Final = {
    b"a": (b"href",),
    b"applet": (b"codebase",),
    b"area": (b"href",),
    b"audio": (b"src",),
    b"base": (b"href",),
    b"blockquote": (b"cite",),
    b"body": (b"background",),
    b"button": (b"formaction",),
    b"command": (b"icon",),
    b"del": (b"cite",),
    b"embed": (b"src",),
    b"form": (b"action",),
    b"frame": (b"longdesc", b"src"),
    b"head": (b"profile",),
    b"html": (b"manifest",),
    b"iframe": (b"longdesc", b"src"),
    b"img": (b"longdesc", b"src", b"usemap"),
    b"input": (b"src", b"usemap", b"formaction"),
    b"ins": (b"cite",),
    b"link": (b"href",),
    b"object": (b"classid", b"codebase", b"data", b"usemap"),
    b"q": (b"cite",),
    b"script": (b"src",),
    b"source": (b"src",),
    b"video": (b"poster", b"src"),
}
_RAW: Final = frozenset({b"iframe", b"noembed", b"noframes", b"script", b"style", b"textarea", b"title", b"xmp"})
"""Elements whose content is not markup."""
_NAME: Final = re.compile(rb"<([a-zA-Z][^\s/>]*)")
_DELIMITER: Final = re.compile(rb"[>\"']")
_ATTRIBUTE: Final = re.compile(rb"([^\s=>/\"'][^\s=>/]*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>\"']+)")


class ReverseProxy:
    """Passes requests on to nodes, pods and services. ``nodes`` returns the connections to the agents of nodes."""

    def __init__(self, registry: Registry, nodes: Callable[[], KubeletConnections], passed: PassedRequests) -> None:
        self._registry = registry
        self._passed = passed
        self._nodes = nodes
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections to pods and services."""
        if self._session is not None:
            await close_session(self._session)

    async def forward(self, request: Request, call: Call, send: Send) -> Response | None:
        """Pass an authorized request on, and its answer back as it arrives.

        Raises:
            StatusError: there is nowhere to pass it on to; or 503, the server there cannot be reached.
        """
        target = target_of(self._registry, call)
        prefix, below = _parted(request.info)
        suffix = _suffix(request)
        # Relative links of a page need the trailing slash. Other methods are not redirected: clients would drop the
        # body.
        if not below and request.info.reads:
            headers = ((b"location", f"{quote(prefix, safe=_UNRESERVED)}/{suffix}".encode()),)
            return Response(301, b"", b"text/plain; charset=utf-8", headers)
        path = f"{quote(below or '/', safe=_UNRESERVED)}{suffix}"
        upgrade: Upgrade | None = request.scope.get("extensions", {}).get(UPGRADE)
        with self._passed.admitted(request.user.name, _named(target)):
            if upgrade is not None:
                return await self._upgrade(request, send, target, path, upgrade)
            await self._pass(request, send, target, path, prefix)
        return None

    async def _pass(
        self, request: Request, send: Send, target: NodeEndpoint | ProxyTarget, path: str, prefix: str
    ) -> None:
        import aiohttp  # start-up time: with the first request that is passed on
        import yarl

        session, origin = self._origin(target, "http")
        body = await PassedBody.of(request)
        try:
            async with session.request(
                request.info.method,
                yarl.URL(f"{origin}{path}", encoded=True),
                headers=[*_plain(passed_headers(request)), *body.headers, _forwarded(request)],
                data=body.data,
                # A redirect could lead to a server that the user may not reach through the proxy.
                allow_redirects=False,
            ) as answer:
                change = through(prefix, urlsplit(origin).netloc)
                moved = _moved(answer, origin, prefix)
                await pass_back(request, answer, send, body, replaced=moved, page=lambda page: with_links(page, change))
        # ValueError: aiohttp's for addresses and headers that it refuses.
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreachable(error) from None

    async def websocket(self, request: Request, call: Call, send: Send) -> None:
        """Pass an authorized WebSocket on.

        Raises:
            StatusError: as `forward`; or the refusal of the other server.
        """
        target = target_of(self._registry, call)
        _, below = _parted(request.info)
        import aiohttp  # as above
        import yarl

        session, origin = self._origin(target, "ws")
        url = yarl.URL(f"{origin}{quote(below or '/', safe=_UNRESERVED)}{_suffix(request)}", encoded=True)
        headers = [*passed_headers(request), _forwarded(request)]
        try:
            with self._passed.admitted(request.user.name, _named(target)):
                await pass_websocket(request, send, session, url, headers=headers)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreachable(error) from None

    async def _upgrade(
        self, request: Request, send: Send, target: NodeEndpoint | ProxyTarget, path: str, upgrade: Upgrade
    ) -> Response | None:
        method = request.info.method
        headers = (*passed_headers(request), _forwarded(request))
        if isinstance(target, NodeEndpoint):
            asking = self._nodes().upgrade(
                target.node, target.address, target.port, path, method=method, headers=headers
            )
        else:
            port = int(target.port or _PORTS[target.scheme])
            head = NodeRequestHead(target.address, target.address, port, path, method=method, headers=headers)
            asking = ask_node(head, _unverified() if target.scheme == "https" else None)
        try:
            return await pass_upgrade(asking, upgrade, send)
        except OSError as error:  # a TimeoutError is one too
            raise _unreachable(error) from None

    def _origin(self, target: NodeEndpoint | ProxyTarget, scheme: str) -> tuple[aiohttp.ClientSession, str]:
        """Return the client for a target, and the beginning of its URLs; ``scheme`` is ``http`` or ``ws``."""
        if isinstance(target, NodeEndpoint):
            nodes = self._nodes()
            return nodes.session, nodes.url(scheme, target.node, target.address, target.port, "")
        return self._client(), f"{scheme}{target.origin.removeprefix('http')}"

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # as above

            from cathedra.client.sendonce import send_once  # as above

            self._session = aiohttp.ClientSession(
                middlewares=(send_once,),
                connector=aiohttp.TCPConnector(ssl=False, limit=0),  # as in `connections`
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            )
        return self._session


def _named(target: NodeEndpoint | ProxyTarget) -> str:
    return f"node {target.node}" if isinstance(target, NodeEndpoint) else target.origin


def _suffix(request: Request) -> str:
    """Return the query with its question mark."""
    query = quote(request.scope["query_string"].decode("latin-1"), safe=_QUERY)
    return f"?{query}" if query else ""


def _forwarded(request: Request) -> tuple[str, str]:
    """Return the header with the path that the client requested."""
    return ("X-Forwarded-Uri", quote(request.info.path))


def _unreachable(error: Exception) -> StatusError:
    return failure(503, "ServiceUnavailable", f"error trying to reach service: {network_text(error)}")


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    # As kube-apiserver: pods and services behind the proxy have certificates that no authority here knows.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _parted(info: RequestInfo) -> tuple[str, str]:
    """Return the path up to ``proxy``, and the path behind it, which belongs to the other server."""
    parts = info.path.lstrip("/").split("/")
    length = 7 if info.below_namespace else 5  # api/v1/namespaces/NAMESPACE/pods/NAME/proxy
    below = f"/{'/'.join(parts[length:])}" if len(parts) > length else ""
    return f"/{'/'.join(parts[:length])}", below


def _plain(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers with a request for an uncompressed answer: the HTTP client would decompress it."""
    return [*((key, value) for key, value in headers if key != "accept-encoding"), ("Accept-Encoding", "identity")]


def _moved(answer: aiohttp.ClientResponse, origin: str, prefix: str) -> list[tuple[bytes, bytes]]:
    """Return ``Location`` of an answer with the prefix of the proxy, if it leads to the same server."""
    location = answer.headers.get("Location", "")
    parts = urlsplit(location)
    at = f"{parts.scheme}://{parts.netloc}" if parts.netloc else origin
    # Links to other hosts stay, and those that have the prefix already must not get it twice.
    if not parts.path.startswith("/") or at != origin or parts.path.startswith(prefix):
        return []
    query = f"?{parts.query}" if parts.query else ""
    return [(b"location", f"{prefix}{parts.path}{query}".encode("latin-1", "replace"))]


def through(prefix: str, host: str) -> Callable[[str], str]:
    """Return the function that changes links on a page of ``host`` (with port) that is seen under ``prefix``."""

    def changed(link: str) -> str:
        try:
            parts = urlsplit(link)
        except ValueError:
            return link
        if parts.netloc not in ("", host) or not parts.path.startswith("/") or parts.path.startswith(prefix):
            return link
        return urlunsplit(("", "", f"{prefix}{parts.path}", parts.query, parts.fragment))

    return changed


def with_links(page: bytes, change: Callable[[str], str]) -> bytes:
    """Return the page with its links changed."""
    pieces = []
    done = 0
    for start, end, link in _links(page):
        new = change(link)
        if new != link:
            pieces += [page[done:start], b'"', html.escape(new).encode("latin-1", "xmlcharrefreplace"), b'"']
            done = end
    return b"".join((*pieces, page[done:]))


def _links(page: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield start and end of the values of attributes that hold links, quotes included, and the links."""
    position = 0
    while (start := page.find(b"<", position)) >= 0:
        position = _behind(page, start)
        if position < 0:
            return
        found = _NAME.match(page, start)
        if found is None:
            continue
        name = found[1].lower()
        wanted = _LINKS.get(name, ())
        for attribute in _ATTRIBUTE.finditer(page, found.end(), position) if wanted else ():
            if attribute[1].lower() in wanted:
                value = attribute[2].strip(b"\"'").decode("latin-1")
                yield *attribute.span(2), html.unescape(value)
        # Text of scripts and styles may contain «<»: it is skipped up to the closing tag.
        if name in _RAW:
            closing = re.compile(rb"</" + re.escape(name), re.IGNORECASE).search(page, position)
            if closing is None:
                return
            position = closing.start()


def _behind(page: bytes, start: int) -> int:
    """Return the end of the tag or comment that begins at ``start``; a negative number if it has none."""
    if page.startswith(b"<!--", start):
        end = page.find(b"-->", start + 4)
        return end + 3 if end >= 0 else -1
    if not page[start + 1 : start + 2].isalpha() and page[start + 1 : start + 2] not in (b"/", b"!", b"?"):
        return start + 1  # a mere «less than»
    position = start + 1
    while (found := _DELIMITER.search(page, position)) is not None:
        if found[0] == b">":
            return found.end()
        closing = page.find(found[0], found.end())
        if closing < 0:
            return -1
        position = closing + 1
    return -1
