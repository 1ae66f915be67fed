"""The cluster's keys on disk."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from cathedra.apiserver.authentication.pki import KUBELET_CLIENT, PKI
from cathedra.certificates.authority import Authority

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


def test_the_servers_certificate_is_made_anew_for_a_name_that_it_lacks(tmp_path: Path) -> None:
    files = PKI(tmp_path, NOW).tls_files(("127.0.0.1", "localhost"))
    first, authority = files.certificate.read_bytes(), (tmp_path / "ca.crt").read_bytes()
    assert PKI(tmp_path, NOW).tls_files(("127.0.0.1",)).certificate.read_bytes() == first
    PKI(tmp_path, NOW).tls_files(("127.0.0.1", "api.example.com", "192.0.2.7"))
    names = certificate(files.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["api.example.com"]
    assert {str(address) for address in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "192.0.2.7"}
    assert (tmp_path / "ca.crt").read_bytes() == authority


def test_the_servers_certificate_is_made_anew_before_it_ends(tmp_path: Path) -> None:
    first = PKI(tmp_path, NOW).tls_files(("h",)).certificate.read_bytes()
    assert PKI(tmp_path, NOW + 9 * 365 * 86400).tls_files(("h",)).certificate.read_bytes() == first
    assert PKI(tmp_path, NOW + 3640 * 86400).tls_files(("h",)).certificate.read_bytes() != first


def test_a_certificate_of_another_authority_stays(tmp_path: Path) -> None:
    files = PKI(tmp_path, NOW).tls_files(("h",))
    other = Authority.make(NOW).server(("other",), NOW)
    files.certificate.write_bytes(other.certificate)
    files.key.write_bytes(other.key)
    PKI(tmp_path, NOW).tls_files(("h", "g"))
    assert files.certificate.read_bytes() == other.certificate


def test_a_note_that_says_nothing_is_written_again(tmp_path: Path) -> None:
    files = PKI(tmp_path, NOW).tls_files(("h",))
    first = files.certificate.read_bytes()
    for text in ("", "[]", '{"digest": 1}'):
        (tmp_path / "apiserver.json").write_text(text)
        assert PKI(tmp_path, NOW).tls_files(("h",)).certificate.read_bytes() == first
        assert json.loads((tmp_path / "apiserver.json").read_bytes())["hosts"] == ["h"]


def test_clients_of_another_authority_are_taken_beside_the_clusters(tmp_path: Path) -> None:
    (tmp_path / "other.crt").write_bytes(Authority.make(NOW, "other").pair.certificate)
    taken = PKI(tmp_path / "pki", NOW).tls_files(("h",), tmp_path / "other.crt").client_authority
    names = [c.subject.rfc4514_string() for c in x509.load_pem_x509_certificates(taken.read_bytes())]
    assert names == ["CN=cathedra-ca", "CN=other"]
