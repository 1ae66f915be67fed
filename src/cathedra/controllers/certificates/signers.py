"""Rules of Kubernetes' own signers: for clients, kubelets as clients, and kubelets as servers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from cathedra.api.core.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestStatus

CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
SIGNERS: Final = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING)

_NODES: Final = ("system:nodes",)
_COMMON: Final = frozenset({"digital signature", "key encipherment"})


class Signer(Protocol):
    """The key of the authority, to sign with."""

    def __call__(self, request: bytes, usages: Collection[str], seconds: float) -> bytes:
        """A certificate (PEM) for a request (PEM) that holds for so long."""


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
        return "the subject is not the node that asks"
    return "" if facts.hosts else "DNS or IP subjectAltName is required"
