"""The cluster's keys on disk."""

from __future__ import annotations

import stat
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from cathedra.apiserver.authentication.pki import KUBELET_CLIENT, PKI

NOW = 1_700_000_000.0


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_what_nodes_are_shown_is_of_another_authority_and_in_no_group(tmp_path: Path) -> None:
    shown = PKI(tmp_path / "pki", NOW).kubelet_client()
    subject = certificate(shown.certificate).subject
    assert [(a.oid, a.value) for a in subject] == [(NameOID.COMMON_NAME, KUBELET_CLIENT)]
    assert certificate(shown.certificate).issuer != certificate(shown.authority).subject
    certificate(shown.certificate).verify_directly_issued_by(certificate(tmp_path / "pki" / "kubelet-client-ca.crt"))


def test_a_nodes_certificate_is_the_clusters_and_its_callers_authority_is_not(tmp_path: Path) -> None:
    pki = PKI(tmp_path / "pki", NOW)
    files = pki.node("n1", ("127.0.0.1",))
    serving = certificate(files.certificate)
    serving.verify_directly_issued_by(certificate(tmp_path / "pki" / "ca.crt"))
    assert [a.value for a in serving.subject] == ["system:nodes", "system:node:n1"]
    assert files.client_authority == tmp_path / "pki" / "kubelet-client-ca.crt"


def test_everything_is_made_once_and_keys_are_private(tmp_path: Path) -> None:
    before = {p: p.read_bytes() for p in _made(tmp_path)}
    after = {p: p.read_bytes() for p in _made(tmp_path)}
    assert before == after
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in before if path.suffix == ".key")


def _made(folder: Path) -> list[Path]:
    pki = PKI(folder / "pki", NOW)
    pki.tls_files(("127.0.0.1",))
    pki.node("n1", ("127.0.0.1",))
    pki.administrator()
    return [path for path in (folder / "pki").rglob("*") if path.is_file()]
