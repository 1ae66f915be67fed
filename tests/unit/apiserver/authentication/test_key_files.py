"""Keys on disk: what is damaged is refused by name when the server starts, and what others could read is closed."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from cathedra.apiserver.authentication.pki import PKI, BadKeyPair
from cathedra.apiserver.authentication.signing import BadSigningKey, SigningKey

NOW = 1_767_225_600.0
HOSTS = ("127.0.0.1",)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes = b"") -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


GARBAGE: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "no PEM": lambda: b"garbage",
    "cut": lambda: pem(ec.generate_private_key(ec.SECP256R1()))[:80],
    "not UTF-8": lambda: b"\xff\x00" * 40,
    "encrypted": lambda: pem(ec.generate_private_key(ec.SECP256R1()), b"secret"),
}


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "apiserver.crt", "apiserver.key"])
@pytest.mark.parametrize("make", GARBAGE.values(), ids=GARBAGE)
def test_a_damaged_certificate_or_key_is_refused_by_name(tmp_path: Path, name: str, make: Callable[[], bytes]) -> None:
    PKI(tmp_path, NOW).tls_files(HOSTS)
    (tmp_path / name).write_bytes(make())
    with pytest.raises(BadKeyPair, match=rf"{Path(name).stem}\.crt and .* remove both to have new ones made"):
        PKI(tmp_path, NOW).tls_files(HOSTS)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    PKI(tmp_path, NOW).tls_files(HOSTS)
    (tmp_path / "ca.key").write_bytes(pem(ec.generate_private_key(ec.SECP256R1())))
    with pytest.raises(BadKeyPair):
        PKI(tmp_path, NOW).tls_files(HOSTS)


@pytest.mark.parametrize(
    "make",
    [
        *GARBAGE.values(),
        lambda: pem(rsa.generate_private_key(65537, 2048)),
        lambda: pem(ec.generate_private_key(ec.SECP384R1())),
    ],
    ids=[*GARBAGE, "RSA", "another curve"],
)
def test_a_damaged_signing_key_is_refused_at_once_and_not_replaced(tmp_path: Path, make: Callable[[], bytes]) -> None:
    file = tmp_path / "sa.key"
    file.write_bytes(content := make())
    with pytest.raises(BadSigningKey, match=r"sa\.key is no .*remove it to have a new one made"):
        SigningKey().keep_in(file)
    assert file.read_bytes() == content


def test_a_signing_key_outlives_the_server(tmp_path: Path) -> None:
    first = SigningKey()
    first.keep_in(tmp_path / "sa.key")
    token = first.sign({"sub": "a"})
    second = SigningKey()
    assert (tmp_path / "sa.key").exists(), "made at once, so that it can be given to others"
    second.keep_in(tmp_path / "sa.key")
    assert second.verified(token) == {"sub": "a"}


def test_keys_that_others_could_read_are_closed(tmp_path: Path) -> None:
    PKI(tmp_path, NOW).tls_files(HOSTS)
    key = SigningKey()
    key.keep_in(tmp_path / "sa.key")
    key.sign({})
    for path in tmp_path.glob("*.key"):
        path.chmod(0o644)
    PKI(tmp_path, NOW).tls_files(HOSTS)
    SigningKey().keep_in(tmp_path / "sa.key")
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*.key")} == {0o600}
