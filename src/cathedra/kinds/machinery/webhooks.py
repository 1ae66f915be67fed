"""Configurations of validating and mutating webhooks."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from cathedra.api.core import admissionregistration_v1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.machinery.policies import scoped, selectors
from cathedra.kinds.strategies import CountedStrategy

__all__ = ["default_webhooks", "mutating_webhook_definition", "validating_webhook_definition", "webhook_cells"]

T = TypeVar("T", bound=KubeObject)
WEBHOOK_COLUMNS: Final = (NAME, Column("Webhooks", type="integer", description="How many webhooks."), AGE)


def default_webhooks(configuration: T) -> T:
    """Webhooks that fail closed after ten seconds."""
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
    """Cells of a webhook configuration."""
    created = age(configuration.metadata.creation_timestamp, now)
    return [configuration.metadata.name, len(configuration.webhooks), created]


def validating_webhook_definition() -> ResourceDefinition[admissionregistration_v1.ValidatingWebhookConfiguration]:
    """The definition of validatingwebhookconfigurations."""
    return BuiltinKind(
        admissionregistration_v1.ValidatingWebhookConfiguration,
        "validatingwebhookconfigurations",
        namespaced=False,
        strategy=CountedStrategy(default_webhooks),
        table=(WEBHOOK_COLUMNS, webhook_cells),
        categories=("api-extensions",),
    ).definition()


def mutating_webhook_definition() -> ResourceDefinition[admissionregistration_v1.MutatingWebhookConfiguration]:
    """The definition of mutatingwebhookconfigurations."""
    return BuiltinKind(
        admissionregistration_v1.MutatingWebhookConfiguration,
        "mutatingwebhookconfigurations",
        namespaced=False,
        strategy=CountedStrategy(default_webhooks),
        table=(WEBHOOK_COLUMNS, webhook_cells),
        categories=("api-extensions",),
    ).definition()
