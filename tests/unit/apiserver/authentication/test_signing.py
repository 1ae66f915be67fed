"""The key that signs service account tokens, and the tokens made with it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from cathedra.apiserver.authentication import signing
from cathedra.apiserver.authentication.signing import (
    ALGORITHM,
    HEADER_LIMIT,
    TOKEN_LIMIT,
    BadSigningKey,
    BadToken,
    SigningKey,
)

CLAIMS = {"sub": "me", "exp": 1, "aud": ["you"]}


def part(token: str, number: int) -> dict[str, object]:
    text = token.split(".")[number]
    return dict(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))


def test_a_token_has_its_claims_and_names_its_key() -> None:
    key = SigningKey()
    token = key.sign(CLAIMS)
    assert part(token, 0) == {"alg": ALGORITHM, "kid": key.id}
    assert part(token, 1) == CLAIMS
    assert key.verified(token) == CLAIMS, "also when it has ended: times are judged elsewhere"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda token: token[:-4] + ("AAAA" if not token.endswith("AAAA") else "BBBB"),
        lambda token: token.rpartition(".")[0] + ".",
        lambda token: token.replace(".", ".A", 1),
        lambda token: "",
        lambda token: "nothing",
        lambda token: "a" * HEADER_LIMIT + token,
        lambda token: token + "a" * TOKEN_LIMIT,
    ],
)
def test_what_was_not_signed_is_no_token(spoil: Callable[[str], str]) -> None:
    key = SigningKey()
    with pytest.raises(BadToken):
        key.verified(spoil(key.sign(CLAIMS)))


def test_a_signature_is_checked_once() -> None:
    key = SigningKey()
    token = key.sign(CLAIMS)
    assert key.verified(token) is key.verified(token)


def test_no_more_tokens_are_known_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "_KNOWN", 2)
    key = SigningKey()
    tokens = [key.sign({"sub": str(number)}) for number in range(3)]
    first, *others = [key.verified(token) for token in tokens]
    assert [key.verified(token) is known for token, known in zip(tokens[1:], others, strict=True)] == [True, True]
    assert key.verified(tokens[0]) == first
    assert key.verified(tokens[0]) is not first


def test_long_tokens_are_not_kept() -> None:
    key = SigningKey()
    token = key.sign({"sub": "x" * 5000})
    assert key.verified(token) is not key.verified(token)


def test_a_token_of_another_key_is_refused_also_under_this_ones_name() -> None:
    import jwt

    key, other = SigningKey(), SigningKey()
    with pytest.raises(BadToken):
        key.verified(other.sign(CLAIMS))
    with pytest.raises(BadToken):
        key.verified(jwt.encode(CLAIMS, other.private, ALGORITHM, headers={"kid": key.id}))
    with pytest.raises(BadToken, match="signed with another key"):
        key.verified(jwt.encode(CLAIMS, key.private, ALGORITHM, headers={"kid": other.id}))


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_does_not_choose_its_algorithm(algorithm: str) -> None:
    import jwt

    key = SigningKey()
    secret = None if algorithm == "none" else b"x" * 32
    with pytest.raises(BadToken):
        key.verified(jwt.encode(CLAIMS, secret, algorithm, headers={"kid": key.id}))


def test_a_key_in_a_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "sa.key"
    first, second = SigningKey(), SigningKey()
    first.keep_in(file)
    token = first.sign(CLAIMS)
    assert file.stat().st_mode & 0o777 == 0o600
    second.keep_in(file)
    assert second.verified(token) == CLAIMS
    assert SigningKey(file).id == first.id


def test_a_key_may_be_exchanged_for_that_of_a_file(tmp_path: Path) -> None:
    key = SigningKey()
    former = key.sign(CLAIMS)
    assert key.verified(former) == CLAIMS
    key.keep_in(tmp_path / "sa.key")
    with pytest.raises(BadToken):
        key.verified(former)
    assert key.verified(key.sign(CLAIMS)) == CLAIMS


def pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, password: bytes = b"") -> bytes:
    lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no private key in PEM without a password"),
        (b"nothing", "no private key in PEM without a password"),
        (pem(ec.generate_private_key(ec.SECP256R1()), b"secret"), "no private key in PEM without a password"),
        (pem(ed25519.Ed25519PrivateKey.generate()), "no elliptic-curve key (P-256)"),
        (pem(ec.generate_private_key(ec.SECP384R1())), "no elliptic-curve key (P-256)"),
    ],
)
def test_a_file_without_a_fitting_key_is_said_to_be_so_and_left_alone(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "sa.key"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(BadSigningKey) as raised:
        SigningKey().keep_in(file)
    assert f"{file} is {reason}: restore it from a backup" in str(raised.value)
    assert file.read_bytes() == content


def test_verifiers_are_given_the_public_half() -> None:
    from jwt import PyJWK

    key = SigningKey()
    jwk = key.jwk()
    assert "d" not in jwk
    assert (jwk["kid"], jwk["crv"], len(jwk["x"]), len(jwk["y"])) == (key.id, "P-256", 43, 43)
    assert PyJWK(jwk).key.public_numbers() == key.private.public_key().public_numbers()
