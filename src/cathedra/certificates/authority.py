"""Certificates: an authority, and those that it signs for servers and clients.

Elliptic-curve keys (P-256): made in a millisecond, where RSA would cost the start of a server a noticeable time.
Importing this module takes some 60 ms, for the cryptography library: import it where a certificate is made or read.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cathedra.certificates import CertificateFacts, KeyPair

VALIDITY: Final = datetime.timedelta(days=3650)
BACKDATE: Final = datetime.timedelta(minutes=5)


class Authority:
    """A certificate authority for servers and clients of one cluster."""

    def __init__(self, pair: KeyPair) -> None:
        self.pair = pair
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = load_pem_private_key(pair.key, None)
        self._key: ec.EllipticCurvePrivateKey = key  # type: ignore[assignment]  # `make` makes no others

    @property
    def certificate(self) -> x509.Certificate:
        """The authority's own certificate."""
        return self._certificate

    @property
    def key(self) -> ec.EllipticCurvePrivateKey:
        """Return the private key that signs certificates."""
        return self._key

    @staticmethod
    def make(now: float, name: str = "cathedra-ca") -> Authority:
        """Return a new authority; ``now`` in seconds since the Unix epoch."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = subject_of(name)
        builder = _builder(subject, subject, key, now).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        builder = builder.add_extension(_usage(signing=True), critical=True).add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        return Authority(_signed(builder, key, key))

    def server(
        self, hosts: tuple[str, ...], now: float, *, name: str = "kube-apiserver", groups: tuple[str, ...] = ()
    ) -> KeyPair:
        """Return a certificate for a server that is reached under these host names and addresses.

        ``name`` and ``groups`` are its subject: a kubelet's is ``system:node:NAME`` in ``system:nodes``, as the signer
        ``kubernetes.io/kubelet-serving`` demands.
        """
        return self._leaf(name, groups, now, ExtendedKeyUsageOID.SERVER_AUTH, alternative_names(hosts))

    def client(self, user: str, groups: tuple[str, ...], now: float) -> KeyPair:
        """Return a certificate that names a user and the user's groups."""
        return self._leaf(user, groups, now, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _leaf(
        self,
        common_name: str,
        organizations: tuple[str, ...],
        now: float,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject_of(common_name, organizations), self._certificate.subject, key, now)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signing=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return _signed(builder, key, self._key)


def self_signed(name: str, hosts: tuple[str, ...], now: float) -> KeyPair:
    """Return a server's certificate that only itself vouches for, as a kubelet makes one that was given none."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = subject_of(name)
    builder = _builder(subject, subject, key, now)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signing=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(alternative_names(hosts), critical=False)
    return _signed(builder, key, key)


def alternative_names(hosts: tuple[str, ...]) -> x509.SubjectAlternativeName:
    """Return host names and addresses as a certificate has them."""
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(names)


def subject_of(common_name: str, organizations: tuple[str, ...] = ()) -> x509.Name:
    """Return a user or server with its groups, as a certificate has them."""
    # Kubernetes' names may be longer than the 64 characters that X.520 allows, and Go's library takes them.
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name, _validate=False) for name in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name, _validate=False)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: float
) -> x509.CertificateBuilder:
    start = datetime.datetime.fromtimestamp(int(now), datetime.UTC) - BACKDATE
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + VALIDITY)
    )


def _usage(*, signing: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signing,
        crl_sign=signing,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> KeyPair:
    certificate = builder.sign(signer, hashes.SHA256())
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def certificate_facts(certificate: bytes, authority: bytes) -> CertificateFacts:
    """Return the facts of a certificate (PEM); it is foreign unless ``authority`` (PEM) has signed it.

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
