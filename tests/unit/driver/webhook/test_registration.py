"""Where an API server is told to find a webhook."""

from __future__ import annotations

import random

import pytest

from cathedra.api.core.admissionregistration_v1 import ValidatingWebhookConfiguration
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef
from cathedra.clock import SystemClock
from cathedra.driver.errors import OptionError
from cathedra.driver.webhook.application import PATH
from cathedra.driver.webhook.registration import WebhookAddress, register

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
