"""Webhooks called over HTTPS: at a URL, or behind a service of the cluster.

The HTTP client is imported with the first webhook. Certificates are checked against the configuration's CA bundle.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cathedra.api.core.admissionregistration_v1 import ServiceReference, WebhookClientConfig
from cathedra.api.scheme import GroupResource
from cathedra.api.selectors import parse_label_selector
from cathedra.api.struct import encode
from cathedra.apiserver.admission.webhooks.review import CallFailed
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.semantics.pods import is_ready

if TYPE_CHECKING:
    import aiohttp

__all__ = ["WebhookClient"]

_SERVICES: Final = GroupResource("", "services")
_PODS: Final = GroupResource("", "pods")
_HTTPS: Final = 443
_ANSWER_LIMIT: Final = 3 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Target:
    """Where to connect, what to call it, and whose name its certificate has to bear."""

    url: str
    shown: str
    server_name: str = ""


class WebhookClient:
    """Calls webhooks, on connections that are kept."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def close(self) -> None:
        """Let go of the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, config: WebhookClientConfig, review: dict[str, Any], timeout_seconds: float) -> bytes:
        """The body of the answer to ``review``.

        Raises:
            CallFailed: no answer came in time, or not with 200.
        """
        import aiohttp  # start-up time: with the first webhook

        target = self._target(config)
        url = f"{target.url}{'&' if '?' in target.url else '?'}timeout={timeout_seconds:g}s"
        shown = f"{target.shown}{'&' if '?' in target.shown else '?'}timeout={timeout_seconds:g}s"
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=True)
        options: dict[str, Any] = {"server_hostname": target.server_name} if target.server_name else {}
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._session.post(
                    url,
                    data=encode(review),
                    headers={"Content-Type": "application/json", "Accept": "application/json"},
                    ssl=self._context(config.ca_bundle),
                    allow_redirects=False,
                    **options,
                ) as answer,
            ):
                body = await answer.content.read(_ANSWER_LIMIT)
                if answer.status != 200:
                    raise CallFailed(f"failed to call webhook: {_failure(answer.status, body)}")
                return body
        except TimeoutError:
            raise CallFailed(f'failed to call webhook: Post "{shown}": context deadline exceeded') from None
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            raise CallFailed(f'failed to call webhook: Post "{shown}": {error}') from None

    def _target(self, config: WebhookClientConfig) -> _Target:
        if config.url is not None:
            return _Target(config.url, config.url)
        if config.service is None:
            raise CallFailed("failed to call webhook: neither url nor service is set")
        return self._behind(config.service)

    def _behind(self, service: ServiceReference) -> _Target:
        """A pod behind the service: there is no service network that would choose one."""
        port = service.port or _HTTPS
        found: Any = self._registry.find(_SERVICES, f"{service.namespace}/{service.name}")
        if found is None:
            raise CallFailed(f'failed to call webhook: service "{service.name}" not found')
        opened = next((one for one in found.spec.ports if one.port == port), None)
        if opened is None:
            raise CallFailed(f'failed to call webhook: no service port {port} found for service "{service.name}"')
        host, number = self._endpoint(found, opened)
        name = f"{service.name}.{service.namespace}.svc"
        path = f"/{(service.path or '').lstrip('/')}"
        return _Target(f"https://{host}:{number}{path}", f"https://{name}:{port}{path}", name)

    def _endpoint(self, service: Any, port: Any) -> tuple[str, int]:
        if service.spec.type == "ExternalName":
            return service.spec.external_name, port.port
        selector = ",".join(f"{key}={value}" for key, value in service.spec.selector.items())
        matches = parse_label_selector(selector).matches
        for entry in self._registry.table(_PODS).select(Selection(service.metadata.namespace)):
            pod = entry.object
            ready = is_ready(pod)
            if selector and ready and matches(pod.metadata.labels):
                number = _target_port(pod, port)
                return pod.status.pod_ip or pod.status.host_ip, number
        raise CallFailed(f'failed to call webhook: no endpoints available for service "{service.metadata.name}"')

    def _context(self, bundle: bytes) -> ssl.SSLContext:
        known = self._contexts.get(bundle)
        if known is None:
            try:
                known = ssl.create_default_context(cadata=bundle.decode() if bundle else None)
            except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
                raise CallFailed(f"failed to call webhook: unable to load root certificates: {error}") from None
            self._contexts[bundle] = known
        return known


def _target_port(pod: Any, port: Any) -> int:
    wanted = port.target_port
    if wanted is None or wanted == "":
        return int(port.port)
    if isinstance(wanted, int):
        return wanted
    for container in pod.spec.containers:
        for opened in container.ports:
            if opened.name == wanted:
                return int(opened.container_port)
    raise CallFailed(f'failed to call webhook: no port "{wanted}" in pod "{pod.metadata.name}"')


def _failure(status: int, body: bytes) -> str:
    if status == 404:
        return "the server could not find the requested resource"
    text = body.decode("utf-8", "replace").strip()
    return f'an error on the server ("{text}") has prevented the request from succeeding'
