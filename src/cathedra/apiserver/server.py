"""The API server: store, objects, access control, verbs, and its transports.

Tests and simulations open one with a store in memory and virtual time, and use `transport`. `serve` listens for
HTTPS.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.api.status import failure
from cathedra.apiserver.accesscontrol import AccessSetup, access_control
from cathedra.apiserver.admission.webhooks.client import WebhookCallFailed, WebhookClient
from cathedra.apiserver.authentication.authenticator import Authenticator, BootstrapTokens, StaticTokens, authenticated
from cathedra.apiserver.authentication.pki import PKI, FrontProxyTLS, KubeletTLS
from cathedra.apiserver.authentication.serviceaccounts import ServiceAccountTokens
from cathedra.apiserver.authentication.signing import SigningKey
from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.bootstrap.apiservices import APIServiceKeeper
from cathedra.apiserver.bootstrap.clusterobjects import (
    SERVICE_NAMES,
    Address,
    authentication_info,
    check_authority,
    cluster_info,
    create_namespaces,
    kubernetes_service,
)
from cathedra.apiserver.bootstrap.danglingschemas import DanglingSchemas
from cathedra.apiserver.bootstrap.expiry import EventExpiry, HistoryTrimming
from cathedra.apiserver.bootstrap.flowcontrol import flow_control
from cathedra.apiserver.bootstrap.keeping import ObjectKeeper
from cathedra.apiserver.bootstrap.roles import reconcile_roles
from cathedra.apiserver.bootstrap.serverleases import RevisionSharing, ServerLeases
from cathedra.apiserver.catalog import Catalog, served_definitions, served_virtual
from cathedra.apiserver.computation import Computations
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.custom.conversion import Caller
from cathedra.apiserver.customresources import DefinitionController, ServedDefinitions
from cathedra.apiserver.expressions import CELExpressions
from cathedra.apiserver.http.about.discovery import Discovery, OpenAPI
from cathedra.apiserver.http.about.server import About, HealthAndVersion
from cathedra.apiserver.http.app import Application, UpgradeHandler
from cathedra.apiserver.http.proxying.aggregation import AggregatedServers
from cathedra.apiserver.http.proxying.proxy import Proxy
from cathedra.apiserver.http.resources import ResourceHandler
from cathedra.apiserver.pipeline.audit import AuditLog
from cathedra.apiserver.pipeline.flowcontrol import FlowController
from cathedra.apiserver.pipeline.metrics import Metrics
from cathedra.apiserver.pipeline.pipeline import Pipeline, Recorder
from cathedra.apiserver.registry.registry import AnyStorage, Registry
from cathedra.apiserver.storage.protocol import MemoryStorage
from cathedra.apiserver.transport import InProcessTransport, WrappedTransport
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.asgi.dealing import DealtConnections
from cathedra.asgi.listener import Listener, TLSFiles, bind
from cathedra.client.denials import Denials
from cathedra.client.transport import Transport
from cathedra.clock import Clock
from cathedra.releases import FeatureGates


class APIServer:
    """One API server. Made by `open`, ended by `close`."""

    def __init__(self, config: ServerConfig, context: ServerContext, catalog: Catalog) -> None:
        self.config = config
        self.context = context
        self.catalog = catalog
        self.pki: PKI | None = None
        self.port = 0
        self._host = "127.0.0.1"
        self._client_authorities = b""
        # Shared with the context, so that tokens added later count for reviews too.
        self._tokens = context.static_tokens
        self._anonymous: frozenset[str] | None = None
        self._kubelet: KubeletTLS | None = None
        self._app: Application | None = None
        self._listener: Listener | DealtConnections | None = None
        self._closed_first: list[Callable[[], Awaitable[None]]] = []
        self.upgrades: dict[str, UpgradeHandler] = {}
        """Paths on which protocols other than HTTP may be requested; complete before the server listens."""
        self._proxy: Proxy | None = None
        self._own_summary: Callable[[str], Awaitable[Any] | None] = lambda _: None
        self._webhooks: WebhookClient | None = None
        self._keeping: tuple[asyncio.Task[None], ...] = ()
        self._front_proxy: FrontProxyTLS | None = None
        self.health_notes: Callable[[], Iterable[str]] = tuple
        """Returns the lines that ``/readyz?verbose`` adds to the checks."""
        self.aggregated = AggregatedServers(context.registry, lambda: self._front_proxy)
        """The servers of aggregated API groups."""
        served = ServedDefinitions(context.registry, catalog, Caller(self._convert, context.random))
        self._definitions = DefinitionController(context, served)
        self._audit = AuditLog(config.audit_log, config.audit_policy) if config.audit_log is not None else None

    def take_figures_from(self, summary: Callable[[str], Awaitable[Any] | None]) -> None:
        """Read the usage of a node's pods from ``summary``, and from the node's own server if that returns None."""
        self._own_summary = summary

    @classmethod
    async def open(
        cls, config: ServerConfig, *, clock: Clock, random: random.Random, store: AnyStorage | None = None
    ) -> Self:
        """Load the store and create the objects that every cluster has. Without ``store`` nothing is kept.

        Raises:
            StorageError: the store cannot be read.
        """
        gates = config.gates or FeatureGates.for_release(config.release)
        definitions = config.definitions
        if definitions is None:
            from cathedra.kinds.served import all_definitions  # start-up time: unless the kinds are given

            definitions = all_definitions(gates)
        served = served_definitions(definitions, gates, dict(config.runtime_config))
        registry = Registry(store or MemoryStorage(), served, gates.release)
        await registry.load()
        RevisionSharing(registry, clock).start()
        catalog = Catalog(served, served_virtual(gates, dict(config.runtime_config)))
        computations = Computations()
        setup = AccessSetup(config, gates, lambda: iter(catalog), computations, clock, random)
        access = access_control(registry, setup)
        context = ServerContext(
            registry=registry,
            admission=access.admission,
            authorizer=access.authorizer,
            gates=gates,
            clock=clock,
            random=random,
            computations=computations,
            tokens=ServiceAccountTokens(registry, clock, random, SigningKey()),
            static_tokens=StaticTokens({}),
            rules=access.rules,
            expressions=CELExpressions(gates),
        )
        opened = cls(config, context, catalog)
        opened._webhooks = access.webhooks
        # Before anything is created: custom resources of the store must be served when the first request arrives.
        opened._definitions.start()
        await create_namespaces(context)
        if config.authorization:
            await reconcile_roles(context)
        return opened

    def transport(
        self, user: str = "system:admin", groups: tuple[str, ...] = (MASTERS_GROUP,), *, uid: str = ""
    ) -> InProcessTransport:
        """Return the in-process transport of a user."""
        return self.transport_of(UserInfo(user, groups, uid))

    def transport_of(self, user: UserInfo, denials: Denials | None = None) -> InProcessTransport:
        """Return the in-process transport of a user with all its attributes; ``denials`` collects refusals for want
        of a right."""
        kind = WrappedTransport if self.context.registry.shared else InProcessTransport
        return kind(self.context, self.catalog, authenticated(user), denials=denials)

    def transport_of_part(self, user: UserInfo, agent: str, denials: Denials) -> Transport:
        """Return the in-process transport of a part of the cluster; its calls are in the audit log, if there is one."""
        if self._audit is None:
            return self.transport_of(user, denials)
        recorder = Recorder(self.context, None, self._audit)
        user = authenticated(user)
        return WrappedTransport(self.context, self.catalog, user, denials=denials, recorder=recorder, agent=agent)

    def beside(self, config: ServerConfig) -> Self:
        """Return another server on the same objects, with other gates or versions, as during an upgrade."""
        gates = config.gates or FeatureGates.for_release(config.release)
        definitions = config.definitions
        if definitions is None:
            from cathedra.kinds.served import all_definitions  # start-up time: unless the kinds are given

            definitions = all_definitions(gates)
        served = served_definitions(definitions, gates, dict(config.runtime_config))
        # The registry is shared: both servers see each other's writes at once, as two servers on one etcd do.
        return type(self)(
            config,
            msgspec.structs.replace(self.context, gates=gates, expressions=CELExpressions(gates)),
            Catalog(served, served_virtual(gates, dict(config.runtime_config))),
        )

    @property
    def app(self) -> Application:
        """The ASGI application; made when it is first needed."""
        if self._app is None:
            self._app = self._make_app()
        return self._app

    async def serve(self, options: ServeOptions) -> str:
        """Listen, and return the URL; `close` ends it.

        Raises:
            OSError: the address is in use.
            StorageError: servers on the same store have another authority.
        """
        listening = bind(options.host, options.port)
        tls = self._prepare(options, listening.getsockname()[1])
        self._listener = Listener(self.app, listening, tls)
        await self._listener.start()
        if options.advertised:
            await self._keep_objects(options.advertised)
        return self.url

    def deal_to(self, line: socket.socket) -> None:
        """Pass a share of the connections to the API server of another process on the same store, over ``line``
        (`serve_dealt` at its other end). Only while this server serves."""
        assert isinstance(self._listener, Listener), "the server listens"
        self._listener.deal_to(line)

    async def serve_dealt(self, options: ServeOptions, line: socket.socket) -> None:
        """Serve the connections that the server at the address of these options passes on over ``line``."""
        tls = self._prepare(options, options.port)
        self._listener = DealtConnections(self.app, line, tls)
        await self._listener.start()

    def _prepare(self, options: ServeOptions, port: int) -> TLSFiles | None:
        """Configure authentication by the options, and return the certificates to serve with."""
        self.port = port
        self._host = options.advertised or options.host
        self._tokens.add(options.tokens)
        self._anonymous = options.anonymous
        if options.pki is None:
            return None
        self.pki = PKI(options.pki, self.context.clock.now())
        check_authority(self.context.registry, self.pki.authority_certificate, options.pki)
        # Tokens of an earlier start must stay valid, so the key is read from its file if that exists.
        self.context.tokens.key.keep_in(self.pki.service_account_key)
        hosts = options.names or (options.host, "localhost", "127.0.0.1")
        tls = self.pki.tls_files((*hosts, *SERVICE_NAMES), options.client_authority)
        self._client_authorities = tls.client_authority.read_bytes()
        self._kubelet = options.kubelet or self.pki.kubelet_client()
        self._front_proxy = self.pki.front_proxy()
        return tls

    def close_first(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call ``close`` when the server is closed, before anything that it serves with ends."""
        self._closed_first.append(close)

    async def serve_replica(self, connected: socket.socket) -> None:
        """Be the store of an API server in another process of this cluster, at the other end of a unix socket.

        Only where this server writes its store alone.
        """
        await self.context.registry.serve_replica(connected)

    def serve_process(self, pki: PKI) -> None:
        """Be there for this process alone, beside the server whose store this is and whose keys these are."""
        self.pki = pki
        self.context.tokens.key.keep_in(pki.service_account_key)
        history = HistoryTrimming(self.context)
        self._keeping = (asyncio.create_task(history.run(), name="history"),)

    async def _keep_objects(self, address: str) -> None:
        """Create and maintain the objects that describe this server to the cluster: its address and the authorities
        of its certificates."""
        kept = [kubernetes_service(self.port), *flow_control()]
        leases = ServerLeases(self.context, Address(address, self.port))
        if self.pki is not None and self._front_proxy is not None:
            kept.append(authentication_info(self._client_authorities, self._front_proxy.authority))
            kept.extend(cluster_info(self.url, self.pki.authority_certificate, leases.urls))
        kept_objects = ObjectKeeper(self.context, kept)
        # Once before serving goes on: clients look for the Service «kubernetes» right after the start.
        await leases.reconcile()
        await kept_objects.reconcile()
        self._closed_first.append(leases.end)
        dangling = DanglingSchemas(self.context)
        services = APIServiceKeeper(self.context, self.catalog, self.aggregated.probe)
        events = EventExpiry(self.context)
        history = HistoryTrimming(self.context)
        self._keeping = (
            asyncio.create_task(kept_objects.run(), name="kept objects"),
            asyncio.create_task(leases.run(), name="leases of servers"),
            asyncio.create_task(services.run(), name="API services"),
            asyncio.create_task(dangling.run(), name="flow schemas"),
            asyncio.create_task(events.run(), name="expiry of events"),
            asyncio.create_task(history.run(), name="history"),
        )

    @property
    def url(self) -> str:
        """The URL of the server, once it serves."""
        scheme = "http" if self.pki is None else "https"
        return f"{scheme}://{self.address}"

    @property
    def address(self) -> str:
        """Host and port of the server, as URLs have them."""
        return str(Address(self._host, self.port))

    @property
    def host(self) -> str:
        """The address under which clients reach the server."""
        return self._host

    def _make_app(self) -> Application:
        invited = BootstrapTokens(self.context.registry, self.context.clock)
        authenticator = Authenticator((self._tokens, self.context.tokens, invited), anonymous=self._anonymous)
        openapi = OpenAPI(self.catalog, self.config.release, self.context.computations)
        discovery = Discovery(self.catalog, openapi, lambda: self.address, self.aggregated)
        checks = {"ping": lambda: True, "log": lambda: True, "etcd": lambda: not self.context.registry.problem}
        health = HealthAndVersion(self.config.release, checks, self._health_lines)
        self._proxy = Proxy(self.context, self._kubelet)
        self._proxy.own_summary = lambda name: self._own_summary(name)
        flow = FlowController(self.context.registry, seats=self.config.max_requests_inflight)
        pipeline = Pipeline(
            self.context,
            authenticator,
            flow,
            metrics=Metrics(
                self.context.registry, flow, self.catalog, self.context.admission.metrics, self.context.gates
            ),
            audit=self._audit,
            passes_on=self.aggregated.behind,
        )
        about = About(health, self.context.tokens, discovery)
        resources = ResourceHandler(self.context, self.catalog, self._proxy)
        return Application(self.context, pipeline, resources, about, aggregated=self.aggregated, upgrades=self.upgrades)

    def _health_lines(self) -> Iterable[str]:
        problem = self.context.registry.problem
        shortage = self._listener.shortage if self._listener is not None else ""
        return (
            *self.health_notes(),
            *((f"etcd: {problem}",) if problem else ()),
            *((f"new connections wait: {shortage}",) if shortage else ()),
        )

    async def _convert(self, config: Any, review: JSONObject, timeout_seconds: float) -> bytes:
        """Send a conversion review.

        Raises:
            StatusError: 500, it was not answered.
        """
        if self._webhooks is None:
            self._webhooks = WebhookClient(self.context.registry)
        try:
            return await self._webhooks.post(config, review, timeout_seconds)
        except WebhookCallFailed as error:
            raise failure(500, "", str(error).removeprefix("failed to call webhook: ")) from None

    @property
    def revision(self) -> int:
        """The revision of the last write."""
        return self.context.registry.revision

    async def close(self) -> None:
        """Stop listening, end all watches and close the store."""
        # In the reverse order of dependence: tasks that write end before the watchers, connections before the store.
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        self.context.registry.close_watchers()
        for close in self._closed_first:
            await close()
        if self._listener is not None:
            await self._listener.stop()
        if self._proxy is not None:
            await self._proxy.close()
        await self.aggregated.close()
        if self._webhooks is not None:
            await self._webhooks.close()
        await self._definitions.close()
        self.context.computations.close()
        if self._audit is not None:
            self._audit.close()
        await self.context.registry.close()
