"""Certificates: what they are here, and in `cathedra.certificates.authority` who makes them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KeyPair"]


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes
