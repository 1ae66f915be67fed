"""The files of the node's server."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cathedra.node.config import NodeConfig
from cathedra.node.server.tls import UnprotectedServer, node_tls

NOW = 1_700_000_000.0


def config(root: Path, **files: str) -> NodeConfig:
    return NodeConfig(name="n1", root=root, **{name: root / file for name, file in files.items()})


def test_a_certificate_is_made_once(tmp_path: Path) -> None:
    settings = config(tmp_path, client_authority="ca.crt")
    files = node_tls(settings, tmp_path, NOW)
    before = files.certificate.read_bytes()
    assert node_tls(settings, tmp_path, NOW + 1) == files
    assert files.certificate.read_bytes() == before
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600


def test_given_files_are_used_as_they_are(tmp_path: Path) -> None:
    files = node_tls(config(tmp_path, client_authority="ca.crt", certificate="a", key="b"), tmp_path, NOW)
    assert (files.certificate, files.key) == (tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "pki").exists()


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({}, "--client-ca-file"),
        ({"client_authority": "ca.crt", "certificate": "a"}, "--tls-private-key-file"),
        ({"client_authority": "ca.crt", "key": "b"}, "--tls-cert-file"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, given: dict[str, str], option: str) -> None:
    with pytest.raises(UnprotectedServer) as caught:
        node_tls(config(tmp_path, **given), tmp_path, NOW)
    assert caught.value.option == option
