"""Approved requests get their certificates, from the authority of the cluster."""

from __future__ import annotations

import asyncio
from typing import Final

from cathedra.api.core.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from cathedra.api.struct import replace
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.certificates.signers import SIGNERS, has_condition, refusal
from cathedra.controllers.controller import ControllerContext

LONGEST: Final = 365 * 24 * 3600
"""Seconds; Kubernetes' default of ``--cluster-signing-duration``."""


class CSRSigningController:
    """Signs for Kubernetes' own signers; without the authority's key it leaves requests alone."""

    name = "certificatesigningrequest-signing-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._signer = context.signer
        self._queue: WorkQueue[str] = context.queue()
        self._requests = context.informers.of(CERTIFICATESIGNINGREQUESTS)
        self._requests.add_handler(
            on_add=lambda one: self._queue.add(one.metadata.name),
            on_update=lambda _, one: self._queue.add(one.metadata.name),
        )

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._requests.wait_synced()
        await run_workers(self._queue, self._reconcile)

    async def _reconcile(self, name: str) -> None:
        request = self._requests.store.get("", name)
        if request is None or self._signer is None or request.spec.signer_name not in SIGNERS:
            return
        status = request.status
        if status.certificate or has_condition(status, "Denied", "Failed") or not has_condition(status, "Approved"):
            return
        why = refusal(request)
        if why:
            await self._fail(request, why)
            return
        seconds = min(request.spec.expiration_seconds or LONGEST, LONGEST)
        spec = request.spec
        certificate = await asyncio.to_thread(self._signer, spec.request, spec.usages, seconds)
        issued = replace(request, status=replace(status, certificate=certificate))
        await self._client.resource(CERTIFICATESIGNINGREQUESTS).update_status(issued)

    async def _fail(self, request: CertificateSigningRequest, why: str) -> None:
        failed = CertificateSigningRequestCondition(
            type="Failed", status="True", reason="SignerValidationFailure", message=why
        )
        status = replace(request.status, conditions=(*request.status.conditions, failed))
        await self._client.resource(CERTIFICATESIGNINGREQUESTS).update_status(replace(request, status=status))
