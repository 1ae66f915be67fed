"""Port of a scheduler or controller manager for ``/healthz`` and ``/metrics``.

As in Kubernetes: TLS with a self-signed certificate; health is public, metrics need a user that the API server
authenticates (TokenReview, or a client certificate) and authorizes (SubjectAccessReview for the path).
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from cathedra.api.core.authorization_v1 import NonResourceAttributes
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.leaderelection import LeaderElector
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.process.plainhealth import health_text
from cathedra.exposition import CONTENT_TYPE, Family, text_of
from cathedra.files.private import files_in_memory
from cathedra.releases import FeatureGates
from cathedra.releases.metrics import metric, release_families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from cathedra.asgi.listener import Listener

HEALTH_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz"})
"""Public paths, as in kube-scheduler's ``--authorization-always-allow-paths``."""

Say = Callable[[str], None]


class PathApplication(Protocol):
    """An ASGI application of some paths."""

    @property
    def paths(self) -> frozenset[str]:
        """The paths that it serves."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request to one of the paths, as ASGI defines it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthOptions:
    """Address, certificates and further paths of a part's health port."""

    address: str = "127.0.0.1"
    port: int = 0
    """Port of the server; 0: nothing is served."""
    client_authority: bytes = b""
    """PEM of the authority of client certificates."""
    certificate: Path | None = None
    key: Path | None = None
    """Certificate of the server and its key (PEM); None: a self-signed one is made."""
    beside: PathApplication | None = None
    """Application of further paths, which authenticates and authorizes by itself."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InvalidOption(f"--secure-port must be between 0 and 65535, got {self.port}")
        if (self.certificate is None) != (self.key is None):
            raise InvalidOption("--tls-cert-file and --tls-private-key-file belong together: name both")

    def pair(self, now: float) -> tuple[bytes, bytes]:
        """Return certificate and key of the server.

        Raises:
            InvalidOption: a file cannot be read.
        """
        if self.certificate is None or self.key is None:
            from cathedra.certificates.authority import self_signed  # start-up time: with the port alone

            made = self_signed(f"{self.address}@{int(now)}", (self.address, "localhost"), now)
            return made.certificate, made.key
        try:
            return self.certificate.read_bytes(), self.key.read_bytes()
        except OSError as error:
            raise InvalidOption(f"{error.filename}: {error.strerror}") from error


class HealthApplication:
    """The ASGI application of the port."""

    def __init__(
        self,
        client: Client,
        registry: CollectorRegistry,
        clock: Clock,
        denials: Denials | None = None,
        beside: PathApplication | None = None,
    ) -> None:
        """``denials`` are shown by ``/readyz?verbose``; ``beside`` serves further paths."""
        from cathedra.client.reviews import AccessReviews, RequestAuthenticator  # start-up time: port alone

        self._authenticator = RequestAuthenticator(client, clock)
        self._reviews = AccessReviews(client)
        self._registry = registry
        self._denials = denials
        self._beside = beside

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Serve one HTTP request; other scopes are ignored."""
        if scope["type"] != "http":
            return
        if self._beside is not None and scope["path"] in self._beside.paths:
            await self._beside(scope, receive, send)
            return
        code, text, kind = await self._answer(scope)
        body = text if isinstance(text, bytes) else text.encode()
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Mapping[str, Any]) -> tuple[int, str | bytes, bytes]:
        path, method = scope["path"], scope["method"]
        plain = b"text/plain; charset=utf-8"
        if method not in ("GET", "HEAD"):
            return 405, "method not allowed\n", plain
        # Before authentication: a probe has no credentials, and must work while the API server is down.
        if path in HEALTH_PATHS:
            return 200, health_text(scope, self._denials), plain
        try:
            refusal = await self._refusal(scope, path)
        except StatusError as error:
            return error.status.code, f"{error.status.message}\n", plain
        except ConnectionError:
            return 500, "the API server does not answer, so the request cannot be authorized\n", plain
        if refusal:
            return 403, refusal, plain
        if path != "/metrics":
            return 404, "404 page not found\n", plain
        return 200, text_of(self._registry.collect()), CONTENT_TYPE

    async def _refusal(self, scope: Mapping[str, Any], path: str) -> str:
        """Return the reason why the user may not read ``path``; "" if it may.

        Raises:
            StatusError: 401, the request has no valid credentials; or the API server does not answer.
        """
        user = await self._authenticator.user_of(scope)
        if await self._reviews.allows(user, NonResourceAttributes(path=path, verb="get")):
            return ""
        return f'forbidden: User "{user.username}" cannot get path "{path}"\n'


@asynccontextmanager
async def serving_health(
    options: HealthOptions,
    client: Client,
    registry: CollectorRegistry,
    elector: LeaderElector | None,
    *,
    denials: Denials | None = None,
    say: Say,
) -> AsyncIterator[None]:
    """Serve while the body runs; without a port nothing is served.

    Raises:
        InvalidOption: the port cannot be opened.
    """
    if denials is not None:
        denials.export(registry)
    if elector is not None:
        show_leadership(registry, elector)
    if not options.port:
        yield
        return
    clock = SystemClock()
    listener = await _listening(options, HealthApplication(client, registry, clock, denials, options.beside), clock)
    say(f"health and metrics at https://{options.address}:{options.port}")
    try:
        yield
    finally:
        await listener.stop()


async def _listening(options: HealthOptions, application: HealthApplication, clock: Clock) -> Listener:
    """Return a listener that serves ``application`` at the port of the options."""
    from cathedra.asgi.listener import Listener, TLSFiles, bind  # start-up time: with the port alone

    certificate, key = options.pair(clock.now())
    try:
        listening = bind(options.address, options.port)
    except OSError as error:
        raise InvalidOption(f"--secure-port {options.port} of {options.address}: {error.strerror}") from error
    with files_in_memory(certificate, key, options.client_authority or certificate) as files:
        listener = Listener(application, listening, TLSFiles(*files))
        try:
            await listener.start()
        except ssl.SSLError as error:
            listening.close()
            raise InvalidOption(f"--tls-cert-file {options.certificate}: {error.reason or error}") from error
    return listener


def show_leadership(registry: CollectorRegistry, elector: LeaderElector) -> None:
    """Export ``leader_election_master_status``: 1 while this process leads."""
    from prometheus_client.registry import Collector  # start-up time: not for a part without an elector

    class Leadership(Collector):
        def collect(self) -> Iterator[Any]:
            family = Family(metric("leader_election_master_status"))
            family.add((elector.name,), elector.leading)
            yield family

    registry.register(Leadership())


def show_release(registry: CollectorRegistry, gates: FeatureGates) -> None:
    """Export version, feature gates and use of resources of this process."""
    from prometheus_client import ProcessCollector  # start-up time: with the port alone
    from prometheus_client.registry import Collector

    class Release(Collector):
        def collect(self) -> Iterator[Any]:
            yield from release_families(gates)

    registry.register(Release())
    ProcessCollector(registry=registry)
