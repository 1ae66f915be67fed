"""Requests for certificates, and their signing by an authority."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from cathedra.certificates.authority import Authority
from cathedra.certificates.requests import BadRequest, RequestFacts, make_request, read_request, sign_request, validity

NOW = 1_800_000_000.0
DAY = 86400.0
CLIENT = ("digital signature", "client auth")


def signed(request: bytes, usages: tuple[str, ...] = CLIENT, seconds: float = DAY) -> x509.Certificate:
    return x509.load_pem_x509_certificate(sign_request(Authority.make(NOW), request, usages, seconds, NOW))


def test_a_request_says_who_asks_and_for_which_names() -> None:
    request, _ = make_request("system:node:n1", ("system:nodes", "more"), ("n1", "10.0.0.1"))
    assert read_request(request) == RequestFacts("system:node:n1", ("system:nodes", "more"), hosts=2, others=0)
    plain, _ = make_request("me", (), ())
    assert read_request(plain) == RequestFacts("me", (), hosts=0, others=0)


@pytest.mark.parametrize(
    "text", [b"", b"nothing", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
)
def test_what_is_no_request_is_refused(text: bytes) -> None:
    with pytest.raises(BadRequest, match="PEM block type must be CERTIFICATE REQUEST"):
        read_request(text)
    with pytest.raises(BadRequest):
        sign_request(Authority.make(NOW), text, CLIENT, DAY, NOW)


def test_a_request_that_was_changed_on_its_way_is_refused() -> None:
    request, _ = make_request("system:node:n1", (), ())
    der = x509.load_pem_x509_csr(request).public_bytes(serialization.Encoding.DER)
    forged = x509.load_der_x509_csr(der.replace(b"system:node:n1", b"system:node:n2"))
    with pytest.raises(BadRequest, match="the signature of the request is wrong"):
        read_request(forged.public_bytes(serialization.Encoding.PEM))


def test_the_certificate_is_for_the_key_subject_and_names_of_the_request() -> None:
    request, key = make_request("system:node:n1", ("system:nodes",), ("n1", "10.0.0.1"))
    certificate = signed(request)
    asked = x509.load_pem_x509_csr(request)
    own = serialization.load_pem_private_key(key, None)
    assert certificate.public_key() == own.public_key() == asked.public_key()
    assert certificate.subject == asked.subject
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("usages", "extended", "enciphers"),
    [
        (CLIENT, [ExtendedKeyUsageOID.CLIENT_AUTH], False),
        (("key encipherment", "server auth"), [ExtendedKeyUsageOID.SERVER_AUTH], True),
        (("digital signature",), [], False),
    ],
)
def test_it_may_be_used_for_what_was_asked_and_never_to_sign_others(
    usages: tuple[str, ...], extended: list[x509.ObjectIdentifier], enciphers: bool
) -> None:
    certificate = signed(make_request("me", (), ())[0], usages)
    found = certificate.extensions
    usage = found.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment) == ("digital signature" in usages, enciphers)
    assert (usage.key_cert_sign, usage.crl_sign) == (False, False)
    assert not found.get_extension_for_class(x509.BasicConstraints).value.ca
    given = [list(one.value) for one in found if isinstance(one.value, x509.ExtendedKeyUsage)]
    assert given == ([extended] if extended else [])


def test_it_never_holds_longer_than_its_authority() -> None:
    authority = Authority.make(NOW)
    end = authority.certificate.not_valid_after_utc.timestamp()
    request, _ = make_request("me", (), ())
    start, until = validity(sign_request(authority, request, CLIENT, DAY, NOW))
    assert start < NOW
    assert until == NOW + DAY
    assert validity(sign_request(authority, request, CLIENT, 2 * (end - NOW), NOW))[1] == end
    with pytest.raises(ValueError, match="PEM"):
        validity(b"nothing")
