"""Requests for certificates, and the controllers that deal with them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Collection

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
from cathedra.certificates.authority import Authority
from cathedra.certificates.requests import sign_request
from cathedra.client.client import Client
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions
from cathedra.releases import FeatureGates
from tests.running import beside
from tests.unit.apiserver.guarded import Guarded, user

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
        options=ControllerOptions(controllers=names, client_of=client_of, signer=sign),
    )
    async with beside(manager.run()):
        yield


async def joined(api: Guarded, pem: bytes, **more: object) -> CertificateSigningRequest:
    """Return a bootstrapper's request after a while."""
    await api.bind("system:node-bootstrapper", user(BOOTSTRAPPER))
    await api.bind("system:certificates.k8s.io:certificatesigningrequests:nodeclient", user(BOOTSTRAPPER))
    async with controllers(api):
        await api.of(BOOTSTRAPPER).resource(CERTIFICATESIGNINGREQUESTS).create(request(pem, **more))  # type: ignore[arg-type]
        await api.clock.sleep(2)
        return await api.admin.resource(CERTIFICATESIGNINGREQUESTS).get("csr")
