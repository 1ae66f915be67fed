"""Webhooks that may change an object: one after the other, and again if others changed it after them (plugin
MutatingAdmissionWebhook)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.admissionregistration_v1 import MutatingWebhook
from cathedra.api.decoding import DecodeError
from cathedra.api.status import internal_error
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.admission.rebuilding import Rebuilder
from cathedra.apiserver.admission.versioned import VersionedAttributes
from cathedra.apiserver.admission.webhooks.dispatcher import WebhookDispatcher
from cathedra.apiserver.admission.webhooks.hooks import MUTATING, ConfiguredWebhook, Hooks
from cathedra.apiserver.patches.json_patch import JSONPatchError, json_patch
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

_AGAIN: Final = "IfNeeded"


class MutatingWebhooks(AdmissionPlugin):
    """Calls every mutating webhook that matches a request, to change the object.

    In the second pass a webhook is called again only if its ``reinvocationPolicy`` is ``IfNeeded``, it was called in
    the first pass, and the object has changed since.
    """

    name = "MutatingAdmissionWebhook"
    rules = frozenset({MUTATING})

    def __init__(self, hooks: Hooks, dispatcher: WebhookDispatcher, rebuilder: Rebuilder) -> None:
        self._hooks = hooks
        self._dispatcher = dispatcher
        self._rebuilder = rebuilder

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle everything while there is a webhook."""
        return bool(self._hooks)

    async def admit(self, request: AdmissionAttributes) -> Any:
        """Return the object after the patches of all webhooks.

        Raises:
            StatusError: a webhook refused, or could not be called, or its patch cannot be applied.
        """
        if not self._hooks:
            return request.object
        left = request.memory.setdefault(type(self).__name__, {})
        concerned = [hook async for hook, _ in self._hooks.concerned(request, VersionedAttributes(request))]
        for hook in concerned:
            if request.again and not _wants_again(hook, left, request.object):
                continue
            # A webhook sees what the ones before it made of the object, so the view is made for each of them.
            view = VersionedAttributes(request)
            version = await self._hooks.version_for(hook, request, view)
            if version is None:
                continue  # after the patch of another webhook its rules no longer match
            answer = await self._dispatcher.dispatch(hook, request, view, version, may_patch=True)
            if answer is not None and answer.patch:
                changed = await self._patched(hook, request, view, version, answer.patch)
                request = request.but(object=changed)
            # The second pass compares with this: a webhook that sees its own result is not called again.
            left[hook.key] = request.object
        return request.object

    async def _patched(
        self,
        hook: ConfiguredWebhook,
        request: AdmissionAttributes,
        view: VersionedAttributes,
        version: VersionDefinition,
        patch: Any,
    ) -> Any:
        shown = view.object(version)
        if shown is None:
            text = "attempted to modify the object, which is not supported for this operation"
            raise internal_error(f'admission webhook "{hook.webhook.name}" {text}')
        try:
            values = dict(json_patch(shown, patch))
            return (await self._rebuilder.object(request, version, values))[0]
        except (JSONPatchError, DecodeError, TypeError, ValueError) as error:
            raise internal_error(str(error)) from None


def _wants_again(hook: ConfiguredWebhook, left: dict[tuple[str, str], Any], now: Any) -> bool:
    webhook = hook.webhook
    if not isinstance(webhook, MutatingWebhook) or webhook.reinvocation_policy != _AGAIN:
        return False
    return hook.key in left and left[hook.key] != now
