"""The user that a client certificate names."""

from __future__ import annotations

import hashlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from cathedra.apiserver.authentication.certificates import CREDENTIAL_ID, certificate_user
from cathedra.certificates.authority import Authority

NOW = 1_800_000_000.0


@pytest.mark.parametrize(("name", "groups"), [("alice", ("devs", "ops")), ("system:node:n1", ()), ("Ä", ("ö",))])
def test_the_common_name_is_the_user_and_each_organization_a_group(name: str, groups: tuple[str, ...]) -> None:
    pair = Authority.make(NOW).client(name, groups, NOW)
    der = x509.load_pem_x509_certificate(pair.certificate).public_bytes(serialization.Encoding.DER)
    user = certificate_user(der)
    assert (user.name, user.groups, user.uid) == (name, groups, "")
    assert user.extra == {CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}
