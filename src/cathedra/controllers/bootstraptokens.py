"""Controllers of bootstrap tokens, with which nodes join. One signs ``kube-public/cluster-info`` with each token that
may sign, the other deletes expired tokens.

A node that has a token verifies the signature, a detached JSON Web Signature, and then trusts the authority in the
kubeconfig there, before it can verify certificates.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
from typing import Final

from cathedra.api.core.core_v1 import ConfigMap, Secret
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import CONFIGMAPS, SECRETS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext
from cathedra.semantics.bootstraptokens import NAMESPACE, SIGNING, BootstrapToken, expiration, is_token_secret, token_of

_PUBLIC: Final = "kube-public"
_NAME: Final = "cluster-info"
_KUBECONFIG: Final = "kubeconfig"
_PREFIX: Final = "jws-kubeconfig-"


class BootstrapSignerController:
    """Keeps the signatures up to date."""

    name = "bootstrap-signer-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._queue: WorkQueue[str] = context.queue()
        self._tokens = context.informers.of(SECRETS, namespace=NAMESPACE)
        self._maps = context.informers.of(CONFIGMAPS, namespace=_PUBLIC)
        for informer in (self._tokens, self._maps):
            informer.add_handler(
                on_add=lambda _: self._queue.add(_NAME),
                on_update=lambda _, __: self._queue.add(_NAME),
                on_delete=lambda _: self._queue.add(_NAME),
            )

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._tokens.wait_synced()
        await self._maps.wait_synced()
        await run_workers(self._queue, self._reconcile)

    async def _reconcile(self, name: str) -> None:
        found = self._maps.store.get(_PUBLIC, name)
        if found is None or _KUBECONFIG not in found.data:
            return
        signed = self._signed(found)
        if signed == found:
            return
        try:
            await self._client.resource(CONFIGMAPS, _PUBLIC).update(signed)
        except StatusError as error:
            if not error.is_not_found:
                raise

    def _signed(self, found: ConfigMap) -> ConfigMap:
        now = self._clock.now()
        tokens = (token_of(secret, SIGNING, now) for secret in self._tokens.store.list())
        signatures = {
            f"{_PREFIX}{one.id}": signature(found.data[_KUBECONFIG], one) for one in tokens if one is not None
        }
        kept = {name: text for name, text in found.data.items() if not name.startswith(_PREFIX)}
        return replace(found, data={**kept, **signatures})


def signature(content: str, token: BootstrapToken) -> str:
    """Return the signature of a text with a token, without the text (RFC 7515, appendix F)."""
    header = _encoded(json.dumps({"alg": "HS256", "kid": token.id}, separators=(",", ":")).encode())
    signed = f"{header}.{_encoded(content.encode())}".encode()
    return f"{header}..{_encoded(hmac.digest(token.secret.encode(), signed, hashlib.sha256))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


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
