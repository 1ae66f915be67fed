"""A kubeconfig for each part."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from cathedra.apiserver.authentication.pki import PKI
from cathedra.client import kubeconfig
from cathedra.clock import SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.identity.credentials import Part, enrol, parse_part, part_target


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
    servers = ("https://api:6443", "https://other:6443/")
    target = await part_target(data, parse_part(text), servers=servers, clock=SystemClock())
    assert target.servers == ("https://api:6443", "https://other:6443")
    subject = x509.load_pem_x509_certificate(target.client_certificate).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [user]
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == groups
    assert kubeconfig.encoded(target).startswith(b"apiVersion: v1\nkind: Config\n")


async def test_a_drivers_token_needs_the_api_server(data: DataDir) -> None:
    with pytest.raises(InvalidOption, match="needs the API server"):
        await part_target(data, parse_part("driver:d.example.com@n1"), clock=SystemClock())


async def test_a_server_that_is_no_url_is_refused(data: DataDir) -> None:
    with pytest.raises(InvalidOption, match=r"--server '10\.0\.0\.1' is no URL"):
        await part_target(data, Part("scheduler"), servers=("https://api:6443", "10.0.0.1"), clock=SystemClock())


async def test_without_a_cluster_there_are_no_credentials(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="has no certificates yet"):
        await part_target(DataDir(tmp_path), Part("admin"), clock=SystemClock())


@pytest.fixture
def cluster_data(tmp_path: Path) -> Path:
    """A data directory on which an API server has been started."""
    made = tmp_path / "data"
    made.mkdir()
    pki = PKI(made / "pki", SystemClock().now())
    pki.tls_files(("127.0.0.1",))
    target = kubeconfig.Target("https://127.0.0.1:6443", certificate_authority=pki.authority_certificate)
    kubeconfig.write(made / "kubeconfig", target)
    return made


def test_a_node_gets_its_user_its_certificate_and_its_callers_authority(cluster_data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    enrol(cluster_data, "n1", ["10.0.0.7"], folder, clock=SystemClock())
    target = kubeconfig.load(folder / "kubeconfig")
    assert target.server == "https://127.0.0.1:6443"
    enrol(cluster_data, "n1", ["10.0.0.7"], folder, servers=("https://10.0.0.100:443",), clock=SystemClock())
    assert kubeconfig.load(folder / "kubeconfig").server == "https://10.0.0.100:443"
    user = x509.load_pem_x509_certificate(target.client_certificate)
    assert user.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:n1"
    authority = x509.load_pem_x509_certificate(target.certificate_authority)
    serving = x509.load_pem_x509_certificate((folder / "kubelet.crt").read_bytes())
    serving.verify_directly_issued_by(authority)
    callers = x509.load_pem_x509_certificate((folder / "client-ca.crt").read_bytes())
    assert callers.subject != authority.subject


def test_keys_are_for_their_owner_alone_and_authorities_keys_stay(cluster_data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    enrol(cluster_data, "n1", ["10.0.0.7"], folder, clock=SystemClock())
    assert sorted(path.name for path in folder.iterdir()) == [
        "client-ca.crt",
        "kubeconfig",
        "kubelet.crt",
        "kubelet.key",
    ]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in ("kubeconfig", "kubelet.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


@pytest.mark.parametrize(("node", "address"), [("../n", "10.0.0.7"), ("N", "10.0.0.7"), ("n1", "here"), ("n1", "")])
def test_names_and_addresses_are_checked_before_anything_is_written(
    cluster_data: Path, tmp_path: Path, node: str, address: str
) -> None:
    with pytest.raises(InvalidOption):
        enrol(cluster_data, node, [address], tmp_path / "files", clock=SystemClock())
    assert not (tmp_path / "files").exists()


def test_before_the_first_start_there_is_nothing_to_join(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="start cathedra apiserver"):
        enrol(tmp_path, "n1", ["10.0.0.7"], tmp_path / "files", clock=SystemClock())
    assert not (tmp_path / "files").exists()
