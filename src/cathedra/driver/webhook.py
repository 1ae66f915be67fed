"""A validating webhook for a driver's opaque parameters: claims that cannot be prepared are refused on admission.

docs/spec/driver-sdk.md §17.6. `review` judges one AdmissionReview with the models that `prepare` uses.
`WebhookApplication` serves it, on one path for reviews and one for readiness. The webhook has a certificate of its own
authority, and registers itself at the API server with that authority. Instances behind one Service share the
certificate in a Secret; a webhook outside of the cluster creates a new one at each start.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from cathedra.api.core.admissionregistration_v1 import ValidatingWebhookConfiguration
from cathedra.api.core.core_v1 import Secret
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import decode
from cathedra.asgi.application import Receive, Scope, Send, read_body
from cathedra.asgi.listener import Listener, TLSFiles, bind
from cathedra.certificates.authority import Authority
from cathedra.client.client import Client
from cathedra.client.resources import SECRETS
from cathedra.client.transport import ResourceRef
from cathedra.driver.claim import ConfigModels, decode_parameters
from cathedra.driver.driver import Driver
from cathedra.driver.errors import ConfigError, OptionError
from cathedra.files.private import files_in_memory

RESOURCES: Final = {"resourceclaims": "spec", "resourceclaimtemplates": "spec.spec"}
"""Resources with opaque parameters, and where their claim's spec is."""
_API_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"
_INVALID: Final = 422


class BadReview(ValueError):
    """The body is no AdmissionReview of claims. The text has the reason."""


class _Opaque(msgspec.Struct):
    driver: str = ""
    parameters: Any = None


class _Config(msgspec.Struct):
    opaque: _Opaque | None = None


class _Devices(msgspec.Struct):
    config: list[_Config] | None = None


class _Spec(msgspec.Struct):
    devices: _Devices = msgspec.field(default_factory=_Devices)
    spec: _Spec | None = None


class _Object(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Resource(msgspec.Struct):
    resource: str = ""


class _AdmissionRequest(msgspec.Struct):
    uid: str
    resource: _Resource
    object: _Object | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _AdmissionRequest


def judge(body: bytes, driver: str, models: ConfigModels) -> dict[str, Any]:
    """Return the answer to an AdmissionReview: refused if any parameters for ``driver`` are not what ``models`` take.

    The versions of resource.k8s.io have the parameters in the same place, so each is judged as it came.

    Raises:
        BadReview: the body is something else.
    """
    try:
        review = decode(_Review, body)
    # The body comes from any process that reaches the port. Deep nesting must be answered with 400 and not end the
    # server.
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadReview(f"the body is no {_KIND}: {error}") from error
    if (review.api_version, review.kind) != (_API_VERSION, _KIND):
        raise BadReview(f"{_API_VERSION} {_KIND} is expected, found {review.api_version} {review.kind}")
    if review.request.resource.resource not in RESOURCES:
        raise BadReview(f"{review.request.resource.resource} have no parameters of devices")
    faults = list(_faults(review.request, driver, models))
    response: dict[str, Any] = {"uid": review.request.uid, "allowed": not faults}
    if faults:
        message = f"{len(faults)} configs failed to validate: {'; '.join(faults)}"
        response["status"] = {"message": message, "reason": "Invalid", "code": _INVALID}
    return {"apiVersion": _API_VERSION, "kind": _KIND, "response": response}


def _faults(request: _AdmissionRequest, driver: str, models: ConfigModels) -> Iterator[str]:
    if request.object is None:
        return
    spec = request.object.spec
    place = RESOURCES[request.resource.resource]
    if place == "spec.spec":
        spec = spec.spec or _Spec()
    for i, config in enumerate(spec.devices.config or ()):
        # Parameters of other drivers are theirs to judge. Refusing them would make claims with two drivers impossible.
        if config.opaque is None or config.opaque.driver != driver:
            continue
        where = f"{place}.devices.config[{i}].opaque.parameters"
        if not isinstance(config.opaque.parameters, Mapping):
            yield f"{where}: a JSON object is expected, found {config.opaque.parameters!r}"
            continue
        try:
            decode_parameters(config.opaque.parameters, models, where)
        except ConfigError as error:
            yield str(error)


PATH: Final = "/validate-resource-claim-parameters"
_MOST_BYTES: Final = 8 * 1024 * 1024
"""More than twice the largest object, since an update carries two."""
_PLAIN: Final = b"text/plain; charset=utf-8"
_LOG = logging.getLogger(__name__)


class WebhookApplication:
    """The ASGI application of a driver's webhook.

    Callers are not authenticated: an answer contains nothing that is not in its request.
    """

    def __init__(self, driver: str, models: ConfigModels) -> None:
        self._driver = driver
        self._models = models

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; other scopes are ignored."""
        if scope["type"] != "http":
            return
        code, body, kind = await self._answer(scope, receive)
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes, bytes]:
        if scope["path"] == "/readyz":
            return 200, b"ok", _PLAIN
        if scope["path"] != PATH:
            return 404, b"404 page not found\n", _PLAIN
        if scope["method"] != "POST":
            return 405, b"method not allowed\n", _PLAIN
        kinds = [value for name, value in scope["headers"] if name == b"content-type"]
        if not kinds or kinds[0].partition(b";")[0].strip() != b"application/json":
            return 415, b"the body must be application/json\n", _PLAIN
        # Callers are not authenticated, so the limit holds before anything is decoded.
        body = await read_body(receive, _MOST_BYTES)
        if body is None:
            return 413, b"the body is too large\n", _PLAIN
        try:
            answer = judge(body, self._driver, self._models)
        except BadReview as error:
            return 400, f"{error}\n".encode(), _PLAIN
        if not answer["response"]["allowed"]:
            _LOG.info("refused: %s", answer["response"]["status"]["message"])
        return 200, json.dumps(answer).encode(), b"application/json"


_CONFIGURATIONS: Final = ResourceRef(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
    ValidatingWebhookConfiguration,
)


@dataclass(frozen=True, slots=True)
class WebhookAddress:
    """Address at which API servers call the webhook: a Service (``NAMESPACE/NAME``), or a host outside of
    the cluster.
    """

    service: str = ""
    host: str = ""
    port: int = 443
    """Port of the Service or host; 0: the one on which the webhook listens."""

    def __post_init__(self) -> None:
        if bool(self.service) == bool(self.host):
            raise OptionError("name either the webhook's Service, as NAMESPACE/NAME, or its host")
        if self.service and (self.service.count("/") != 1 or not all(self.service.split("/"))):
            raise OptionError(f"the webhook's Service must be NAMESPACE/NAME, got {self.service!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names that its certificate must have."""
        if self.host:
            return (self.host,)
        namespace, name = self.service.split("/")
        return (f"{name}.{namespace}.svc", f"{name}.{namespace}.svc.cluster.local")

    def client_config(self, authority: bytes) -> dict[str, Any]:
        """Return the same for an API server; ``authority`` is a PEM file."""
        bundle = {"caBundle": base64.b64encode(authority).decode()}
        if self.host:
            host = f"[{self.host}]" if ":" in self.host else self.host
            return {"url": f"https://{host}:{self.port}{PATH}", **bundle}
        namespace, name = self.service.split("/")
        return {"service": {"namespace": namespace, "name": name, "port": self.port, "path": PATH}, **bundle}


async def register(client: Client, driver: str, address: WebhookAddress, authority: bytes) -> None:
    """Create the webhook's configuration, named like the driver, or bring it up to date.

    Raises:
        StatusError: that is not allowed.
    """
    webhook = {
        "name": f"parameters.{driver}",
        "clientConfig": address.client_config(authority),
        "rules": [
            {
                "apiGroups": ["resource.k8s.io"],
                "apiVersions": ["v1", "v1beta1", "v1beta2"],
                "operations": ["CREATE", "UPDATE"],
                "resources": sorted(RESOURCES),
                "scope": "Namespaced",
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        # With "Ignore" claims would pass while the webhook is down, and fail on the node, where only events show the
        # reason.
        "failurePolicy": "Fail",
    }
    await client.resource(_CONFIGURATIONS).apply(driver, {"webhooks": [webhook]})


_FILES: Final = ("ca.crt", "tls.crt", "tls.key")


@asynccontextmanager
async def serving_webhook(
    driver: Driver, client: Client, address: WebhookAddress, *, listen: tuple[str, int]
) -> AsyncIterator[int]:
    """Serve while the body runs, and be registered; yields the port.

    Raises:
        OptionError: the driver declares no models of parameters, so there is nothing to judge.
        OSError: the port is in use.
        StatusError: the webhook may not be registered, or its Secret not be read.
    """
    if not driver.configs:
        raise OptionError(f"driver {driver.name} declares no configs, so every parameter is right")
    listening = bind(*listen)
    files = await _certificate(client, driver.name, address)
    with files_in_memory(*(files[name] for name in _FILES)) as (authority, certificate, key):
        app = WebhookApplication(driver.name, driver.configs)
        listener = Listener(app, listening, TLSFiles(certificate, key, authority))
        # Before the registration: from then on every claim waits for this webhook.
        await listener.start()
        try:
            found = address if address.port else replace(address, port=listener.port)
            await register(client, driver.name, found, files["ca.crt"])
            yield listener.port
        finally:
            await listener.stop()


async def _certificate(client: Client, driver: str, address: WebhookAddress) -> dict[str, bytes]:
    """Authority, certificate and key, as files of a Secret of type kubernetes.io/tls have them."""
    now = client.clock.now()
    authority = Authority.make(now, f"{driver}-webhook")
    pair = authority.server(address.names, now, name=address.names[0])
    made = dict(zip(_FILES, (authority.pair.certificate, pair.certificate, pair.key), strict=True))
    if not address.service:
        return made
    namespace, name = address.service.split("/")
    secrets = client.resource(SECRETS, namespace)
    metadata = ObjectMeta(name=f"{name}-tls")
    try:
        # Created and not read first: of instances that start together one succeeds, and the others use its certificate.
        await secrets.create(Secret(metadata=metadata, type="kubernetes.io/tls", data=made))
    except StatusError as error:
        if not error.is_already_exists:
            raise
        # One certificate for all instances: the registration has one authority, and calls are spread over them.
        kept = (await secrets.get(metadata.name)).data
        if not set(_FILES) <= set(kept):
            lacking = ", ".join(sorted(set(_FILES) - set(kept)))
            raise OptionError(f"Secret {namespace}/{metadata.name} lacks {lacking}") from error
        return {file: bytes(kept[file]) for file in _FILES}
    return made
