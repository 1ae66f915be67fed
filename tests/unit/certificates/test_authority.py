"""Certificates that Go's and OpenSSL's rules accept, and no others."""

from __future__ import annotations

import hashlib
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cathedra.certificates import KeyPair
from cathedra.certificates.authority import Authority, certificate_facts, self_signed
from cathedra.certificates.requests import make_request, sign_request

NOW = 1_700_000_000.0


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make(NOW, "test-ca")


def parsed(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def usages(certificate: x509.Certificate) -> list[x509.ObjectIdentifier]:
    return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_a_servers_certificate_is_for_its_names_and_addresses_alone(authority: Authority) -> None:
    pair = authority.server(("n1", "10.0.0.7", "::1"), NOW, name="system:node:n1", groups=("system:nodes",))
    certificate = parsed(pair)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.0.0.7"), ipaddress.ip_address("::1")]
    assert usages(certificate) == [ExtendedKeyUsageOID.SERVER_AUTH]
    certificate.verify_directly_issued_by(parsed(authority.pair))


def test_a_clients_certificate_names_user_and_groups_and_serves_nothing(authority: Authority) -> None:
    certificate = parsed(authority.client("alice", ("devs", "ops"), NOW))
    subject = certificate.subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["devs", "ops"]
    assert usages(certificate) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.filterwarnings("ignore:Attribute's length")
def test_names_may_be_as_long_as_kubernetes_allows(authority: Authority) -> None:
    name = f"system:node:{'n' * 253}"
    subject = parsed(authority.client(name, (), NOW)).subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == name


def test_a_self_signed_certificate_vouches_for_itself() -> None:
    certificate = parsed(self_signed("n1@1700000000", ("n1", "127.0.0.1"), NOW))
    certificate.verify_directly_issued_by(certificate)
    assert usages(certificate) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_an_authority_goes_on_from_its_files(authority: Authority) -> None:
    again = Authority(authority.pair)
    parsed(again.client("bob", (), NOW)).verify_directly_issued_by(parsed(authority.pair))


ISSUED = 1_800_000_000.0


def pem(authority: Authority) -> bytes:
    return authority.certificate.public_bytes(serialization.Encoding.PEM)


def test_a_certificate_says_for_whom_it_is_and_until_when() -> None:
    authority = Authority.make(ISSUED)
    request, _ = make_request("server", (), ("localhost", "a.example.com", "127.0.0.1"))
    certificate = sign_request(authority, request, ("server auth",), 3600.0, ISSUED)
    facts = certificate_facts(certificate, pem(authority))
    assert facts.hosts == ("127.0.0.1", "a.example.com", "localhost")
    assert facts.expires == ISSUED + 3600
    assert facts.digest == hashlib.sha256(certificate).hexdigest()
    assert not facts.foreign


def test_a_certificate_of_another_authority_is_foreign_whatever_that_is_called() -> None:
    request, _ = make_request("server", (), ())
    certificate = sign_request(Authority.make(ISSUED), request, ("server auth",), 3600.0, ISSUED)
    facts = certificate_facts(certificate, pem(Authority.make(ISSUED)))
    assert (facts.hosts, facts.foreign) == ((), True)


def test_what_is_no_certificate_has_no_facts() -> None:
    with pytest.raises(ValueError, match="PEM"):
        certificate_facts(b"nothing", pem(Authority.make(ISSUED)))
