"""Tells the API server of a webhook: which requests it wants, where it is, and by which authority it is known there."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

from cathedra.api.core.admissionregistration_v1 import ValidatingWebhookConfiguration
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef
from cathedra.driver.errors import OptionError
from cathedra.driver.webhook.application import PATH
from cathedra.driver.webhook.review import RESOURCES

__all__ = ["WebhookAddress", "register"]

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
    """Where an API server finds the webhook: a Service (``NAMESPACE/NAME``), or a host outside of the cluster."""

    service: str = ""
    host: str = ""
    port: int = 443
    """Of the Service or the host; 0: the one that is listened on."""

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
        """The same for an API server; ``authority`` is a PEM file."""
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
        "failurePolicy": "Fail",
    }
    await client.resource(_CONFIGURATIONS).apply(driver, {"webhooks": [webhook]})
