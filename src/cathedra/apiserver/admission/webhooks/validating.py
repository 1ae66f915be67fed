"""Webhooks that may refuse: all at once, and the first refusal counts (plugin ValidatingAdmissionWebhook); and the
validation of webhook configurations themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from cathedra.api.core.admissionregistration_v1 import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
)
from cathedra.api.field import ErrorList, FieldError, FieldPath
from cathedra.api.formats import dns_subdomain
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.status import invalid
from cathedra.api.struct import to_dict
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.admission.policies.bound import compiled_in_time
from cathedra.apiserver.admission.policies.policyerrors import expression_errors
from cathedra.apiserver.admission.ruleerrors import check_conditions, check_rule
from cathedra.apiserver.admission.versioned import VersionedAttributes
from cathedra.apiserver.admission.webhooks.client import VERSIONS
from cathedra.apiserver.admission.webhooks.dispatcher import WebhookDispatcher
from cathedra.apiserver.admission.webhooks.hooks import MUTATING, VALIDATING, Hooks, Webhook, compile_conditions
from cathedra.apiserver.computation import Computations
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.machinery.webhooks import check_webhook_service, check_webhook_url


class ValidatingWebhooks(AdmissionPlugin):
    """Calls every validating webhook that matches a request."""

    name = "ValidatingAdmissionWebhook"
    rules = frozenset({VALIDATING})

    def __init__(self, hooks: Hooks, dispatcher: WebhookDispatcher, computations: Computations) -> None:
        self._computations = computations
        self._hooks = hooks
        self._dispatcher = dispatcher

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle webhook configurations themselves, and everything while there is a webhook."""
        return definition.group == MUTATING.group or bool(self._hooks)

    async def validate(self, request: AdmissionAttributes) -> None:
        """Call the webhooks, and validate webhook configurations that are written.

        Raises:
            StatusError: a webhook refused, or could not be called; 422, a configuration that is written breaks the
                rules.
        """
        await self._check_rules(request)
        if not self._hooks:
            return
        view = VersionedAttributes(request)
        calls = [
            self._dispatcher.dispatch(hook, request, view, version, may_patch=False)
            async for hook, version in self._hooks.concerned(request, view)
        ]
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _check_rules(self, request: AdmissionAttributes) -> None:
        definition, obj = request.definition, request.object
        if definition.group_resource not in {MUTATING, VALIDATING} or request.operation not in {"CREATE", "UPDATE"}:
            return
        errors = configuration_errors(obj)
        if not errors and any(webhook.match_conditions for webhook in obj.webhooks):
            errors = await compiled_in_time(
                self._computations, request.user.name, lambda check: condition_errors(obj.webhooks, check)
            )
        if errors:
            raise invalid(definition.group, definition.kind, obj.metadata.name, errors)


_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_CHOICES: Final = {
    "failure_policy": ("failurePolicy", ("Fail", "Ignore")),
    "match_policy": ("matchPolicy", ("Equivalent", "Exact")),
    "reinvocation_policy": ("reinvocationPolicy", ("IfNeeded", "Never")),
}
_LONGEST_SECONDS: Final = 30


def configuration_errors(
    configuration: MutatingWebhookConfiguration | ValidatingWebhookConfiguration,
) -> ErrorList:
    """Everything that is wrong with a configuration."""
    errors = ErrorList()
    seen: set[str] = set()
    webhooks: tuple[Any, ...] = configuration.webhooks
    for position, webhook in enumerate(webhooks):
        path = FieldPath("webhooks").index(position)
        _check(errors, path, webhook)
        if webhook.name in seen:
            errors.duplicate(path.child("name"), webhook.name)
        seen.add(webhook.name)
    return errors


def condition_errors(webhooks: Sequence[Webhook], check: Callable[[], object]) -> ErrorList:
    """Return the errors of the compiler in the match conditions of webhooks; ``check`` may raise an exception."""
    errors = ErrorList()
    for position, webhook in enumerate(webhooks):
        if webhook.match_conditions:
            values: JSONObject = {"matchConditions": [to_dict(condition) for condition in webhook.match_conditions]}
            for one in expression_errors(values, compile_conditions(webhook, check).errors):
                field = one.field.replace("spec", f"webhooks[{position}]", 1)
                errors.append(FieldError(one.type, field, one.value, one.detail))
    return errors


def _check(errors: ErrorList, path: FieldPath, webhook: Any) -> None:
    _check_name(errors, path.child("name"), webhook.name)
    for position, rule in enumerate(webhook.rules):
        check_rule(errors, path.child("rules").index(position), rule)
    for field, (name, choices) in _CHOICES.items():
        value = getattr(webhook, field, None)
        if value is not None and value not in choices:
            errors.not_supported(path.child(name), value, list(choices))
    if webhook.side_effects is None:
        errors.required(path.child("sideEffects"), f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif webhook.side_effects not in _SIDE_EFFECTS:
        errors.not_supported(path.child("sideEffects"), webhook.side_effects, list(_SIDE_EFFECTS))
    seconds = webhook.timeout_seconds
    if seconds is not None and not 1 <= seconds <= _LONGEST_SECONDS:
        errors.invalid(path.child("timeoutSeconds"), seconds, "the timeout value must be between 1 and 30 seconds")
    _check_versions(errors, path.child("admissionReviewVersions"), webhook.admission_review_versions)
    check_conditions(errors, path.child("matchConditions"), webhook.match_conditions)
    _check_client(errors, path.child("clientConfig"), webhook.client_config)


def _check_name(errors: ErrorList, path: FieldPath, name: str) -> None:
    if not name:
        errors.required(path)
        return
    for problem in dns_subdomain(name):
        errors.invalid(path, name, problem)
    if len(name.split(".")) < 3:
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots")


def _check_versions(errors: ErrorList, path: FieldPath, versions: tuple[str, ...]) -> None:
    known = ", ".join(VERSIONS)
    if not versions:
        errors.required(path, f"must specify one of {known}")
    elif not set(versions) & set(VERSIONS):
        errors.invalid(path, list(versions), f"must include at least one of {known}")


def _check_client(errors: ErrorList, path: FieldPath, client: WebhookClientConfig) -> None:
    if (client.url is None) == (client.service is None):
        errors.required(path, "exactly one of url or service is required")
        return
    if client.url is not None:
        check_webhook_url(errors, str(path.child("url")), client.url)
    else:
        check_webhook_service(errors, str(path.child("service")), client.service)
