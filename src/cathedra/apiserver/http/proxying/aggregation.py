"""Aggregated API servers: groups and versions that a server behind a service serves, by its APIService.

A request is authenticated and authorized here and passed on with the name of its user in headers, and with a client
certificate that the other server trusts (ConfigMap ``extension-apiserver-authentication``). The HTTP client is
imported with the first of them, because its import would make every start longer.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from cathedra.api.core.apiregistration_v1 import APIService
from cathedra.api.nesting import load_json
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, failure
from cathedra.apiserver.answerbody import read_whole
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.http.answers.response import Response
from cathedra.apiserver.http.proxying.passing import (
    PassedBody,
    PassedRequests,
    pass_back,
    pass_websocket,
    passed_headers,
)
from cathedra.apiserver.http.proxying.upgrades import NodeRequestHead, ask_node, pass_upgrade
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.networktexts import network_text
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.serviceendpoints import NoEndpoint, service_endpoint
from cathedra.apiserver.requestinfo import RequestInfo
from cathedra.asgi.application import Send
from cathedra.asgi.upgrade import UPGRADE, Upgrade
from cathedra.client.http import close_session

if TYPE_CHECKING:
    import aiohttp

    from cathedra.apiserver.authentication.pki import FrontProxyTLS
    from cathedra.apiserver.http.proxying.connections import KnownAddresses

API_SERVICES: Final = GroupResource("apiregistration.k8s.io", "apiservices")
_HTTPS: Final = 443
_PROBE_SECONDS: Final = 5.0
_LONGEST_LIST: Final = 4 * 1024 * 1024


class AggregatedServers:
    """The servers behind APIServices."""

    def __init__(self, registry: Registry, identity: Callable[[], FrontProxyTLS | None]) -> None:
        """``identity`` returns the client certificate, once the server has its keys."""
        self._registry = registry
        self._identity = identity
        self._passed = PassedRequests()
        self._session: aiohttp.ClientSession | None = None
        self._by_name: aiohttp.ClientSession | None = None
        self._known_addresses: KnownAddresses | None = None
        self._contexts: dict[tuple[bytes, bool], ssl.SSLContext] = {}
        self._known: dict[tuple[str, str], APIService] | None = None
        self._resources: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.generation = 0
        """Number of changes; discovery builds its documents again when it differs."""
        # The cache is dropped at every change; rebuilding it for each request would cost a scan of all APIServices.
        registry.observe(API_SERVICES, lambda _: self._forget())

    async def close(self) -> None:
        """Close the connections to other servers."""
        for session in (self._session, self._by_name):
            if session is not None:
                await close_session(session)

    def services(self) -> dict[tuple[str, str], APIService]:
        """Return the APIServices with a service, by group and version."""
        if self._known is None:
            try:
                entries = self._registry.table(API_SERVICES).select(Selection(""))
            except KeyError:
                entries = iter(())
            found = [entry.object for entry in entries]
            self._known = {(one.spec.group, one.spec.version): one for one in found if one.spec.service is not None}
        return self._known

    def resources(self, group: str, version: str) -> list[dict[str, Any]]:
        """Return the resources that a server listed at the last probe, as APIResources."""
        return self._resources.get((group, version), [])

    def behind(self, info: RequestInfo) -> APIService | None:
        """Return the APIService that a request is for; None if this server answers it."""
        if not info.path.startswith("/apis/"):
            return None
        parts = info.path.split("/", 4)
        return self.services().get((parts[2], parts[3])) if len(parts) > 3 else None

    async def probe(self, service: APIService) -> tuple[str, str, str]:
        """Return status, reason and message of the condition Available, and cache the resources of the server."""
        spec, behind = service.spec, service.spec.service
        assert behind is not None
        path = f"/apis/{spec.group}/{spec.version}"
        try:
            url = self._url(service, path)
        except NoEndpoint as error:
            named = f'service/{behind.name} in "{behind.namespace}"'
            texts = {
                "ServiceNotFound": f"{named} is not present",
                "ServicePortError": f"{named} is not listening on port {behind.port or _HTTPS}",
            }
            return "False", error.reason, texts.get(error.reason, f"endpoints for {named} have no addresses")
        import aiohttp  # start-up time: with the first aggregated server

        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                headers = _identity_headers(UserInfo("system:kube-aggregator", ("system:masters",)))
                options = self._options(service)
                # No redirects: the credentials of the aggregator must not reach another server.
                async with self._client().get(url, headers=headers, allow_redirects=False, **options) as answer:
                    body = await read_whole(answer, _LONGEST_LIST)
                    if not 200 <= answer.status < 300:
                        raise ValueError(f"bad status from {url}: {answer.status}")
        except (aiohttp.ClientError, OSError, ValueError, StatusError) as error:
            text = f'failing or missing response from {url}: Get "{url}": {network_text(error)}'
            return "False", "FailedDiscoveryCheck", text
        self._learn(spec.group, spec.version, body)
        return "True", "Passed", "all checks passed"

    async def forward(self, request: Request, service: APIService, send: Send) -> Response | None:
        """Pass an authorized request on, and its answer back as it arrives.

        Raises:
            StatusError: 503, the server cannot be reached.
        """
        headers = [*passed_headers(request), *_identity_headers(request.user)]
        upgrade: Upgrade | None = request.scope.get("extensions", {}).get(UPGRADE)
        with self._passed.admitted(request.user.name, f"API service {service.metadata.name}"):
            if upgrade is not None:
                return await self._upgrade(request, service, headers, upgrade, send)
            await self._pass(request, service, headers, send)
        return None

    async def _pass(self, request: Request, service: APIService, headers: list[tuple[str, str]], send: Send) -> None:
        import aiohttp  # as above

        body = await PassedBody.of(request)
        try:
            async with self._client().request(
                request.info.method,
                self._url(service, _target(request)),
                headers=[*headers, *body.headers],
                data=body.data,
                allow_redirects=False,
                **self._options(service),
            ) as answer:
                await pass_back(request, answer, send, body)
        except NoEndpoint as error:
            raise _unavailable(str(error)) from None
        except (aiohttp.ClientError, OSError) as error:
            raise _unavailable(network_text(error)) from None

    async def websocket(self, request: Request, service: APIService, send: Send) -> None:
        """Pass an authorized WebSocket on.

        Raises:
            StatusError: 503, the server cannot be reached; or its refusal.
        """
        import aiohttp  # as above

        options = self._options(service)
        try:
            address, port = self._endpoint(service)
            name = options["server_hostname"]
            self._addresses().remember(name, address)
            with self._passed.admitted(request.user.name, f"API service {service.metadata.name}"):
                await pass_websocket(
                    request,
                    send,
                    self._named(),
                    f"wss://{name}:{port}{_target(request)}",
                    headers=[*passed_headers(request), *_identity_headers(request.user)],
                    ssl=options["ssl"],
                )
        except NoEndpoint as error:
            raise _unavailable(str(error)) from None
        except (aiohttp.ClientError, OSError) as error:
            raise _unavailable(network_text(error)) from None

    async def _upgrade(
        self, request: Request, service: APIService, headers: list[tuple[str, str]], upgrade: Upgrade, send: Send
    ) -> Response | None:
        try:
            address, port = self._endpoint(service)
            options = self._options(service)
            name, method = options["server_hostname"], request.info.method
            head = NodeRequestHead(name, address, port, _target(request), method=method, headers=tuple(headers))
            return await pass_upgrade(ask_node(head, options["ssl"]), upgrade, send)
        except NoEndpoint as error:
            raise _unavailable(str(error)) from None
        except OSError as error:  # a TimeoutError is one too
            raise _unavailable(network_text(error)) from None

    def _endpoint(self, service: APIService) -> tuple[str, int]:
        behind = service.spec.service
        assert behind is not None
        return service_endpoint(self._registry, behind.namespace, behind.name, behind.port or _HTTPS)

    def _url(self, service: APIService, path: str) -> str:
        host, port = self._endpoint(service)
        return f"https://{f'[{host}]' if ':' in host else host}:{port}{path}"

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp  # as above

            from cathedra.client.sendonce import send_once  # as above

            self._session = aiohttp.ClientSession(
                middlewares=(send_once,),
                # Bodies are passed on as they are, with their encoding.
                auto_decompress=False,
                connector=aiohttp.TCPConnector(limit=0),  # as in `connections`
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_PROBE_SECONDS),
            )
        return self._session

    def _named(self) -> aiohttp.ClientSession:
        """Return the client for connections by the name of the certificate: WebSockets have no other way to set it."""
        if self._by_name is None:
            import aiohttp  # as above

            self._by_name = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=self._addresses(), use_dns_cache=False, limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_PROBE_SECONDS),
            )
        return self._by_name

    def _addresses(self) -> KnownAddresses:
        if self._known_addresses is None:
            from cathedra.apiserver.http.proxying.connections import KnownAddresses  # as above: it needs aiohttp

            self._known_addresses = KnownAddresses()
        return self._known_addresses

    def _options(self, service: APIService) -> dict[str, Any]:
        """Return the options that protect the connection.

        Raises:
            StatusError: 503, the CA bundle cannot be read.
        """
        spec, behind = service.spec, service.spec.service
        assert behind is not None
        # Contexts are made once: loading certificates takes milliseconds.
        key = (spec.ca_bundle, spec.insecure_skip_tls_verify)
        context = self._contexts.get(key)
        if context is None:
            try:
                context = ssl.create_default_context(cadata=spec.ca_bundle.decode() if spec.ca_bundle else None)
            except (ssl.SSLError, ValueError) as error:
                raise _unavailable(f"unable to load root certificates: {error}") from None
            if spec.insecure_skip_tls_verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            identity = self._identity()
            if identity is not None:
                context.load_cert_chain(identity.certificate, identity.key)
            self._contexts[key] = context
        return {"ssl": context, "server_hostname": f"{behind.name}.{behind.namespace}.svc"}

    def _learn(self, group: str, version: str, body: bytes) -> None:
        try:
            listed: Any = load_json(body)
        except (msgspec.DecodeError, ValueError):
            return
        found = listed.get("resources") if isinstance(listed, dict) else None
        resources = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        # Only a change invalidates discovery; probes repeat every few seconds.
        if self._resources.get((group, version)) != resources:
            self._resources[group, version] = resources
            self.generation += 1

    def _forget(self) -> None:
        self._known = None
        self.generation += 1
        # Discovery must not show resources of an APIService that was deleted.
        for gone in self._resources.keys() - self.services().keys():
            del self._resources[gone]


def _target(request: Request) -> str:
    """Return path and query, encoded."""
    query = request.scope["query_string"].decode("latin-1")
    path = quote(request.info.path, safe="/:@!$&'()*+,;=~")
    return f"{path}?{query}" if query else path


def _identity_headers(user: UserInfo) -> list[tuple[str, str]]:
    """Return the headers that name the user, for a server that trusts the client certificate."""
    headers = [("X-Remote-User", user.name), *(("X-Remote-Group", group) for group in user.groups)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    for key, values in user.extra.items():
        headers.extend((f"X-Remote-Extra-{quote(key, safe='')}", value) for value in values)
    return headers


def _unavailable(why: str) -> StatusError:
    return failure(503, "ServiceUnavailable", f"error trying to reach service: {why}")
