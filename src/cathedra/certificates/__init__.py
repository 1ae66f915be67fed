"""Key pairs and facts of certificates. `cathedra.certificates.authority` issues them."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

__all__ = ["CertificateFacts", "KeyPair"]


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class CertificateFacts(msgspec.Struct, frozen=True):
    """Hosts, expiry and issuer of a server's certificate, read by `cathedra.certificates.authority`."""

    digest: str
    """SHA-256 of the file, in hexadecimal."""
    hosts: tuple[str, ...]
    expires: float
    """Seconds since the Unix epoch."""
    foreign: bool
    """True if another authority has signed the certificate."""

    def covers(self, hosts: Collection[str], *, until: float) -> bool:
        """Return True if the certificate is valid for all of ``hosts`` until ``until`` (seconds since the epoch)."""
        return set(hosts) <= set(self.hosts) and until < self.expires
