"""Certificate signing requests (PKCS #10): reading and signing them.

Like `authority`, this module loads the cryptography library: import it where a request is read.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cathedra.certificates.authority import BACKDATE, Authority, alternative_names, subject_of

_EXTENDED: Final = {
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
}


class BadRequest(ValueError):
    """A text is no request for a certificate, or its signature is wrong."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """Subject, names and usages of a request."""

    common_name: str
    organizations: tuple[str, ...]
    hosts: int
    """Number of host names and addresses."""
    others: int
    """Number of e-mail addresses and URIs."""


def read_request(pem: bytes) -> RequestFacts:
    """Return the facts of a request.

    Raises:
        BadRequest: ``pem`` is no valid request.
    """
    request = _parsed(pem)
    names = _names(request) or ()
    hosts = sum(isinstance(name, x509.DNSName | x509.IPAddress) for name in names)
    return RequestFacts(
        common_name=next(iter(_texts(request.subject, NameOID.COMMON_NAME)), ""),
        organizations=_texts(request.subject, NameOID.ORGANIZATION_NAME),
        hosts=hosts,
        others=len(tuple(names)) - hosts,
    )


def sign_request(authority: Authority, pem: bytes, usages: Collection[str], seconds: float, now: float) -> bytes:
    """Return a certificate (PEM) for the key, subject and names of a request.

    ``usages`` are Kubernetes' words, as ``client auth``; it holds for ``seconds``, and never longer than its authority.

    Raises:
        BadRequest: it is none.
    """
    request = _parsed(pem)
    start = datetime.datetime.fromtimestamp(int(now), datetime.UTC)
    end = min(start + datetime.timedelta(seconds=seconds), authority.certificate.not_valid_after_utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(authority.certificate.subject)
        .public_key(request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - BACKDATE)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(usages), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.certificate.public_key()),  # type: ignore[arg-type]  # an authority's key signs
            critical=False,
        )
    )
    extended = [_EXTENDED[usage] for usage in usages if usage in _EXTENDED]
    if extended:
        builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
    names = _names(request)
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(authority.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def make_request(common_name: str, organizations: tuple[str, ...], hosts: tuple[str, ...]) -> tuple[bytes, bytes]:
    """Return a new key, and a request for its certificate: request and key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject_of(common_name, organizations))
    if hosts:
        builder = builder.add_extension(alternative_names(hosts), critical=False)
    request = builder.sign(key, hashes.SHA256())
    return (
        request.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def validity(pem: bytes) -> tuple[float, float]:
    """From when until when a certificate (the first of a PEM text) holds, in seconds since the epoch.

    Raises:
        ValueError: it is none.
    """
    certificate = x509.load_pem_x509_certificate(pem)
    return certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()


def _parsed(pem: bytes) -> x509.CertificateSigningRequest:
    try:
        request = x509.load_pem_x509_csr(pem)
        valid = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadRequest("PEM block type must be CERTIFICATE REQUEST") from error
    if not valid:
        raise BadRequest("the signature of the request is wrong")
    return request


def _names(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return None


def _texts(subject: x509.Name, kind: x509.ObjectIdentifier) -> tuple[str, ...]:
    return tuple(str(attribute.value) for attribute in subject.get_attributes_for_oid(kind))


def _key_usage(usages: Collection[str]) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature="digital signature" in usages or "signing" in usages,
        key_encipherment="key encipherment" in usages,
        content_commitment="content commitment" in usages,
        data_encipherment="data encipherment" in usages,
        key_agreement="key agreement" in usages,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
