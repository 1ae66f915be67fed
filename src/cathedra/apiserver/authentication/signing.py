"""The key that signs service account tokens, and JSON Web Tokens made with it (RFC 7515, 7517, 7519).

An elliptic-curve key (P-256, ``ES256``), made in a millisecond when the first token is asked for. The cryptography
library is imported only then.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra.files.atomic import write_durable
from cathedra.files.private import private_directory, private_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["ALGORITHM", "BadSigningKey", "BadToken", "SigningKey"]

ALGORITHM: Final = "ES256"
_HALF: Final = 32
"""Bytes of each of the two numbers of a signature."""


class BadToken(ValueError):
    """A token is malformed, or was not signed with this key."""


class BadSigningKey(ValueError):
    """The file of the key that signs service account tokens holds none."""

    def __init__(self, file: Path, reason: str) -> None:
        self.file = file
        super().__init__(
            f"{file} is {reason}: restore it from a backup, or remove it to have a new one made (tokens that the old "
            "one signed are refused then)"
        )


class SigningKey:
    """The issuer's key: in a file, so that tokens outlive the server, or in memory."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._key: ec.EllipticCurvePrivateKey | None = None
        self._id = ""

    def keep_in(self, file: Path) -> None:
        """Use the key of that file from now on; it is made with the first token if it is not there.

        Raises:
            BadSigningKey: the file is there and holds no key that can sign.
            OSError: it cannot be read.
        """
        self._file, self._key, self._id = file, None, ""
        if private_file(file).exists():
            self._key = _read(file)

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A token with these claims."""
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        header = {"alg": ALGORITHM, "kid": self.id}
        signed = f"{_encoded(msgspec.json.encode(header))}.{_encoded(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self.private.sign(signed.encode(), _digest()))
        return f"{signed}.{_encoded(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def verified(self, token: str) -> dict[str, Any]:
        """The claims of a token that this key signed.

        Raises:
            BadToken: it is malformed, or somebody else signed it.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

        try:
            head, body, signature = token.split(".")
            header: Any = msgspec.json.decode(_decoded(head))
            raw = _decoded(signature)
            if header.get("alg") != ALGORITHM or header.get("kid") != self.id or len(raw) != 2 * _HALF:
                raise BadToken("signed with another key")
            numbers = encode_dss_signature(int.from_bytes(raw[:_HALF], "big"), int.from_bytes(raw[_HALF:], "big"))
            self.private.public_key().verify(numbers, f"{head}.{body}".encode(), _digest())
            claims: Any = msgspec.json.decode(_decoded(body))
        except (ValueError, AttributeError, binascii.Error, msgspec.DecodeError, InvalidSignature) as error:
            raise BadToken(f"not a token of this issuer: {error}") from None
        if not isinstance(claims, dict):
            raise BadToken("claims are no object")
        return claims

    @property
    def id(self) -> str:
        """What tokens and verifiers call the key: the digest of its public half."""
        if not self._id:
            self._id = _encoded(hashlib.sha256(self._public_bytes()).digest())
        return self._id

    def jwk(self) -> dict[str, str]:
        """The public half as a JSON Web Key."""
        numbers = self.private.public_key().public_numbers()
        return {
            "use": "sig",
            "kty": "EC",
            "kid": self.id,
            "crv": "P-256",
            "alg": ALGORITHM,
            "x": _encoded(numbers.x.to_bytes(_HALF, "big")),
            "y": _encoded(numbers.y.to_bytes(_HALF, "big")),
        }

    @property
    def private(self) -> ec.EllipticCurvePrivateKey:
        """The key; made or read when first used."""
        if self._key is None:
            self._key = _read(self._file) if self._file is not None and self._file.exists() else self._made()
        return self._key

    def _made(self) -> ec.EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        if self._file is not None:
            pem = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            private_directory(self._file.parent)
            write_durable(self._file, pem)
        return key

    def _public_bytes(self) -> bytes:
        from cryptography.hazmat.primitives import serialization

        return self.private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )


def _read(file: Path) -> ec.EllipticCurvePrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadSigningKey(file, "no private key in PEM without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise BadSigningKey(file, "no elliptic-curve key (P-256)")
    return key


def _digest() -> ec.ECDSA:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.ECDSA(hashes.SHA256())


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
