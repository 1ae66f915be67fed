"""Approved requests get their certificates."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from cathedra.api.core.certificates_v1 import CertificateSigningRequestStatus
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.authenticator import certificate_user
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from cathedra.controllers.certificates import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    has_condition,
    refusal,
)
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded
from tests.unit.controllers.certificates.requests import APPROVED, BOOTSTRAPPER, asked, controllers, joined, request


@pytest.mark.parametrize(("wanted", "given"), [(3600, 3600), (None, 365 * 24 * 3600), (10**9, 365 * 24 * 3600)])
def test_a_certificate_is_of_the_subject_and_lasts_as_long_as_wanted_but_a_year_at_most(
    wanted: int | None, given: int
) -> None:
    async def body(api: Guarded) -> None:
        done = await joined(api, asked("system:node:n1"), seconds=wanted)
        certificate = x509.load_pem_x509_certificate(done.status.certificate)
        found = certificate_user(certificate.public_bytes(serialization.Encoding.DER))
        assert (found.name, found.groups) == ("system:node:n1", ("system:nodes",))
        life = certificate.not_valid_after_utc.timestamp() - api.clock.now()
        assert given - 100 < life <= given

    guarded(body)


@run_with(guarded)
async def test_an_approved_request_that_its_signer_does_not_sign_has_failed(api: Guarded) -> None:
    requests = api.admin.resource(CERTIFICATESIGNINGREQUESTS)
    async with controllers(api):
        made = await requests.create(request(asked("admin", group="system:masters")))
        await requests.update(
            replace(made, status=replace(made.status, conditions=(APPROVED,))), subresource="approval"
        )
        await api.clock.sleep(2)
        done = await requests.get("csr")
    assert [(c.type, c.reason) for c in done.status.conditions][1:] == [("Failed", "SignerValidationFailure")]


@run_with(guarded)
async def test_what_is_not_approved_is_not_signed(api: Guarded) -> None:
    requests = api.admin.resource(CERTIFICATESIGNINGREQUESTS)
    async with controllers(api):
        await requests.create(request(asked("me"), CLIENT, ("client auth",)))
        await api.clock.sleep(2)
        done = await requests.get("csr")
    assert (done.status.certificate, done.status.conditions) == (b"", ())


@run_with(guarded)
async def test_signers_of_others_are_left_alone(api: Guarded) -> None:
    requests = api.admin.resource(CERTIFICATESIGNINGREQUESTS)
    async with controllers(api):
        made = await requests.create(request(asked("me"), signer="example.com/own"))
        status = replace(made.status, conditions=(APPROVED,))
        await requests.update(replace(made, status=status), subresource="approval")
        await api.clock.sleep(2)
        done = await requests.get("csr")
    assert (done.status.certificate, [c.type for c in done.status.conditions]) == (b"", ["Approved"])


# What Kubernetes' own signers sign.

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
    wanted = "the subject is not the requesting node"
    assert why(NAMED, KUBELET_SERVING, SERVER_USES, username="system:node:n2") == wanted
    assert why(NAMED, KUBELET_SERVING, SERVER_USES, group="others") == wanted


def test_a_request_has_one_of_the_conditions_or_none() -> None:
    status = CertificateSigningRequestStatus(conditions=(APPROVED,))
    assert has_condition(status, "Denied", "Approved")
    assert not has_condition(status, "Denied")
    assert not has_condition(CertificateSigningRequestStatus(), "Approved")


# Client certificates of kubelets are approved for those who may have them.


@run_with(guarded)
async def test_a_bootstrapping_kubelet_is_approved(api: Guarded) -> None:
    done = await joined(api, asked("system:node:n1"))
    assert (done.spec.username, "forged" in done.spec.groups) == (BOOTSTRAPPER, False)
    (condition,) = done.status.conditions
    assert (condition.type, condition.reason) == ("Approved", "AutoApproved")
    assert condition.message == "Auto approving kubelet client certificate after SubjectAccessReview."
    assert condition.last_update_time is not None


@pytest.mark.parametrize("pem", [asked("admin", group="system:masters"), asked("system:node:n1", host="n1")])
@run_with(guarded)
async def test_other_subjects_are_not_approved(api: Guarded, *, pem: bytes) -> None:
    done = await joined(api, pem)
    assert (done.status.conditions, done.status.certificate) == ((), b"")


@run_with(guarded)
async def test_other_signers_are_left_to_people(api: Guarded) -> None:
    done = await joined(api, asked("system:node:n1"), signer="kubernetes.io/kube-apiserver-client")
    assert done.status.conditions == ()


# Requests that are over are deleted.

HOUR = 3600


async def left(api: Guarded, seconds: float) -> int:
    """Return the number of requests after a time."""
    async with controllers(api):
        await api.clock.sleep(seconds)
    return len((await api.admin.resource(CERTIFICATESIGNINGREQUESTS).list()).items)


@pytest.mark.parametrize(("seconds", "count"), [(HOUR / 2, 1), (2 * HOUR + 60, 0)])
@run_with(guarded)
async def test_a_request_is_deleted_an_hour_after_its_decision(api: Guarded, *, seconds: float, count: int) -> None:
    await joined(api, asked("system:node:n1"))
    assert await left(api, seconds) == count


@pytest.mark.parametrize(("seconds", "count"), [(23 * HOUR, 1), (26 * HOUR, 0)])
@run_with(guarded)
async def test_a_request_that_is_not_decided_on_is_deleted_after_a_day(
    api: Guarded, *, seconds: float, count: int
) -> None:
    await api.admin.resource(CERTIFICATESIGNINGREQUESTS).create(request(asked("me")))
    assert await left(api, seconds) == count
