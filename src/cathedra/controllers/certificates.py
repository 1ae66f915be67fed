"""Controllers of CertificateSigningRequests, which kubelets create when they join: approval of kubelets' requests,
signatures by the authority of the cluster, and deletion of old requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final, Protocol

from cathedra.api.core.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from cathedra.api.core.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from cathedra.client.transport import ResourceRef
from cathedra.client.workqueue import WorkQueue, one_of_many, run_workers
from cathedra.controllers.controller import ControllerContext

LONGEST: Final = 365 * 24 * 3600
"""Seconds; Kubernetes' default of ``--cluster-signing-duration``."""


class _RequestController:
    """Reconciles every request that is created or changed."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
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
        if request is not None:
            await self._decide(request)

    async def _decide(self, request: CertificateSigningRequest) -> None:
        """Write the decision on a request, if one is due."""
        raise NotImplementedError

    async def _write(
        self, request: CertificateSigningRequest, condition: CertificateSigningRequestCondition, subresource: str
    ) -> None:
        """Add a condition to a request."""
        status = replace(request.status, conditions=(*request.status.conditions, condition))
        await self._client.resource(CERTIFICATESIGNINGREQUESTS).update(
            replace(request, status=status), subresource=subresource
        )


class CSRSigningController(_RequestController):
    """Signs for Kubernetes' own signers; without the authority's key it leaves requests alone."""

    name = "certificatesigningrequest-signing-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._signer = context.signer

    async def _decide(self, request: CertificateSigningRequest) -> None:
        if self._signer is None or request.spec.signer_name not in SIGNERS:
            return
        status = request.status
        if status.certificate or has_condition(status, "Denied", "Failed") or not has_condition(status, "Approved"):
            return
        why = refusal(request)
        if why:
            failed = CertificateSigningRequestCondition(
                type="Failed", status="True", reason="SignerValidationFailure", message=why
            )
            await self._write(request, failed, "status")
            return
        seconds = min(request.spec.expiration_seconds or LONGEST, LONGEST)
        spec = request.spec
        certificate = await asyncio.to_thread(self._signer, spec.request, spec.usages, seconds)
        issued = replace(request, status=replace(status, certificate=certificate))
        await self._client.resource(CERTIFICATESIGNINGREQUESTS).update_status(issued)


CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
SIGNERS: Final = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING)

_NODES: Final = ("system:nodes",)
_COMMON: Final = frozenset({"digital signature", "key encipherment"})


class Signer(Protocol):
    """Signs with the key of the authority."""

    def __call__(self, request: bytes, usages: Collection[str], seconds: float) -> bytes:
        """Return a certificate (PEM) for a request (PEM), valid for ``seconds``."""


def has_condition(status: CertificateSigningRequestStatus, *types: str) -> bool:
    """Return True if a request has one of these conditions."""
    return any(condition.type in types for condition in status.conditions)


def refusal(request: CertificateSigningRequest) -> str:
    """Return the reason why the request's signer refuses it; "" if it signs."""
    # With the first request: it loads the cryptography library.
    from cathedra.certificates.requests import BadRequest, read_request

    spec = request.spec
    try:
        facts = read_request(spec.request)
    except BadRequest as error:
        return f"unable to parse csr {request.metadata.name!r}: {error}"
    usages = frozenset(spec.usages)
    if spec.signer_name == CLIENT:
        return "" if "client auth" in usages and usages <= _COMMON | {"client auth"} else "usages did not match"
    if facts.organizations != _NODES:
        return "organization in subject is not [system:nodes]"
    if not facts.common_name.startswith("system:node:"):
        return "subject common name does not begin with 'system:node:'"
    wanted = "client auth" if spec.signer_name == KUBELET_CLIENT else "server auth"
    if wanted not in usages or "digital signature" not in usages or not usages <= _COMMON | {wanted}:
        return f"usages did not match {sorted(_COMMON | {wanted})}"
    if facts.others:
        return "email and URI subject alternative names are not allowed"
    if spec.signer_name == KUBELET_CLIENT:
        return "DNS and IP subject alternative names are not allowed" if facts.hosts else ""
    if facts.common_name != spec.username or "system:nodes" not in spec.groups:
        return "the subject is not the requesting node"
    return "" if facts.hosts else "DNS or IP subjectAltName is required"


# Approves client certificates of kubelets if the requesting user has the permission for that.
#
# The permission is ``create`` on ``certificatesigningrequests/selfnodeclient`` for a node's own certificate, and on
# ``…/nodeclient`` for users that add nodes (bootstrap tokens).

_REVIEWS: Final = ResourceRef(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, SubjectAccessReview
)
_WORDS: Final = {
    "selfnodeclient": "Auto approving self kubelet client certificate after SubjectAccessReview.",
    "nodeclient": "Auto approving kubelet client certificate after SubjectAccessReview.",
}


class CSRApprovingController(_RequestController):
    """Approves kubelets' client certificates."""

    name = "certificatesigningrequest-approving-controller"

    async def _decide(self, request: CertificateSigningRequest) -> None:
        if request.status.certificate or has_condition(request.status, "Approved", "Denied"):
            return
        if request.spec.signer_name != KUBELET_CLIENT or refusal(request):
            return
        for right in self._rights(request):
            if await self._allowed(request, right):
                approved = CertificateSigningRequestCondition(
                    type="Approved", status="True", reason="AutoApproved", message=_WORDS[right]
                )
                await self._write(request, approved, "approval")
                return

    @staticmethod
    def _rights(request: CertificateSigningRequest) -> tuple[str, ...]:
        # With the first request: it loads the cryptography library.
        from cathedra.certificates.requests import read_request

        own = read_request(request.spec.request).common_name == request.spec.username
        return ("selfnodeclient", "nodeclient") if own else ("nodeclient",)

    async def _allowed(self, request: CertificateSigningRequest, right: str) -> bool:
        spec = request.spec
        wanted = ResourceAttributes(
            verb="create", group="certificates.k8s.io", resource="certificatesigningrequests", subresource=right
        )
        review = await self._client.resource(_REVIEWS).create(
            SubjectAccessReview(
                spec=SubjectAccessReviewSpec(
                    user=spec.username, uid=spec.uid, groups=spec.groups, extra=spec.extra, resource_attributes=wanted
                )
            )
        )
        return review.status.allowed


INTERVAL: Final = 3600.0
"""Seconds between two passes over all requests."""
DECIDED_SECONDS: Final = 3600.0
PENDING_SECONDS: Final = 24 * 3600.0

_LOG = logging.getLogger(__name__)


class CSRCleanerController:
    """Deletes requests that are issued, denied, failed or abandoned."""

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
