"""Port of a scheduler or controller manager for ``/healthz`` and ``/metrics``.

As in Kubernetes: TLS with a self-signed certificate; health is public, metrics need a user that the API server
authenticates (TokenReview, or a client certificate) and authorizes (SubjectAccessReview for the path).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cathedra.api.core.authorization_v1 import (
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.leaderelection import LeaderElector
from cathedra.client.transport import ResourceRef
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.process.plainhealth import health_text
from cathedra.exposition import CONTENT_TYPE, Family, text_of
from cathedra.files.private import files_in_memory
from cathedra.releases import FeatureGates
from cathedra.releases.metrics import metric, release_families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

HEALTH_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz"})
"""Public paths, as in kube-scheduler's ``--authorization-always-allow-paths``."""

_REVIEWS: Final = ResourceRef(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, SubjectAccessReview
)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthOptions:
    """Address and certificates of a part's health port."""

    address: str = "127.0.0.1"
    port: int = 0
    """Port of the server; 0: nothing is served."""
    client_authority: bytes = b""
    """PEM of the authority of client certificates."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InvalidOption(f"--secure-port must be between 0 and 65535, got {self.port}")


class HealthApplication:
    """The ASGI application of the port."""

    def __init__(
        self, client: Client, registry: CollectorRegistry, clock: Clock, denials: Denials | None = None
    ) -> None:
        """``denials`` are shown by ``/readyz?verbose``."""
        from cathedra.node.server.access import RequestAuthenticator  # start-up time: with the port alone

        self._authenticator = RequestAuthenticator(client, clock)
        self._reviews = client.resource(_REVIEWS)
        self._registry = registry
        self._denials = denials

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Serve one HTTP request; other scopes are ignored."""
        if scope["type"] != "http":
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
            return 500, "the API server cannot be asked who may read this\n", plain
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
        spec = SubjectAccessReviewSpec(
            user=user.username,
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
            non_resource_attributes=NonResourceAttributes(path=path, verb="get"),
        )
        review = await self._reviews.create(SubjectAccessReview(spec=spec))
        if review.status.allowed and not review.status.denied:
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
    from cathedra.asgi.listener import Listener, TLSFiles, bind  # start-up time: with the port alone
    from cathedra.certificates.authority import self_signed  # start-up time: with the port alone

    clock = SystemClock()
    try:
        listening = bind(options.address, options.port)
    except OSError as error:
        raise InvalidOption(f"--secure-port {options.port} of {options.address}: {error.strerror}") from error
    pair = self_signed(f"{options.address}@{int(clock.now())}", (options.address, "localhost"), clock.now())
    with files_in_memory(pair.certificate, pair.key, options.client_authority or pair.certificate) as files:
        listener = Listener(HealthApplication(client, registry, clock, denials), listening, TLSFiles(*files))
        await listener.start()
    say(f"health and metrics at https://{options.address}:{options.port}")
    try:
        yield
    finally:
        await listener.stop()


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
