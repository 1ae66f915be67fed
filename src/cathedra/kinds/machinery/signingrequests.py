"""Certificate signing requests."""

from __future__ import annotations

from cathedra.api.core import certificates_v1
from cathedra.kinds.builtin import builtin
from cathedra.kinds.definition import ResourceDefinition

__all__ = ["signing_request_definition"]


def signing_request_definition() -> ResourceDefinition[certificates_v1.CertificateSigningRequest]:
    """The definition of certificatesigningrequests."""
    return builtin(
        certificates_v1.CertificateSigningRequest,
        "certificatesigningrequests",
        namespaced=False,
        short_names=("csr",),
        field_selectors={"spec.signerName": lambda request: request.spec.signer_name},
    )
