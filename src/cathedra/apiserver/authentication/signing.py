"""The key that signs service account tokens, and JSON Web Tokens made with it (RFC 7515, 7517, 7519).

An elliptic-curve key (P-256, ``ES256``), made in a millisecond when the first token is issued. The cryptography
library is imported only then.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cathedra.files.atomic import write_durable
from cathedra.files.private import private_directory, private_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

ALGORITHM: Final = "ES256"
TOKEN_LIMIT: Final = 16 * 1024
"""Longest token that is checked, in characters; those of service accounts have about a thousand."""
HEADER_LIMIT: Final = 512
"""Letters of a token's header. It is decoded before its signature is known to be good, so it is short: no nesting fits
into it that a decoder could not follow."""
_KNOWN: Final = 1024
"""Valid tokens that are cached. A client sends the same one with each request for an hour, and to verify a signature
takes longer than the rest of most requests."""
_KNOWN_LENGTH: Final = 4 * 1024
"""Characters of a token up to which it is cached."""
_HALF: Final = 32
"""Bytes of each of the two numbers of a public key."""
_SIGNATURE_ONLY: Final[Any] = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}
"""Claims are checked in `serviceaccounts`, by the server's own clock."""


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
        self._verified: dict[str, Mapping[str, Any]] = {}
        """Claims of valid tokens; the oldest entry is removed first. Only the signature is cached, never the expiry."""

    def keep_in(self, file: Path) -> None:
        """Use the key of that file from now on; it is made if it is not there.

        A key that exists from the start can be given to other servers and to verifiers at once.

        Raises:
            BadSigningKey: the file is there and holds no key that can sign.
            OSError: it cannot be read.
        """
        self._file, self._key, self._id = file, None, ""
        self.__dict__.pop("_public", None)
        self._verified.clear()
        self._key = _read(file) if private_file(file).exists() else self._made()

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return a token with these claims."""
        import jwt  # with the first token: it loads the cryptography library

        return jwt.encode(dict(claims), self.private, ALGORITHM, headers={"kid": self.id, "typ": None})

    def verified(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token that this key signed. Its user and its expiry are not checked.

        Raises:
            BadToken: it is too long or malformed, or another key signed it.
        """
        claims = self._verified.get(token)
        if claims is None:
            claims = self._checked(token)
            if len(token) <= _KNOWN_LENGTH:
                if len(self._verified) >= _KNOWN:
                    del self._verified[next(iter(self._verified))]
                self._verified[token] = claims
        return claims

    def _checked(self, token: str) -> Mapping[str, Any]:
        if len(token) > TOKEN_LIMIT or token.find(".") not in range(1, HEADER_LIMIT):
            raise BadToken("too long for a token of this issuer")
        import jwt  # with the first token: it loads the cryptography library

        try:
            found = jwt.decode_complete(token, self._public, [ALGORITHM], options=_SIGNATURE_ONLY)
        except jwt.InvalidTokenError as error:
            raise BadToken(f"not a token of this issuer: {error}") from None
        if found["header"].get("kid") != self.id:
            raise BadToken("signed with another key")
        claims: Mapping[str, Any] = found["payload"]
        return claims

    @property
    def id(self) -> str:
        """The key ID in tokens and key sets: the digest of the public key."""
        if not self._id:
            self._id = _encoded(hashlib.sha256(self._public_bytes()).digest())
        return self._id

    def jwk(self) -> dict[str, str]:
        """Return the public key as a JSON Web Key."""
        numbers = self._public.public_numbers()
        return {
            "use": "sig",
            "kty": "EC",
            "kid": self.id,
            "crv": "P-256",
            "alg": ALGORITHM,
            "x": _encoded(numbers.x.to_bytes(_HALF, "big")),
            "y": _encoded(numbers.y.to_bytes(_HALF, "big")),
        }

    @cached_property
    def _public(self) -> ec.EllipticCurvePublicKey:
        return self.private.public_key()

    @property
    def private(self) -> ec.EllipticCurvePrivateKey:
        """The key; made or read when first used."""
        if self._key is None:
            self._key = _read(self._file) if self._file is not None and self._file.exists() else self._made()
        return self._key

    def _made(self) -> ec.EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives import serialization  # start-up time: with the first token
        from cryptography.hazmat.primitives.asymmetric import ec  # start-up time: with the first token

        key = ec.generate_private_key(ec.SECP256R1())
        if self._file is not None:
            pem = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            private_directory(self._file.parent)
            write_durable(self._file, pem)
        return key

    def _public_bytes(self) -> bytes:
        from cryptography.hazmat.primitives import serialization  # start-up time: with the first token

        return self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _read(file: Path) -> ec.EllipticCurvePrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm  # start-up time: with the first token
    from cryptography.hazmat.primitives.asymmetric import ec  # start-up time: with the first token
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadSigningKey(file, "no private key in PEM without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise BadSigningKey(file, "no elliptic-curve key (P-256)")
    return key


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
