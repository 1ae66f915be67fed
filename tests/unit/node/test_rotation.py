"""A node's certificates, renewed before they end."""

from __future__ import annotations

import random
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from cathedra.api.core.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from cathedra.api.struct import replace
from cathedra.certificates import KeyPair
from cathedra.certificates.authority import Authority
from cathedra.certificates.requests import make_request, sign_request, validity
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from cathedra.cluster.identity.permissions import install_kubelet_permissions
from cathedra.node.rotation import EARLIEST, LATEST, CertificateRotation, RotatedCertificate, newest_pair
from tests.running import beside, run_with
from tests.unit.apiserver.guarded import Guarded, guarded
from tests.unit.controllers.certificates.requests import controllers

DAY = 86400.0


def short(now: float, days: float = 1.0) -> KeyPair:
    """A certificate of the node that holds for so long."""
    request, key = make_request("system:node:n1", ("system:nodes",), ())
    return KeyPair(sign_request(Authority.make(now), request, ("client auth",), days * DAY, now), key)


def rotation(api: Guarded, which: RotatedCertificate, shown: list[Path]) -> CertificateRotation:
    current = short(api.clock.now()).certificate
    return CertificateRotation(
        api.node("n1"), which, current, clock=api.clock, random=random.Random(1), show=shown.append
    )


async def open_request(api: Guarded) -> CertificateSigningRequest:
    found = (await api.admin.resource(CERTIFICATESIGNINGREQUESTS).list()).items
    return next(one for one in found if not one.status.conditions)


async def judge(api: Guarded, found: CertificateSigningRequest, verdict: str) -> None:
    condition = CertificateSigningRequestCondition(type=verdict, status="True", reason="ByHand", message="by hand")
    status = replace(found.status, conditions=(condition,))
    requests = api.admin.resource(CERTIFICATESIGNINGREQUESTS)
    await requests.update(replace(found, status=status), subresource="approval")


@run_with(guarded)
async def test_a_nodes_client_certificate_is_renewed_in_the_last_third_of_its_life(
    api: Guarded, *, tmp_path: Path
) -> None:
    await install_kubelet_permissions(api.admin)
    which, shown = RotatedCertificate.of_client("n1", tmp_path), list[Path]()
    async with controllers(api), beside(rotation(api, which, shown).run()):
        await api.clock.sleep(EARLIEST * DAY - 600)
        assert shown == []
        await api.clock.sleep((LATEST - EARLIEST) * DAY + 600)
        assert shown == [which.file]
    kept = which.file.read_bytes()
    certificate = x509.load_pem_x509_certificate(kept)
    assert [a.value for a in certificate.subject] == ["system:nodes", "system:node:n1"]
    assert validity(kept)[1] > api.clock.now() + 300 * DAY
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(which.file)
    assert which.file.stat().st_mode & 0o777 == 0o600


@run_with(guarded)
async def test_a_serving_certificate_waits_for_its_approval(api: Guarded, *, tmp_path: Path) -> None:
    which, shown = RotatedCertificate.of_server("n1", "10.0.0.7", tmp_path), list[Path]()
    async with controllers(api), beside(rotation(api, which, shown).run()):
        await api.clock.sleep(LATEST * DAY)
        found = await open_request(api)
        assert (found.spec.signer_name, shown) == ("kubernetes.io/kubelet-serving", [])
        await judge(api, found, "Approved")
        await api.clock.sleep(5)
        assert shown == [which.file]
    names = x509.load_pem_x509_certificate(which.file.read_bytes()).extensions
    hosts = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert hosts.get_values_for_type(x509.DNSName) == ["n1"]
    assert [str(ip) for ip in hosts.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]


@run_with(guarded)
async def test_a_request_that_is_denied_or_deleted_is_followed_by_another_one_later(
    api: Guarded, *, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    which, shown = RotatedCertificate.of_server("n1", "10.0.0.7", tmp_path), list[Path]()
    async with beside(rotation(api, which, shown).run()):
        await api.clock.sleep(LATEST * DAY)
        denied = await open_request(api)
        await judge(api, denied, "Denied")
        await api.clock.sleep(3600)
        following = await open_request(api)
        assert following.metadata.name != denied.metadata.name
        await api.admin.resource(CERTIFICATESIGNINGREQUESTS).delete(following.metadata.name)
        await api.clock.sleep(3600)
        assert (await open_request(api)).metadata.name != following.metadata.name
        assert f"request {denied.metadata.name} is Denied: by hand" in caplog.text
        assert not which.file.exists()


def test_what_was_renewed_is_used_where_it_holds_longer(tmp_path: Path) -> None:
    now = 1_700_000_000.0
    given, kept, file = short(now), short(now, days=30), tmp_path / "pair.pem"
    assert newest_pair(file, given.certificate, now) is None
    file.write_bytes(kept.certificate + kept.key)
    assert newest_pair(file, given.certificate, now) == kept.certificate + kept.key
    assert newest_pair(file, b"", now) is not None
    assert newest_pair(file, short(now, days=300).certificate, now) is None
    assert newest_pair(file, given.certificate, now + 31 * DAY) is None
    file.write_text("nothing")
    assert newest_pair(file, given.certificate, now) is None
