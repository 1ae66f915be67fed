"""The files with which a node joins."""

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
from cathedra.cluster.identity.enrolment import enrol


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory on which an API server has been started."""
    made = tmp_path / "data"
    made.mkdir()
    pki = PKI(made / "pki", SystemClock().now())
    pki.tls_files(("127.0.0.1",))
    target = kubeconfig.Target("https://127.0.0.1:6443", certificate_authority=pki.authority_certificate)
    kubeconfig.write(made / "kubeconfig", target)
    return made


def test_a_node_gets_its_user_its_certificate_and_its_callers_authority(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    enrol(data, "n1", ["10.0.0.7"], folder, clock=SystemClock())
    target = kubeconfig.load(folder / "kubeconfig")
    assert target.server == "https://127.0.0.1:6443"
    user = x509.load_pem_x509_certificate(target.client_certificate)
    assert user.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:n1"
    authority = x509.load_pem_x509_certificate(target.certificate_authority)
    serving = x509.load_pem_x509_certificate((folder / "kubelet.crt").read_bytes())
    serving.verify_directly_issued_by(authority)
    callers = x509.load_pem_x509_certificate((folder / "client-ca.crt").read_bytes())
    assert callers.subject != authority.subject


def test_keys_are_for_their_owner_alone_and_authorities_keys_stay(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    enrol(data, "n1", ["10.0.0.7"], folder, clock=SystemClock())
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
    data: Path, tmp_path: Path, node: str, address: str
) -> None:
    with pytest.raises(InvalidOption):
        enrol(data, node, [address], tmp_path / "files", clock=SystemClock())
    assert not (tmp_path / "files").exists()


def test_before_the_first_start_there_is_nothing_to_join(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="start cathedra apiserver"):
        enrol(tmp_path, "n1", ["10.0.0.7"], tmp_path / "files", clock=SystemClock())
    assert not (tmp_path / "files").exists()
