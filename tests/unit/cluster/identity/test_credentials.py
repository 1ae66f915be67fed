"""A kubeconfig for each part."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from cathedra.apiserver.authentication.pki import PKI
from cathedra.client import kubeconfig
from cathedra.clock import SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.identity.credentials import Part, parse_part, part_target


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    """A data directory on which an API server has been started; it does not run."""
    pki = PKI(tmp_path / "pki", SystemClock().now())
    pki.tls_files(("127.0.0.1",))
    administrator = pki.administrator()
    target = kubeconfig.Target(
        "https://127.0.0.1:1",
        certificate_authority=pki.authority_certificate,
        client_certificate=administrator.certificate,
        client_key=administrator.key,
    )
    kubeconfig.write(tmp_path / "kubeconfig", target)
    return DataDir(tmp_path)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("admin", Part("admin")),
        ("scheduler", Part("scheduler")),
        ("node:n1.example.com", Part("node", "n1.example.com", "n1.example.com")),
        ("driver:gpu.example.com@n1", Part("driver", "gpu.example.com", "n1")),
    ],
)
def test_parts_have_names(text: str, part: Part) -> None:
    assert parse_part(text) == part


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kubelet", "must be admin, scheduler, controller-manager, node:NAME or driver:NAME@NODE"),
        ("admin:x", "is no part"),
        ("node:", "a lowercase RFC 1123 subdomain"),
        ("driver:gpu.example.com", "say on which node"),
        ("driver:gpu.example.com@", "a lowercase RFC 1123 subdomain"),
    ],
)
def test_other_names_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        parse_part(text)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("text", "user", "groups"),
    [
        ("scheduler", "system:kube-scheduler", []),
        ("controller-manager", "system:kube-controller-manager", []),
        ("node:n1", "system:node:n1", ["system:nodes"]),
        ("admin", "kubernetes-admin", ["system:masters"]),
    ],
)
async def test_every_part_is_a_user_of_its_own(data: DataDir, text: str, user: str, groups: list[str]) -> None:
    target = await part_target(data, parse_part(text), server="https://api:6443", clock=SystemClock())
    assert target.server == "https://api:6443"
    subject = x509.load_pem_x509_certificate(target.client_certificate).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [user]
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == groups
    assert kubeconfig.encoded(target).startswith(b"apiVersion: v1\nkind: Config\n")


async def test_a_drivers_token_needs_the_api_server(data: DataDir) -> None:
    with pytest.raises(InvalidOption, match="needs the API server"):
        await part_target(data, parse_part("driver:d.example.com@n1"), clock=SystemClock())


async def test_without_a_cluster_there_are_no_credentials(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="has no certificates yet"):
        await part_target(DataDir(tmp_path), Part("admin"), clock=SystemClock())
