"""Configurations of webhooks: defaults, generations, rows."""

from __future__ import annotations

from cathedra.api.core.admissionregistration_v1 import MutatingWebhookConfiguration
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import context, created, defaulted, definition_of, row, updated

HOOK = {"name": "a.example.com", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "rules": [{}]}


def test_a_webhook_fails_closed_after_ten_seconds() -> None:
    (hook,) = defaulted(
        "mutatingwebhookconfigurations", from_dict(MutatingWebhookConfiguration, {"webhooks": [HOOK]})
    ).webhooks
    assert (hook.failure_policy, hook.timeout_seconds, hook.match_policy) == ("Fail", 10, "Equivalent")
    assert (hook.reinvocation_policy, hook.rules[0].scope, hook.client_config.service.port) == ("Never", "*", 443)


def test_the_generation_counts_changes_of_the_webhooks() -> None:
    definition = definition_of("mutatingwebhookconfigurations")
    old, _ = created(definition.strategy, from_dict(MutatingWebhookConfiguration, {"webhooks": [HOOK]}), context())
    labelled = from_dict(MutatingWebhookConfiguration, {"metadata": {"labels": {"a": "b"}}, "webhooks": [HOOK]})
    assert updated(definition.strategy, labelled, old, context())[0].metadata.generation == 1
    assert updated(definition.strategy, MutatingWebhookConfiguration(), old, context())[0].metadata.generation == 2
    assert row("mutatingwebhookconfigurations", old)["Webhooks"] == 1
