"""Bootstrap tokens that are over are deleted when they end."""

from __future__ import annotations

import math
from typing import Final

from cathedra.api.core.core_v1 import Secret
from cathedra.api.status import StatusError
from cathedra.client.resources import SECRETS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.semantics.bootstraptokens import NAMESPACE, expiration, is_token_secret

_LEAST_SECONDS: Final = 1.0


class TokenCleanerController:
    """Deletes tokens that have expired."""

    name = "token-cleaner-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._queue: WorkQueue[str] = context.queue()
        self._tokens = context.informers.of(SECRETS, namespace=NAMESPACE)
        self._tokens.add_handler(on_add=self._enqueue, on_update=lambda _, secret: self._enqueue(secret))

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._tokens.wait_synced()
        await run_workers(self._queue, self._reconcile)

    def _enqueue(self, secret: Secret) -> None:
        if is_token_secret(secret):
            self._queue.add(secret.metadata.name)

    async def _reconcile(self, name: str) -> None:
        secret = self._tokens.store.get(NAMESPACE, name)
        ends = expiration(secret) if secret is not None else None
        if secret is None or ends is None:
            return
        left = ends - self._clock.now()
        if left > 0:
            self._queue.add_after(name, max(_LEAST_SECONDS, math.ceil(left)))
            return
        try:
            await self._client.resource(SECRETS, NAMESPACE).delete(name, uid=secret.metadata.uid)
        except StatusError as error:
            if not error.is_not_found:
                raise
