"""Configurations of validating and mutating webhooks."""

from __future__ import annotations

from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from cathedra.api.core import admissionregistration_v1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import ErrorList
from cathedra.api.formats import dns_subdomain
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.machinery.policies import scoped, selectors
from cathedra.kinds.strategies import CountedStrategy

T = TypeVar("T", bound=KubeObject)
_URL_FORM: Final = "; desired format: https://host[/path]"
WEBHOOK_COLUMNS: Final = (NAME, Column("Webhooks", type="integer", description="How many webhooks."), AGE)


def default_webhooks(configuration: T) -> T:
    """Return webhooks that fail closed after ten seconds."""
    hooks = getattr(configuration, "webhooks", ())
    return replace(configuration, webhooks=tuple(_webhook(hook) for hook in hooks))


def _webhook(hook: Any) -> Any:
    changes = absent(hook, failure_policy="Fail", timeout_seconds=10) | selectors(hook)
    if hasattr(hook, "reinvocation_policy"):
        changes |= absent(hook, reinvocation_policy="Never")
    service = hook.client_config.service
    if service is not None and service.port is None:
        changes["client_config"] = replace(hook.client_config, service=replace(service, port=443))
    return replace(hook, rules=tuple(scoped(rule) for rule in hook.rules), **changes)


def webhook_cells(
    configuration: (
        admissionregistration_v1.ValidatingWebhookConfiguration | admissionregistration_v1.MutatingWebhookConfiguration
    ),
    now: float,
) -> list[Any]:
    """Return the cells of a webhook configuration."""
    created = age(configuration.metadata.creation_timestamp, now)
    return [configuration.metadata.name, len(configuration.webhooks), created]


def validating_webhook_definition() -> ResourceDefinition[admissionregistration_v1.ValidatingWebhookConfiguration]:
    """Return the definition of validatingwebhookconfigurations."""
    return BuiltinKind(
        admissionregistration_v1.ValidatingWebhookConfiguration,
        "validatingwebhookconfigurations",
        namespaced=False,
        strategy=CountedStrategy(default_webhooks),
        table=(WEBHOOK_COLUMNS, webhook_cells),
        categories=("api-extensions",),
    ).definition()


def mutating_webhook_definition() -> ResourceDefinition[admissionregistration_v1.MutatingWebhookConfiguration]:
    """Return the definition of mutatingwebhookconfigurations."""
    return BuiltinKind(
        admissionregistration_v1.MutatingWebhookConfiguration,
        "mutatingwebhookconfigurations",
        namespaced=False,
        strategy=CountedStrategy(default_webhooks),
        table=(WEBHOOK_COLUMNS, webhook_cells),
        categories=("api-extensions",),
    ).definition()


def check_webhook_url(errors: ErrorList, path: str, text: str) -> None:
    """Check the address of a webhook outside of the cluster."""
    try:
        url = urlsplit(text)
    except ValueError as error:
        errors.required(path, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if url.scheme != "https":
        errors.invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    user, separator, host = url.netloc.rpartition("@")
    if not host:
        errors.invalid(path, host, f"host must be specified{_URL_FORM}")
    if separator:
        errors.invalid(path, user, "user information is not permitted in the URL")
    if url.fragment:
        errors.invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        errors.invalid(path, url.query, "query parameters are not permitted in the URL")


def check_webhook_service(errors: ErrorList, path: str, service: Any) -> None:
    """Check the reference of a webhook to a service of the cluster."""
    for name in ("name", "namespace"):
        if not getattr(service, name):
            errors.required(f"{path}.{name}")
    port = 443 if service.port is None else service.port
    if not 0 < port < 65536:
        errors.invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    given = service.path
    if given in (None, "", "/"):
        return
    where = f"{path}.path"
    if given == "//":
        errors.invalid(where, given, "segment[0] may not be empty")
        return
    if not given.startswith("/"):
        errors.invalid(where, given, "must start with a '/'")
    for position, step in enumerate(given[1:].removesuffix("/").split("/")):
        problems = dns_subdomain(step) if step else ()
        if not step:
            errors.invalid(where, given, f"segment[{position}] may not be empty")
        for problem in problems:
            errors.invalid(where, given, f"segment[{position}]: {problem}")
