"""What stands in a certificate; like `cathedra.certificates.authority` it loads the cryptography library."""

from __future__ import annotations

import hashlib

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from cathedra.certificates import CertificateFacts

__all__ = ["certificate_facts"]


def certificate_facts(certificate: bytes, authority: bytes) -> CertificateFacts:
    """The facts of a certificate (PEM); it is foreign unless ``authority`` (PEM) has signed it.

    Raises:
        ValueError: one of them is no certificate.
    """
    read = x509.load_pem_x509_certificate(certificate)
    try:
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = [str(value) for kind in (x509.DNSName, x509.IPAddress) for value in names.get_values_for_type(kind)]
    except x509.ExtensionNotFound:
        hosts = []
    try:
        read.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        foreign = False
    except (InvalidSignature, TypeError, ValueError):
        foreign = True
    digest = hashlib.sha256(certificate).hexdigest()
    return CertificateFacts(digest, tuple(sorted(hosts)), read.not_valid_after_utc.timestamp(), foreign)
