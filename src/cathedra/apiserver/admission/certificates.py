"""The right to approve and sign requests for certificates, and the requests that are always refused.

Kubernetes' plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction: the right to change the
sub-resource is not enough, the user must also be allowed to ``approve`` or ``sign`` for that signer.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.certificates_v1 import CertificateSigningRequest
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.authorization.authorizer import Attributes, Authorizer

GROUP: Final = "certificates.k8s.io"
REQUESTS: Final = GroupResource(GROUP, "certificatesigningrequests")
_VERBS: Final = {"approval": "approve", "status": "sign"}
_CLIENT: Final = "kubernetes.io/kube-apiserver-client"


class CertificateChecks(AdmissionPlugin):
    """Checks the right to approve, sign and create requests."""

    name = "CertificateApproval"
    kinds = frozenset({REQUESTS})

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, request: AdmissionAttributes) -> None:
        """Check the user's right for the signer.

        Raises:
            StatusError: 403, the user lacks it, or the request is for a client certificate of ``system:masters``.
        """
        if request.definition.group_resource != REQUESTS:
            return
        asked: CertificateSigningRequest = request.object
        if request.operation == "CREATE" and not request.subresource:
            self._check_subject(request, asked)
            return
        if request.operation != "UPDATE" or request.subresource not in _VERBS:
            return
        if request.subresource == "status" and not _signs(asked, request.old_object):
            return
        verb, signer = _VERBS[request.subresource], request.old_object.spec.signer_name
        if not any(self._may(request, verb, name) for name in (signer, f"{signer.partition('/')[0]}/*")):
            why = f'user not permitted to {verb} requests with signerName "{signer}"'
            raise forbidden(REQUESTS, asked.metadata.name, why)

    def _check_subject(self, request: AdmissionAttributes, asked: CertificateSigningRequest) -> None:
        if asked.spec.signer_name != _CLIENT:
            return
        # With the first request: it loads the cryptography library.
        from cathedra.certificates.requests import BadRequest, read_request

        try:
            facts = read_request(asked.spec.request)
        except BadRequest:
            return  # validation refuses it, with Kubernetes' text
        # Such a certificate cannot be revoked, and no authorizer restricts its user.
        if "system:masters" in facts.organizations:
            why = f"use of {_CLIENT} signer with system:masters group is not allowed"
            raise forbidden(REQUESTS, asked.metadata.name, why)

    def _may(self, request: AdmissionAttributes, verb: str, signer: str) -> bool:
        question = Attributes(request.user, verb, GROUP, "*", "signers", name=signer)
        return self._authorizer.authorize(question).allowed


def _signs(new: Any, old: Any) -> bool:
    """Return True if a status update issues a certificate or declares that it cannot be issued."""
    return bool(new.status.certificate != old.status.certificate or new.status.conditions != old.status.conditions)
