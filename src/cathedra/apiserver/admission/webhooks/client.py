"""Webhooks called over HTTPS: at a URL, or behind a service of the cluster.

The HTTP client is imported with the first webhook. Certificates are checked against the configuration's CA bundle.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra.api.core.admission_v1 import AdmissionResponse
from cathedra.api.core.admissionregistration_v1 import ServiceReference, WebhookClientConfig
from cathedra.api.core.meta_v1 import Status
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.nesting import WRAPPED_DEPTH, load_json
from cathedra.api.status import StatusError
from cathedra.api.struct import encode, from_dict, replace
from cathedra.apiserver.admission.versioned import VersionedAttributes
from cathedra.apiserver.answerbody import BodyTooLarge, read_whole
from cathedra.apiserver.networktexts import network_text
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.serviceendpoints import NoEndpoint, service_endpoint
from cathedra.client.http import close_session
from cathedra.kinds.definition import VersionDefinition

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


GROUP: Final = "admission.k8s.io"
KIND: Final = "AdmissionReview"
VERSIONS: Final = ("v1", "v1beta1")
"""Supported versions of the review, the preferred one first."""
_BAD_REQUEST: Final = 400


class WebhookCallFailed(Exception):
    """A webhook could not be called, or its answer is invalid; the failure policy decides what follows."""


class WebhookAnswer(msgspec.Struct, frozen=True):
    """The answer of a webhook."""

    allowed: bool
    status: Status
    patch: Any = None
    """JSON patch operations; None leaves the object as it is."""
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = {}


def review_of(view: VersionedAttributes, shown: VersionDefinition, version: str, uid: str) -> JSONObject:
    """Return the review of a request, with its objects in the version that the webhook takes."""
    request = {"uid": uid, **view.attributes(shown)}
    request["object"] = view.object(shown)
    request["oldObject"] = view.old_object(shown)
    return {"kind": KIND, "apiVersion": f"{GROUP}/{version}", "request": request}


def verdict_of(body: bytes, version: str, uid: str, *, may_patch: bool) -> WebhookAnswer:
    """Decode the answer in a body.

    Raises:
        WebhookCallFailed: it is not a valid review.
    """
    try:
        review = load_json(body, WRAPPED_DEPTH)
    except (msgspec.DecodeError, ValueError) as error:
        raise WebhookCallFailed(f"failed to call webhook: {error}") from None
    wanted = (f"{GROUP}/{version}", KIND)
    found = (review.get("apiVersion"), review.get("kind")) if isinstance(review, dict) else (None, None)
    if found != wanted:
        raise _invalid(f"expected webhook response of {wanted[0]}, Kind={wanted[1]}, got {found[0]}, Kind={found[1]}")
    if not isinstance(review.get("response"), dict):
        raise _invalid("webhook response was absent")
    try:
        response = from_dict(AdmissionResponse, review["response"])
    except (msgspec.ValidationError, ValueError) as error:
        raise WebhookCallFailed(f"failed to call webhook: {error}") from None
    # An answer to another review, as from a confused proxy, must not decide about this request.
    if response.uid != uid:
        raise _invalid(f"expected response.uid={json.dumps(uid)}, got {json.dumps(response.uid)}")
    return WebhookAnswer(
        allowed=response.allowed,
        status=response.status or Status(),
        patch=_patch(response) if may_patch else None,
        warnings=response.warnings,
        annotations=response.audit_annotations,
    )


def rejection(webhook: str, said: Status) -> StatusError:
    """Return the error of a request that a webhook denied."""
    denied = f"admission webhook {json.dumps(webhook)} denied the request"
    why = said.message or said.reason
    return StatusError(
        replace(
            said,
            status="Failure",
            # A webhook may set no code, or one of success: Kubernetes answers 400 then.
            code=said.code if said.code >= _BAD_REQUEST else _BAD_REQUEST,
            message=f"{denied}: {why}" if why else f"{denied} without explanation",
        )
    )


def _patch(response: AdmissionResponse) -> Any:
    kind = response.patch_type
    if not response.patch and kind is None:
        return None
    if not response.patch:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if kind is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if kind != "JSONPatch":
        raise _invalid(f'invalid value of response.patchType "{kind}"')
    try:
        return load_json(response.patch)
    except (ValueError, msgspec.DecodeError) as error:
        raise _invalid(f"response.patch cannot be decoded: {error}") from None


def _invalid(why: str) -> WebhookCallFailed:
    return WebhookCallFailed(f"received invalid webhook response: {why}")
