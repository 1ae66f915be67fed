"""Dispatch of one request to one webhook, with its failure policy."""

from __future__ import annotations

import json
import logging
import random as random_module
import uuid
from typing import Final

from cathedra.api.status import internal_error
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.metrics import AdmissionMetrics
from cathedra.apiserver.admission.versioned import VersionedAttributes
from cathedra.apiserver.admission.webhooks.client import (
    VERSIONS,
    WebhookAnswer,
    WebhookCallFailed,
    WebhookClient,
    rejection,
    review_of,
    verdict_of,
)
from cathedra.apiserver.admission.webhooks.hooks import ConfiguredWebhook
from cathedra.kinds.definition import VersionDefinition

_LOG: Final = logging.getLogger(__name__)
_STEPS: Final = {True: "admit", False: "validating"}
"""Types of webhooks in metrics."""


class WebhookDispatcher:
    """Calls webhooks, within their time limit and by their failure policy."""

    def __init__(self, client: WebhookClient, random: random_module.Random, metrics: AdmissionMetrics) -> None:
        self._client = client
        self._random = random
        self._metrics = metrics

    async def dispatch(
        self,
        hook: ConfiguredWebhook,
        request: AdmissionAttributes,
        view: VersionedAttributes,
        shown: VersionDefinition,
        *,
        may_patch: bool,
    ) -> WebhookAnswer | None:
        """Return the answer of a webhook; None if the call failed and its policy ignores that.

        Raises:
            StatusError: it refused; or 500, the call failed and the policy is to refuse.
        """
        name = hook.webhook.name
        step, operation = _STEPS[may_patch], request.operation
        began = self._metrics.now()
        try:
            answer = await self._answer(hook, view, shown, may_patch=may_patch)
        except WebhookCallFailed as error:
            # Only failures of the call fall under the failure policy. A refusal always refuses.
            self._metrics.called(name, step, operation, self._metrics.now() - began, 500)
            if hook.fails:
                self._metrics.rejected(name, step, operation, "calling_webhook_error", 500)
                raise internal_error(f"failed calling webhook {json.dumps(name)}: {error}") from None
            _LOG.warning("failed calling webhook, failing open %s: %s", name, error)
            self._metrics.failed_open(name, step)
            return None
        refused = None if answer.allowed else rejection(name, answer.status)
        code = 200 if refused is None else refused.code
        self._metrics.called(name, step, operation, self._metrics.now() - began, code)
        request.warnings.extend(answer.warnings)
        if answer.annotations:
            request.annotations.update({f"{name}/{key}": value for key, value in answer.annotations.items()})
        if refused is not None:
            self._metrics.rejected(name, step, operation, "no_error", code)
            raise refused
        return answer

    async def _answer(
        self, hook: ConfiguredWebhook, view: VersionedAttributes, shown: VersionDefinition, *, may_patch: bool
    ) -> WebhookAnswer:
        webhook = hook.webhook
        version = next((one for one in webhook.admission_review_versions if one in VERSIONS), None)
        if version is None:
            raise WebhookCallFailed("could not find a supported AdmissionReview version")
        uid = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        review = review_of(view, shown, version, uid)
        body = await self._client.post(webhook.client_config, review, hook.timeout_seconds)
        return verdict_of(body, version, uid, may_patch=may_patch)
