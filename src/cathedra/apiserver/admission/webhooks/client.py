"""Webhooks called over HTTPS: at a URL, or behind a service of the cluster.

The HTTP client is imported with the first webhook. Certificates are checked against the configuration's CA bundle.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra.api.core.admissionregistration_v1 import ServiceReference, WebhookClientConfig
from cathedra.api.struct import encode
from cathedra.apiserver.admission.webhooks.review import WebhookCallFailed
from cathedra.apiserver.answerbody import BodyTooLarge, read_whole
from cathedra.apiserver.networktexts import network_text
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.serviceendpoints import NoEndpoint, service_endpoint
from cathedra.client.http import close_session

if TYPE_CHECKING:
    import aiohttp

_HTTPS: Final = 443
_ANSWER_LIMIT: Final = 3 * 1024 * 1024


class _Target(msgspec.Struct, frozen=True):
    """The address of a webhook, its name in messages, and the name that its certificate must have."""

    url: str
    shown: str
    server_name: str = ""


class WebhookClient:
    """Calls webhooks over kept connections."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        if self._session is not None:
            await close_session(self._session)
            self._session = None

    async def post(self, config: WebhookClientConfig, review: dict[str, Any], timeout_seconds: float) -> bytes:
        """Call a webhook and return the body of its answer.

        Raises:
            WebhookCallFailed: no whole answer of at most 3 MiB came in time, or not with 200.
        """
        import aiohttp  # start-up time: with the first webhook

        target = self._target(config)
        url = f"{target.url}{'&' if '?' in target.url else '?'}timeout={timeout_seconds:g}s"
        shown = f"{target.shown}{'&' if '?' in target.shown else '?'}timeout={timeout_seconds:g}s"
        if self._session is None:
            # Requests that wait for a webhook hold seats of flow control, which bounds them. In a pool with a limit,
            # calls to a webhook that hangs would let those to all others time out.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(auto_decompress=True, connector=connector)
        # The connection goes to an endpoint's address; the certificate has the name of the service.
        options: dict[str, Any] = {"server_hostname": target.server_name} if target.server_name else {}
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._session.post(
                    url,
                    data=encode(review),
                    headers={"Content-Type": "application/json", "Accept": "application/json"},
                    ssl=self._context(config.ca_bundle),
                    # A redirect could lead the server, with its network, to any address.
                    allow_redirects=False,
                    **options,
                ) as answer,
            ):
                body = await read_whole(answer, _ANSWER_LIMIT)
                if answer.status != 200:
                    raise WebhookCallFailed(f"failed to call webhook: {_failure(answer.status, body)}")
                return body
        except TimeoutError:
            raise WebhookCallFailed(f'failed to call webhook: Post "{shown}": context deadline exceeded') from None
        except (aiohttp.ClientError, BodyTooLarge, ssl.SSLError, OSError) as error:
            raise WebhookCallFailed(f'failed to call webhook: Post "{shown}": {network_text(error)}') from None

    def _target(self, config: WebhookClientConfig) -> _Target:
        if config.url is not None:
            return _Target(config.url, config.url)
        if config.service is None:
            raise WebhookCallFailed("failed to call webhook: neither url nor service is set")
        return self._behind(config.service)

    def _behind(self, service: ServiceReference) -> _Target:
        port = service.port or _HTTPS
        try:
            host, number = service_endpoint(self._registry, service.namespace, service.name, port)
        except NoEndpoint as error:
            raise WebhookCallFailed(f"failed to call webhook: {error}") from None
        name = f"{service.name}.{service.namespace}.svc"
        path = f"/{(service.path or '').lstrip('/')}"
        return _Target(f"https://{host}:{number}{path}", f"https://{name}:{port}{path}", name)

    def _context(self, bundle: bytes) -> ssl.SSLContext:
        known = self._contexts.get(bundle)
        if known is None:
            try:
                known = ssl.create_default_context(cadata=bundle.decode() if bundle else None)
            except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
                raise WebhookCallFailed(f"failed to call webhook: unable to load root certificates: {error}") from None
            self._contexts[bundle] = known
        return known


def _failure(status: int, body: bytes) -> str:
    if status == 404:
        return "the server could not find the requested resource"
    text = body.decode("utf-8", "replace").strip()
    return f'an error on the server ("{text}") has prevented the request from succeeding'
