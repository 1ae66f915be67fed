"""What Kubernetes' own signers sign."""

from __future__ import annotations

import pytest

from cathedra.api.core.certificates_v1 import CertificateSigningRequestStatus
from cathedra.api.struct import replace
from cathedra.controllers.certificates.signers import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    has_condition,
    refusal,
)
from tests.unit.controllers.certificates.requests import APPROVED, asked, request

NODE = "system:node:n1"
PLAIN, NAMED = asked(NODE), asked(NODE, host="n1")
CLIENT_USES, SERVER_USES = ("digital signature", "client auth"), ("digital signature", "server auth")


def why(pem: bytes, signer: str, usages: tuple[str, ...], *, username: str = NODE, group: str = "system:nodes") -> str:
    made = request(pem, signer, usages)
    return refusal(replace(made, spec=replace(made.spec, username=username, groups=(group,))))


@pytest.mark.parametrize(
    ("pem", "signer", "usages"),
    [
        (PLAIN, KUBELET_CLIENT, CLIENT_USES),
        (PLAIN, KUBELET_CLIENT, (*CLIENT_USES, "key encipherment")),
        (NAMED, KUBELET_SERVING, SERVER_USES),
        (asked("anyone", group="any"), CLIENT, ("client auth",)),
    ],
)
def test_what_a_signer_is_for_is_signed(pem: bytes, signer: str, usages: tuple[str, ...]) -> None:
    assert why(pem, signer, usages) == ""


@pytest.mark.parametrize(
    ("pem", "signer", "usages", "wanted"),
    [
        (b"no request", KUBELET_CLIENT, CLIENT_USES, "unable to parse csr 'csr': "),
        (asked(NODE, group="other"), KUBELET_CLIENT, CLIENT_USES, "organization in subject is not [system:nodes]"),
        (asked("n1"), KUBELET_CLIENT, CLIENT_USES, "subject common name does not begin with 'system:node:'"),
        (PLAIN, KUBELET_CLIENT, SERVER_USES, "usages did not match "),
        (PLAIN, KUBELET_CLIENT, ("client auth",), "usages did not match "),
        (PLAIN, KUBELET_CLIENT, (*CLIENT_USES, "any"), "usages did not match "),
        (NAMED, KUBELET_CLIENT, CLIENT_USES, "DNS and IP subject alternative names are not allowed"),
        (PLAIN, KUBELET_SERVING, SERVER_USES, "DNS or IP subjectAltName is required"),
        (asked("anyone"), CLIENT, SERVER_USES, "usages did not match"),
        (asked("anyone"), CLIENT, ("client auth", "any"), "usages did not match"),
    ],
)
def test_what_it_is_not_for_is_refused_with_the_reason(
    pem: bytes, signer: str, usages: tuple[str, ...], wanted: str
) -> None:
    assert why(pem, signer, usages).startswith(wanted)


def test_a_serving_certificate_is_for_the_node_that_asks() -> None:
    wanted = "the subject is not the node that asks"
    assert why(NAMED, KUBELET_SERVING, SERVER_USES, username="system:node:n2") == wanted
    assert why(NAMED, KUBELET_SERVING, SERVER_USES, group="others") == wanted


def test_a_request_has_one_of_the_conditions_or_none() -> None:
    status = CertificateSigningRequestStatus(conditions=(APPROVED,))
    assert has_condition(status, "Denied", "Approved")
    assert not has_condition(status, "Denied")
    assert not has_condition(CertificateSigningRequestStatus(), "Approved")
