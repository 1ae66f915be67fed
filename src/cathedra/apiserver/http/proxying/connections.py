"""Connections to nodes: over TLS, with the API server's certificate, and only to the node that is meant.

A node writes its own address and port into its status, so neither proves which server listens there. The connection
therefore checks the node's certificate: for the name of its Node object, or for its address if another authority than
the cluster's signs the certificates of kubelets. A client certificate proves an identity without being handed over, so
a node cannot use it elsewhere (docs/spec/apimachinery.md §12).
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from contextlib import AbstractAsyncContextManager
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from cathedra.apiserver.authentication.pki import KubeletTLS, NodeIdentity
from cathedra.apiserver.http.proxying.upgrades import NodeAnswer, NodeRequestHead, ask_node
from cathedra.client.http import close_session
from cathedra.client.sendonce import send_once

_CONNECT_SECONDS: Final = 30.0


class RedirectRefused(aiohttp.ClientError):
    """A node answered with a redirect. To follow it would make the API server call any server that the node names."""

    def __init__(self) -> None:
        super().__init__("the backend attempted to redirect this request, which is not permitted")


async def _refuse_redirect(
    session: aiohttp.ClientSession, context: Any, params: aiohttp.TraceRequestRedirectParams
) -> None:
    raise RedirectRefused


def _no_redirects() -> aiohttp.TraceConfig:
    """Return a trace that refuses redirects of every request of a session, also of upgrades to WebSocket, for which
    the client has no option."""
    tracing = aiohttp.TraceConfig()
    tracing.on_request_redirect.append(_refuse_redirect)
    return tracing


class KubeletConnections:
    """An HTTP client for nodes that follows no redirect. Without ``tls`` it uses plain HTTP and no credentials.

    Raises:
        OSError: a file of ``tls`` cannot be read.
        ssl.SSLError: it holds no certificate or key.
    """

    def __init__(self, tls: KubeletTLS | None) -> None:
        self._by_name = tls is not None and tls.identity is NodeIdentity.NAME
        self._context = _context(tls) if tls is not None else None
        self._scheme_suffix = "" if tls is None else "s"
        self._addresses = KnownAddresses()
        self.session = aiohttp.ClientSession(
            middlewares=(send_once,),
            # Without a limit: what is passed on is counted before (`cathedra.apiserver.http.proxying.passing`), and a
            # pool that is full would let others wait without an end.
            connector=aiohttp.TCPConnector(
                ssl=self._context or True, resolver=self._addresses, use_dns_cache=False, limit=0
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[_no_redirects()],
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        )

    async def close(self) -> None:
        """Close the connections to nodes."""
        await close_session(self.session)

    def url(self, scheme: str, node: str, address: str, port: int, path: str, query: Any = None) -> str:
        """Return the URL of ``path`` on a node; ``scheme`` is ``http`` or ``ws``."""
        host = address
        if self._by_name:
            # The URL has the name of the node, for its certificate; the resolver maps the name to the address of its
            # status.
            self._addresses.remember(node, address)
            host = node
        shown = f"[{host}]" if ":" in host else host
        suffix = f"?{urlencode(query, doseq=True)}" if query else ""
        return f"{scheme}{self._scheme_suffix}://{shown}:{port}{path}{suffix}"

    def upgrade(
        self, node: str, address: str, port: int, target: str, protocols: tuple[str, ...] = (), **options: Any
    ) -> AbstractAsyncContextManager[NodeAnswer]:
        """Request an upgrade to SPDY for ``target``, a path with its query (`ask_node`). ``options`` are further
        parts of the `NodeRequestHead`."""
        host = node if self._by_name else address
        return ask_node(NodeRequestHead(host, address, port, target, protocols, **options), self._context)


def _context(tls: KubeletTLS) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(tls.authority))
    context.load_cert_chain(tls.certificate, tls.key)
    return context


class KnownAddresses(AbstractResolver):
    """Resolver of names of servers that no name server knows, but that their certificates are for. Other names are
    looked up as usual."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._others = aiohttp.ThreadedResolver()

    def remember(self, name: str, address: str) -> None:
        """Resolve ``name`` to ``address`` from now on."""
        self._known[name] = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the address of a server.

        Raises:
            OSError: its address is a host name that is not known.
        """
        address = self._known.get(host, host)
        try:
            version = ipaddress.ip_address(address).version
        except ValueError:
            return await self._others.resolve(address, port, family)
        found = socket.AF_INET6 if version == 6 else socket.AF_INET
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [ResolveResult(hostname=host, host=address, port=port, family=found, proto=0, flags=flags)]

    async def close(self) -> None:
        """Close the resolver of other names."""
        await self._others.close()
