"""Certificate signing requests."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import certificates_v1
from cathedra.kinds.builtin import builtin
from cathedra.kinds.columns import AGE, NAME, age, human_duration
from cathedra.kinds.definition import Column, ResourceDefinition

__all__ = ["signing_request_definition"]


SIGNING_REQUEST_COLUMNS: Final = (
    NAME,
    AGE,
    Column("SignerName", description="The signer that is asked."),
    Column("Requestor", description="The user that asks."),
    Column("RequestedDuration", description="How long the certificate is to hold."),
    Column("Condition", description="What has become of the request."),
)


def signing_request_cells(request: certificates_v1.CertificateSigningRequest, now: float) -> list[Any]:
    """Cells of a CertificateSigningRequest."""
    spec = request.spec
    seconds = spec.expiration_seconds
    return [
        request.metadata.name,
        age(request.metadata.creation_timestamp, now),
        spec.signer_name or "<none>",
        spec.username,
        "<none>" if seconds is None else human_duration(seconds),
        _condition(request.status),
    ]


def _condition(status: certificates_v1.CertificateSigningRequestStatus) -> str:
    types = {condition.type for condition in status.conditions}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        words.append("Failed")
    if status.certificate:
        words.append("Issued")
    return ",".join(words)


def signing_request_definition() -> ResourceDefinition[certificates_v1.CertificateSigningRequest]:
    """The definition of certificatesigningrequests."""
    return builtin(
        certificates_v1.CertificateSigningRequest,
        "certificatesigningrequests",
        namespaced=False,
        table=(SIGNING_REQUEST_COLUMNS, signing_request_cells),
        short_names=("csr",),
        field_selectors={"spec.signerName": lambda request: request.spec.signer_name},
    )
