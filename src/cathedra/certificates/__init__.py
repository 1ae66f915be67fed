"""Certificates: what they are here, and in `cathedra.certificates.authority` who makes them."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

__all__ = ["CertificateFacts", "KeyPair"]


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class CertificateFacts(msgspec.Struct, frozen=True):
    """What a server's certificate is good for (`cathedra.certificates.facts` reads it)."""

    digest: str
    """SHA-256 of the file, in hexadecimal."""
    hosts: tuple[str, ...]
    expires: float
    """Seconds since the Unix epoch."""
    foreign: bool
    """Whether another authority has signed it."""

    def covers(self, hosts: Collection[str], *, until: float) -> bool:
        """Whether it is for all of ``hosts``, and still good at ``until`` (seconds since the epoch)."""
        return set(hosts) <= set(self.hosts) and until < self.expires
