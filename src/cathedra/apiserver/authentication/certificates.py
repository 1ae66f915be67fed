"""The user that a client certificate names (docs/spec/apimachinery.md §14)."""

from __future__ import annotations

import hashlib
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from cathedra.apiserver.authentication.user import UserInfo

__all__ = ["certificate_user"]

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"


def certificate_user(certificate: bytes) -> UserInfo:
    """The user that a verified client certificate (DER) names: CN is the name, each O a group."""
    subject = x509.load_der_x509_certificate(certificate).subject
    names = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = tuple(str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    fingerprint = hashlib.sha256(certificate).hexdigest()
    return UserInfo(names[0] if names else "", groups, "", {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)})
