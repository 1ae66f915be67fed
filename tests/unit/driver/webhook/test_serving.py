"""The webhook behind a real API server: registered, trusted, and asked before a claim is made."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

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
from cathedra.clock import SystemClock
from cathedra.driver import Driver
from cathedra.driver.errors import OptionError
from cathedra.driver.webhook.registration import WebhookAddress
from cathedra.driver.webhook.serving import serving_webhook
from tests.unit.apiserver.asgi import open_asgi
from tests.unit.driver.webhook.test_review import MODELS, parameters

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
    config = ServerConfig(runtime_config={"resource.k8s.io/v1beta1": True})

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
