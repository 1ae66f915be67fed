"""Approved requests get their certificates."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from cathedra.api.struct import replace
from cathedra.apiserver.authentication.authenticator import certificate_user
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from cathedra.controllers.certificates.signers import CLIENT
from tests.unit.apiserver.guarded import Guarded, guarded
from tests.unit.controllers.certificates.requests import APPROVED, asked, controllers, joined, request


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


def test_an_approved_request_that_its_signer_does_not_sign_has_failed() -> None:
    async def body(api: Guarded) -> None:
        requests = api.admin.resource(CERTIFICATESIGNINGREQUESTS)
        async with controllers(api):
            made = await requests.create(request(asked("admin", group="system:masters")))
            await requests.update(
                replace(made, status=replace(made.status, conditions=(APPROVED,))), subresource="approval"
            )
            await api.clock.sleep(2)
            done = await requests.get("csr")
        assert [(c.type, c.reason) for c in done.status.conditions][1:] == [("Failed", "SignerValidationFailure")]

    guarded(body)


def test_what_is_not_approved_is_not_signed() -> None:
    async def body(api: Guarded) -> None:
        requests = api.admin.resource(CERTIFICATESIGNINGREQUESTS)
        async with controllers(api):
            await requests.create(request(asked("me"), CLIENT, ("client auth",)))
            await api.clock.sleep(2)
            done = await requests.get("csr")
        assert (done.status.certificate, done.status.conditions) == (b"", ())

    guarded(body)


def test_signers_of_others_are_left_alone() -> None:
    async def body(api: Guarded) -> None:
        requests = api.admin.resource(CERTIFICATESIGNINGREQUESTS)
        async with controllers(api):
            made = await requests.create(request(asked("me"), signer="example.com/own"))
            status = replace(made.status, conditions=(APPROVED,))
            await requests.update(replace(made, status=status), subresource="approval")
            await api.clock.sleep(2)
            done = await requests.get("csr")
        assert (done.status.certificate, [c.type for c in done.status.conditions]) == (b"", ["Approved"])

    guarded(body)
