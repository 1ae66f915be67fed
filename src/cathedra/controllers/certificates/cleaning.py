"""Requests for certificates that are over are deleted: an hour after the decision, or a day after an open request."""

from __future__ import annotations

import logging
from typing import Final

from cathedra.api.core.certificates_v1 import CertificateSigningRequest
from cathedra.api.status import StatusError
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from cathedra.client.workqueue import one_of_many
from cathedra.controllers.certificates.signers import has_condition
from cathedra.controllers.controller import ControllerContext

INTERVAL: Final = 3600.0
"""Seconds between two looks."""
DECIDED_SECONDS: Final = 3600.0
PENDING_SECONDS: Final = 24 * 3600.0

_LOG = logging.getLogger(__name__)


class CSRCleanerController:
    """Deletes requests that are issued, denied, failed or forgotten."""

    name = "certificatesigningrequest-cleaner-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._requests = context.informers.of(CERTIFICATESIGNINGREQUESTS)

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._requests.wait_synced()
        while True:
            for request in self._requests.store.list():
                with one_of_many(_LOG, "certificate signing request %s", request.metadata.name):
                    if self._is_over(request):
                        await self._delete(request)
            await self._clock.sleep(INTERVAL)

    def _is_over(self, request: CertificateSigningRequest) -> bool:
        decided = [
            condition.last_update_time.timestamp
            for condition in request.status.conditions
            if condition.type in ("Approved", "Denied", "Failed") and condition.last_update_time is not None
        ]
        now, status = self._clock.now(), request.status
        if decided and (status.certificate or has_condition(status, "Denied", "Failed")):
            return now - max(decided) > DECIDED_SECONDS
        created = request.metadata.creation_timestamp
        return created is not None and now - created.timestamp > PENDING_SECONDS

    async def _delete(self, request: CertificateSigningRequest) -> None:
        metadata = request.metadata
        try:
            await self._client.resource(CERTIFICATESIGNINGREQUESTS).delete(metadata.name, uid=metadata.uid)
        except (StatusError, ConnectionError) as error:
            _LOG.info("certificate signing request %s: not deleted: %s", metadata.name, error)
