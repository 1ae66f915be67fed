"""Webhooks that may refuse: all at once, and the first refusal counts (plugin ValidatingAdmissionWebhook)."""

from __future__ import annotations

import asyncio

from cathedra.api.status import invalid
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.admission.versioned import VersionedAttributes
from cathedra.apiserver.admission.webhooks.configuration import configuration_errors
from cathedra.apiserver.admission.webhooks.dispatcher import WebhookDispatcher
from cathedra.apiserver.admission.webhooks.hooks import MUTATING, VALIDATING, Hooks
from cathedra.kinds.definition import AnyDefinition


class ValidatingWebhooks(AdmissionPlugin):
    """Calls every validating webhook that matches a request."""

    name = "ValidatingAdmissionWebhook"
    rules = frozenset({VALIDATING})

    def __init__(self, hooks: Hooks, dispatcher: WebhookDispatcher) -> None:
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
        _check_rules(request)
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


def _check_rules(request: AdmissionAttributes) -> None:
    definition = request.definition
    if definition.group_resource not in {MUTATING, VALIDATING} or request.operation not in {"CREATE", "UPDATE"}:
        return
    errors = configuration_errors(request.object)
    if errors:
        raise invalid(definition.group, definition.kind, request.object.metadata.name, errors)
