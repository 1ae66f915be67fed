"""A kubelet joins: its request for a client certificate is approved, signed, and deleted when it is over."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Collection

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cathedra.api.core.certificates_v1 import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestSpec,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.gates import FeatureGates
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.certificates import certificate_user
from cathedra.certificates.authority import Authority
from cathedra.certificates.requests import sign_request
from cathedra.client.client import Client
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from cathedra.controllers.controller_manager import ControllerManager
from tests.unit.apiserver.guarded import Guarded, guarded, refused, rule, user

KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
BOOTSTRAPPER = "system:bootstrap:abcdef"
USAGES = ("digital signature", "client auth")
APPROVED = CertificateSigningRequestCondition(type="Approved", status="True", reason="ByHand", message="")


def asked(name: str, *, group: str = "system:nodes", host: str = "") -> bytes:
    """The request for a certificate of that subject."""
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if host:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def request(
    pem: bytes, signer: str = KUBELET_CLIENT, usages: tuple[str, ...] = USAGES, seconds: int | None = None
) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(
        request=pem,
        signer_name=signer,
        usages=usages,
        expiration_seconds=seconds,
        username="forged",
        groups=("forged",),
    )
    return CertificateSigningRequest(metadata=ObjectMeta(name="csr"), spec=spec)


@contextlib.asynccontextmanager
async def controllers(api: Guarded) -> AsyncIterator[None]:
    """The three controllers with the rights of their service account."""
    authority = Authority.make(api.clock.now())

    def sign(pem: bytes, usages: Collection[str], seconds: float) -> bytes:
        return sign_request(authority, pem, usages, seconds, api.clock.now())

    def client_of(account: str) -> Client:
        return api.of(f"system:serviceaccount:kube-system:{account}")

    names = [f"certificatesigningrequest-{what}-controller" for what in ("approving", "signing", "cleaner")]
    manager = ControllerManager(
        api.of("system:kube-controller-manager"),
        clock=api.clock,
        random=random.Random(1),
        gates=FeatureGates.for_release(),
        controllers=names,
        client_of=client_of,
        signer=sign,
    )
    running = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def join(api: Guarded, pem: bytes, **more: object) -> CertificateSigningRequest:
    """What has become of a bootstrapper's request after a while."""
    await api.bind("system:node-bootstrapper", user(BOOTSTRAPPER))
    await api.bind("system:certificates.k8s.io:certificatesigningrequests:nodeclient", user(BOOTSTRAPPER))
    async with controllers(api):
        await api.of(BOOTSTRAPPER).resource(CERTIFICATESIGNINGREQUESTS).create(request(pem, **more))  # type: ignore[arg-type]
        await api.clock.sleep(2)
        return await api.admin.resource(CERTIFICATESIGNINGREQUESTS).get("csr")


def test_a_bootstrapping_kubelet_gets_its_client_certificate() -> None:
    async def body(api: Guarded) -> None:
        done = await join(api, asked("system:node:n1"), seconds=3600)
        assert (done.spec.username, "forged" in done.spec.groups) == (BOOTSTRAPPER, False)
        assert [(c.type, c.reason) for c in done.status.conditions] == [("Approved", "AutoApproved")]
        assert done.status.conditions[0].last_update_time is not None
        certificate = x509.load_pem_x509_certificate(done.status.certificate)
        found = certificate_user(certificate.public_bytes(serialization.Encoding.DER))
        assert (found.name, found.groups) == ("system:node:n1", ("system:nodes",))
        life = certificate.not_valid_after_utc.timestamp() - api.clock.now()
        assert 3500 < life <= 3600

    guarded(body)


@pytest.mark.parametrize("pem", [asked("admin", group="system:masters"), asked("system:node:n1", host="n1")])
def test_other_subjects_are_not_approved(pem: bytes) -> None:
    async def body(api: Guarded) -> None:
        done = await join(api, pem)
        assert (done.status.conditions, done.status.certificate) == ((), b"")

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


def test_a_request_is_deleted_an_hour_after_its_decision() -> None:
    async def body(api: Guarded) -> None:
        await join(api, asked("system:node:n1"))
        async with controllers(api):
            await api.clock.sleep(2 * 3600 + 60)
        assert (await api.admin.resource(CERTIFICATESIGNINGREQUESTS).list()).items == ()

    guarded(body)


def test_to_approve_takes_the_right_to_approve_for_that_signer() -> None:
    async def body(api: Guarded) -> None:
        made = await api.admin.resource(CERTIFICATESIGNINGREQUESTS).create(request(asked("system:node:n1")))
        approved = replace(made, status=replace(made.status, conditions=(APPROVED,)))
        doors = "certificatesigningrequests/approval certificatesigningrequests/status"
        await api.role("doors", rule("update", doors, "certificates.k8s.io"))
        await api.bind("doors", user("alice"))
        alice = api.of("alice").resource(CERTIFICATESIGNINGREQUESTS)
        assert "user not permitted to approve requests with signerName" in await refused(
            alice.update(approved, subresource="approval")
        )
        issued = replace(made, status=replace(made.status, certificate=b"forged"))
        assert "user not permitted to sign requests" in await refused(alice.update(issued, subresource="status"))
        kept = await api.admin.resource(CERTIFICATESIGNINGREQUESTS).update(approved, subresource="status")
        assert kept.status.conditions == (), "approving has a sub-resource of its own"

    guarded(body)


def test_a_client_certificate_of_masters_is_never_asked_for() -> None:
    async def body(api: Guarded) -> None:
        wanted = request(asked("me", group="system:masters"), signer="kubernetes.io/kube-apiserver-client")
        message = await refused(api.admin.resource(CERTIFICATESIGNINGREQUESTS).create(wanted))
        assert "signer with system:masters group is not allowed" in message

    guarded(body)
