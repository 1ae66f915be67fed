"""What stands in a certificate."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives import serialization

from cathedra.certificates.authority import Authority
from cathedra.certificates.facts import certificate_facts
from cathedra.certificates.requests import make_request, sign_request

NOW = 1_800_000_000.0


def pem(authority: Authority) -> bytes:
    return authority.certificate.public_bytes(serialization.Encoding.PEM)


def test_a_certificate_says_for_whom_it_is_and_until_when() -> None:
    authority = Authority.make(NOW)
    request, _ = make_request("server", (), ("localhost", "a.example.com", "127.0.0.1"))
    certificate = sign_request(authority, request, ("server auth",), 3600.0, NOW)
    facts = certificate_facts(certificate, pem(authority))
    assert facts.hosts == ("127.0.0.1", "a.example.com", "localhost")
    assert facts.expires == NOW + 3600
    assert facts.digest == hashlib.sha256(certificate).hexdigest()
    assert not facts.foreign


def test_a_certificate_of_another_authority_is_foreign_whatever_that_is_called() -> None:
    request, _ = make_request("server", (), ())
    certificate = sign_request(Authority.make(NOW), request, ("server auth",), 3600.0, NOW)
    facts = certificate_facts(certificate, pem(Authority.make(NOW)))
    assert (facts.hosts, facts.foreign) == ((), True)


def test_what_is_no_certificate_has_no_facts() -> None:
    with pytest.raises(ValueError, match="PEM"):
        certificate_facts(b"nothing", pem(Authority.make(NOW)))
