"""Webhook configurations are refused with the errors of Kubernetes' shared rules for webhooks."""

from __future__ import annotations

import pytest

from cathedra.api.core.admissionregistration_v1 import (
    ServiceReference,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from cathedra.apiserver.admission.webhooks.validating import configuration_errors

FORM = "; desired format: https://host[/path]"
SERVICE = "webhooks[0].clientConfig.service"


def messages(client: WebhookClientConfig) -> list[str]:
    """The errors of a configuration whose webhook has this client."""
    webhook = ValidatingWebhook(
        name="a.b.example.com", client_config=client, side_effects="None", admission_review_versions=("v1",)
    )
    return [str(error) for error in configuration_errors(ValidatingWebhookConfiguration(webhooks=(webhook,)))]


@pytest.mark.parametrize(
    ("service", "message"),
    [
        (ServiceReference(name="s", namespace=""), f"{SERVICE}.namespace: Required value"),
        (
            ServiceReference(name="s", namespace="n", port=70000),
            f"{SERVICE}.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
        ),
        (
            ServiceReference(name="s", namespace="n", path="/a//b"),
            f'{SERVICE}.path: Invalid value: "/a//b": segment[1] may not be empty',
        ),
    ],
)
def test_a_service_that_cannot_be_called_is_refused(service: ServiceReference, message: str) -> None:
    assert messages(WebhookClientConfig(service=service)) == [message]


def test_a_url_of_another_scheme_is_refused() -> None:
    found = messages(WebhookClientConfig(url="http://h/x"))
    assert found == [
        f"webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}"
    ]
