"""Reviews judged by the models with which the driver prepares."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.admissionregistration_v1 import ValidatingWebhookConfiguration
from cathedra.api.core.core_v1 import Namespace, Secret
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    DeviceClaim,
    DeviceClaimConfiguration,
    OpaqueDeviceConfiguration,
    ResourceClaim,
    ResourceClaimSpec,
)
from cathedra.api.status import StatusError
from cathedra.api.struct import RawJSON
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import NAMESPACES, RESOURCECLAIMS, SECRETS
from cathedra.client.transport import ResourceRef
from cathedra.clock import SystemClock
from cathedra.driver import Driver
from cathedra.driver.errors import OptionError
from cathedra.driver.webhook import (
    PATH,
    BadReview,
    WebhookAddress,
    WebhookApplication,
    judge,
    register,
    serving_webhook,
)
from tests.unit.apiserver.asgi import open_asgi

DRIVER = "lamp.example.com"


@dataclass
class LampConfig:
    """Parameters of a lamp."""

    colour: str = "white"
    level: int = 100

    def __post_init__(self) -> None:
        if not 0 <= self.level <= 100:
            raise ValueError("level must be between 0 and 100")


MODELS = {("lamp.example.com/v1", "LampConfig"): LampConfig}


def parameters(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "lamp.example.com/v1", "kind": "LampConfig", **fields}


def judged(*given_parameters: Any, resource: str = "resourceclaims", driver: str = DRIVER) -> dict[str, Any]:
    """The response about an object with these parameters."""
    config = [{"opaque": {"driver": driver, "parameters": one}} for one in given_parameters]
    spec: dict[str, Any] = {"devices": {"config": config}}
    if resource == "resourceclaimtemplates":
        spec = {"metadata": {}, "spec": spec}
    request = {"uid": "u1", "resource": {"group": "resource.k8s.io", "resource": resource}, "object": {"spec": spec}}
    answer = judge(review(request), DRIVER, MODELS)
    assert answer["response"].pop("uid") == "u1"
    response: dict[str, Any] = answer["response"]
    return response


def review(request: Any) -> bytes:
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


@pytest.mark.parametrize("resource", ["resourceclaims", "resourceclaimtemplates"])
def test_parameters_that_can_be_prepared_are_let_through(resource: str) -> None:
    assert judged(parameters(colour="red"), parameters(level=3), resource=resource) == {"allowed": True}


@pytest.mark.parametrize(("resource", "place"), [("resourceclaims", "spec"), ("resourceclaimtemplates", "spec.spec")])
def test_each_fault_is_told_with_its_place(resource: str, place: str) -> None:
    response = judged(parameters(), parameters(color="red"), parameters(level=101), "text", resource=resource)
    where = [f"{place}.devices.config[{i}].opaque.parameters" for i in range(4)]
    assert response == {
        "allowed": False,
        "status": {
            "message": "3 configs failed to validate: "
            f'{where[1]}: unknown field "color"; LampConfig has colour, level; '
            f"{where[2]}: level must be between 0 and 100; {where[3]}: a JSON object is expected, found 'text'",
            "reason": "Invalid",
            "code": 422,
        },
    }


def test_parameters_for_other_drivers_are_not_looked_at() -> None:
    assert judged("anything", driver="other.example.com") == {"allowed": True}


def test_a_deleted_object_is_none_of_its_business() -> None:
    request = {"uid": "u1", "resource": {"resource": "resourceclaims"}, "object": None}
    assert judge(review(request), DRIVER, MODELS)["response"]["allowed"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "the body is no AdmissionReview"),
        (b"[" * 100_000, "the body is no AdmissionReview"),
        (b'{"apiVersion": "v1", "kind": "Pod", "request": {"uid": "", "resource": {}}}', "found v1 Pod"),
        (review({"uid": "", "resource": {"resource": "pods"}}), "pods have no parameters"),
    ],
    ids=["no JSON", "deep", "another kind", "another resource"],
)
def test_what_is_no_review_of_claims_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(BadReview, match=said):
        judge(body, DRIVER, MODELS)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner),
)


@given(ANYTHING)
def test_whatever_the_parameters_are_there_is_an_answer(value: Any) -> None:
    assert judged(value)["allowed"] is False


@pytest.mark.parametrize(
    "spec", [None, {"devices": None}, {"devices": {"config": None}}, {"devices": {"config": [None, {"opaque": None}]}}]
)
def test_a_claim_that_go_writes_with_nulls_has_no_parameters(spec: Any) -> None:
    resource = {"group": "resource.k8s.io", "resource": "resourceclaims"}
    request = {"uid": "u1", "resource": resource, "object": {"spec": spec}, "oldObject": None, "options": None}
    assert judge(review(request), DRIVER, MODELS)["response"] == {"uid": "u1", "allowed": True}


JSON = "application/json"


async def asked(method: str, path: str, kind: str, *parts: bytes) -> tuple[int, bytes]:
    """Status and body of an answer; the request's body comes in parts."""
    sent: list[dict[str, Any]] = []
    left = list(parts)

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": left.pop(0) if left else b"", "more_body": bool(left)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"content-type", kind.encode())] if kind else []
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    await WebhookApplication(DRIVER, MODELS)(scope, receive, send)
    assert dict(sent[0]["headers"])[b"content-length"] == str(len(sent[1]["body"])).encode()
    return sent[0]["status"], sent[1]["body"]


@pytest.mark.parametrize(
    ("method", "path", "kind", "body", "code"),
    [
        ("GET", "/readyz", "", b"", 200),
        ("GET", "/other", "", b"", 404),
        ("GET", PATH, "", b"", 405),
        ("POST", PATH, "", b"{}", 415),
        ("POST", PATH, "text/plain", b"{}", 415),
        ("POST", PATH, JSON, b"{}", 400),
        ("POST", PATH, JSON, b" " * (8 * 1024 * 1024 + 1), 413),
    ],
)
async def test_other_requests_get_their_status(method: str, path: str, kind: str, body: bytes, code: int) -> None:
    assert (await asked(method, path, kind, body))[0] == code


async def test_a_review_in_several_parts_is_answered() -> None:
    config = [{"opaque": {"driver": DRIVER, "parameters": parameters(level=101)}}]
    claim = {"spec": {"devices": {"config": config}}}
    body = review({"uid": "u1", "resource": {"resource": "resourceclaims"}, "object": claim})
    code, answer = await asked("POST", PATH, f"{JSON}; charset=utf-8", body[:10], body[10:])
    response = json.loads(answer)["response"]
    assert (code, response["uid"], response["allowed"]) == (200, "u1", False)


CONFIGURATIONS = ResourceRef(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
    ValidatingWebhookConfiguration,
)


async def test_a_second_registration_brings_the_first_up_to_date() -> None:
    server = await APIServer.open(ServerConfig(), clock=SystemClock(), random=random.Random(1))
    client = Client(server.transport(), clock=SystemClock())
    for authority in (b"old", b"new"):
        await register(client, "lamp.example.com", WebhookAddress("lamps/webhook"), authority)
    (webhook,) = (await client.resource(CONFIGURATIONS).get("lamp.example.com")).webhooks
    assert webhook.client_config.ca_bundle == b"new"
    assert webhook.rules[0].resources == ("resourceclaims", "resourceclaimtemplates")
    assert webhook.rules[0].api_versions == ("v1", "v1beta1", "v1beta2")
    await server.close()


@pytest.mark.parametrize(("service", "host"), [("", ""), ("a/b", "c"), ("a", ""), ("a/", "")])
def test_an_address_is_a_service_or_a_host(service: str, host: str) -> None:
    with pytest.raises(OptionError):
        WebhookAddress(service, host)


def test_a_service_is_known_by_the_names_that_an_api_server_calls() -> None:
    address = WebhookAddress("lamps/webhook")
    assert address.names == ("webhook.lamps.svc", "webhook.lamps.svc.cluster.local")
    assert WebhookAddress(host="::1", port=8443).client_config(b"ca")["url"] == f"https://[::1]:8443{PATH}"


LOOPBACK = ("127.0.0.1", 0)


class Lamps(Driver):
    name = "lamp.example.com"
    configs = MODELS


@asynccontextmanager
async def cluster() -> AsyncIterator[Client]:
    server = await APIServer.open(ServerConfig(), clock=SystemClock(), random=random.Random(1))
    try:
        yield Client(server.transport(), clock=SystemClock())
    finally:
        await server.close()


def claim(name: str, **fields: Any) -> ResourceClaim:
    opaque = OpaqueDeviceConfiguration(driver=Lamps.name, parameters=RawJSON.of(parameters(**fields)))
    spec = ResourceClaimSpec(devices=DeviceClaim(config=(DeviceClaimConfiguration(opaque=opaque),)))
    return ResourceClaim(metadata=ObjectMeta(name=name), spec=spec)


async def test_a_claim_that_could_not_be_prepared_is_not_made() -> None:
    async with cluster() as client:
        claims = client.resource(RESOURCECLAIMS, "default")
        async with serving_webhook(Lamps(), client, WebhookAddress(host="127.0.0.1", port=0), listen=LOOPBACK):
            await claims.create(claim("right", colour="red"))
            with pytest.raises(StatusError, match=r"parameters\.lamp\.example\.com.* denied.*level must be between"):
                await claims.create(claim("wrong", level=-1))
        with pytest.raises(StatusError, match="failed calling webhook"):
            await claims.create(claim("late"))


async def test_it_is_registered_anew_at_each_start() -> None:
    async with cluster() as client:
        address = WebhookAddress(host="127.0.0.1", port=0)
        for name in ("a", "b"):
            async with serving_webhook(Lamps(), client, address, listen=LOOPBACK):
                await client.resource(RESOURCECLAIMS, "default").create(claim(name))


async def test_instances_behind_a_service_share_one_certificate() -> None:
    address = WebhookAddress(service="lamps/webhook")
    async with cluster() as client:
        await client.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name="lamps")))
        async with serving_webhook(Lamps(), client, address, listen=LOOPBACK):
            first = await client.resource(SECRETS, "lamps").get("webhook-tls")
            async with serving_webhook(Lamps(), client, address, listen=LOOPBACK):
                assert await client.resource(SECRETS, "lamps").get("webhook-tls") == first
        assert set(first.data) == {"ca.crt", "tls.crt", "tls.key"}


async def test_a_secret_of_another_form_is_named() -> None:
    async with cluster() as client:
        await client.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name="lamps")))
        await client.resource(SECRETS, "lamps").create(Secret(metadata=ObjectMeta(name="webhook-tls"), data={"a": b""}))
        with pytest.raises(OptionError, match=r"Secret lamps/webhook-tls lacks ca\.crt, tls\.crt, tls\.key"):
            async with serving_webhook(Lamps(), client, WebhookAddress(service="lamps/webhook"), listen=LOOPBACK):
                raise AssertionError("it must not serve")


async def test_a_driver_without_models_has_nothing_to_judge() -> None:
    class Plain(Driver):
        name = "plain.example.com"

    async with cluster() as client:
        with pytest.raises(OptionError, match=r"plain\.example\.com declares no configs"):
            async with serving_webhook(Plain(), client, WebhookAddress(host="127.0.0.1"), listen=LOOPBACK):
                raise AssertionError("it must not serve")


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("plural", ["resourceclaims", "resourceclaimtemplates"])
async def test_claims_and_templates_of_each_version_are_checked(version: str, plural: str) -> None:
    """P3 of docs/spec/driver-sdk.md §20."""
    # A release that still has v1beta1.
    config = ServerConfig(release="1.37", runtime_config={"resource.k8s.io/v1beta1": True})

    def body(name: str, **fields: Any) -> dict[str, Any]:
        opaque = {"driver": Lamps.name, "parameters": parameters(**fields)}
        wanted = {"deviceClassName": "lamps"}
        request = {"name": "r", **(wanted if version == "v1beta1" else {"exactly": wanted})}
        spec = {"devices": {"requests": [request], "config": [{"opaque": opaque}]}}
        return {"metadata": {"name": name}, "spec": spec if plural == "resourceclaims" else {"spec": spec}}

    async with open_asgi(config, clock=SystemClock()) as asgi:
        client = Client(asgi.server.transport(), clock=SystemClock())
        path = f"/apis/resource.k8s.io/{version}/namespaces/default/{plural}"
        async with serving_webhook(Lamps(), client, WebhookAddress(host="127.0.0.1", port=0), listen=LOOPBACK):
            assert (await asgi("POST", path, body("right", colour="red"))).status == 201
            refused = await asgi("POST", path, body("wrong", level=-1))
            assert refused.status == 422
            assert "level must be between" in refused.json["message"]
            assert (await asgi("GET", f"{path}/wrong")).status == 404
