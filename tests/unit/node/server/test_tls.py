"""The files of the node's server."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cathedra.certificates.authority import Authority
from cathedra.node.config import NodeConfig
from cathedra.node.server.tls import UnprotectedServer, node_tls

NOW = 1_700_000_000.0


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with an authority, a key pair of its making, a key of another, and junk."""
    authority = Authority.make(NOW)
    pair, other = authority.server(("n1",), NOW), authority.server(("n2",), NOW)
    for name, content in {
        "ca.crt": authority.pair.certificate,
        "n1.crt": pair.certificate,
        "n1.key": pair.key,
        "n2.key": other.key,
        "junk": b"junk",
    }.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def config(files: Path, **given: str) -> NodeConfig:
    return NodeConfig(name="n1", root=files / "root", **{name: files / file for name, file in given.items()})


def test_a_certificate_is_made_once(files: Path) -> None:
    settings = config(files, client_authority="ca.crt")
    made = node_tls(settings, files / "root", NOW)
    before = made.certificate.read_bytes()
    assert node_tls(settings, files / "root", NOW + 1) == made
    assert made.certificate.read_bytes() == before
    assert stat.S_IMODE(made.key.stat().st_mode) == 0o600


def test_given_files_are_used_as_they_are(files: Path) -> None:
    found = node_tls(config(files, client_authority="ca.crt", certificate="n1.crt", key="n1.key"), files / "root", NOW)
    assert (found.certificate, found.key, found.client_authority) == (
        files / "n1.crt",
        files / "n1.key",
        files / "ca.crt",
    )
    assert not (files / "root").exists()


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({}, "--client-ca-file"),
        ({"client_authority": "junk"}, "--client-ca-file"),
        ({"client_authority": "missing"}, "--client-ca-file"),
        ({"client_authority": "ca.crt", "certificate": "n1.crt"}, "--tls-private-key-file"),
        ({"client_authority": "ca.crt", "key": "n1.key"}, "--tls-cert-file"),
        ({"client_authority": "ca.crt", "certificate": "n1.crt", "key": "n2.key"}, "--tls-cert-file"),
        ({"client_authority": "ca.crt", "certificate": "junk", "key": "n1.key"}, "--tls-cert-file"),
    ],
)
def test_what_is_missing_or_no_good_is_named(files: Path, given: dict[str, str], option: str) -> None:
    with pytest.raises(UnprotectedServer) as caught:
        node_tls(config(files, **given), files / "root", NOW)
    assert caught.value.option == option
    assert option in str(caught.value)
