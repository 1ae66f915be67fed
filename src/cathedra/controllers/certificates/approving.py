"""Approves client certificates of kubelets if the requesting user has the permission for that.

The permission is ``create`` on ``certificatesigningrequests/selfnodeclient`` for a node's own certificate, and on
``…/nodeclient`` for users that add nodes (bootstrap tokens).
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from cathedra.api.core.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from cathedra.api.struct import replace
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from cathedra.client.transport import ResourceRef
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.certificates.signers import KUBELET_CLIENT, has_condition, refusal
from cathedra.controllers.controller import ControllerContext

_REVIEWS: Final = ResourceRef(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, SubjectAccessReview
)
_WORDS: Final = {
    "selfnodeclient": "Auto approving self kubelet client certificate after SubjectAccessReview.",
    "nodeclient": "Auto approving kubelet client certificate after SubjectAccessReview.",
}


class CSRApprovingController:
    """Approves kubelets' client certificates."""

    name = "certificatesigningrequest-approving-controller"

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
        if request is None or request.status.certificate or has_condition(request.status, "Approved", "Denied"):
            return
        if request.spec.signer_name != KUBELET_CLIENT or refusal(request):
            return
        for right in self._rights(request):
            if await self._allowed(request, right):
                await self._approve(request, _WORDS[right])
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

    async def _approve(self, request: CertificateSigningRequest, message: str) -> None:
        approved = CertificateSigningRequestCondition(
            type="Approved", status="True", reason="AutoApproved", message=message
        )
        status = replace(request.status, conditions=(*request.status.conditions, approved))
        await self._client.resource(CERTIFICATESIGNINGREQUESTS).update(
            replace(request, status=status), subresource="approval"
        )
