"""Authentication of requests: by client certificate or bearer token, else anonymous (docs/spec/apimachinery.md §14)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, Protocol

from cathedra.api.boundedcache import BoundedCache
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupResource
from cathedra.api.status import unauthorized
from cathedra.apiserver.authentication.signing import TOKEN_LIMIT
from cathedra.apiserver.authentication.user import ANONYMOUS, AUTHENTICATED_GROUP, UserInfo
from cathedra.apiserver.registry.registry import Registry
from cathedra.asgi.application import RequestHeaders
from cathedra.clock import Clock
from cathedra.semantics.bootstraptokens import AUTHENTICATION, NAMESPACE, token_of

_AUTHORIZATION: Final = b"authorization"
_CERTIFICATES_KEPT: Final = 8192
_CERTIFICATE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of client certificates that are kept with their users: nodes renew theirs, and use them with each request."""
_CLUSTER_INFO: Final = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
PUBLIC_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/", _CLUSTER_INFO})
"""Paths that may be open without credentials: those of the role `system:public-info-viewer`, and the one that a node
reads first when it joins, if a role allows it."""


class KnownTokens(Protocol):
    """Knows some bearer tokens."""

    def user_of(self, token: str) -> UserInfo | None:
        """Return the user of a token, or None if the token is unknown here."""


class StaticTokens:
    """Tokens that were issued when the server started."""

    def __init__(self, tokens: Mapping[str, UserInfo]) -> None:
        self._tokens = dict(tokens)

    def add(self, tokens: Mapping[str, UserInfo]) -> None:
        """Add tokens to those that are accepted."""
        self._tokens |= tokens

    def user_of(self, token: str) -> UserInfo | None:
        """Return the user of a token, or None if the token is unknown."""
        return self._tokens.get(token)


class Authenticator:
    """Finds the user of a request."""

    def __init__(self, token_sources: tuple[KnownTokens, ...] = (), *, anonymous: frozenset[str] | None = None) -> None:
        """``anonymous`` are the paths that are open without credentials; None: all."""
        self._token_sources = token_sources
        self._anonymous = anonymous
        self._certificates: BoundedCache[bytes, UserInfo] = BoundedCache(
            _CERTIFICATES_KEPT, most_bytes=_CERTIFICATE_BYTES
        )
        """The users of certificates that TLS has verified."""

    def authenticate(
        self, headers: RequestHeaders, certificate: bytes | None = None, *, path: str = "", ended: bool = False
    ) -> UserInfo:
        """Return the user of a request, by its headers or its connection's client certificate (DER).

        ``ended``: the certificate was valid when the connection began, and has expired since.

        Raises:
            StatusError: 401, the credentials are no good, or there are none and the path is not open without.
        """
        token = _bearer_token(headers) if _AUTHORIZATION in headers.texts else ""
        if token:
            return self._token_user(token)
        if certificate is not None:
            if ended:
                raise unauthorized()
            return self._certificates.get(certificate) or self._certificate_user(certificate)
        if self._anonymous is not None and path not in self._anonymous:
            raise unauthorized()
        return ANONYMOUS

    def _token_user(self, token: str) -> UserInfo:
        for source in self._token_sources:
            user = source.user_of(token)
            if user is not None:
                return authenticated(user)
        raise unauthorized()

    def _certificate_user(self, certificate: bytes) -> UserInfo:
        user = authenticated(certificate_user(certificate))
        return self._certificates.keep(certificate, user, len(certificate))


def _bearer_token(headers: RequestHeaders) -> str:
    """Return the first bearer token in the headers; "" if there is none.

    Raises:
        StatusError: 401, it is longer than any token.
    """
    for key, value in headers:
        if key == _AUTHORIZATION:
            scheme, _, token = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer" and len(token) > TOKEN_LIMIT:
                raise unauthorized()
            if scheme.lower() == "bearer" and token:
                return token.strip()
    return ""


def authenticated(user: UserInfo) -> UserInfo:
    """Return the user as a member of ``system:authenticated``."""
    if AUTHENTICATED_GROUP in user.groups:
        return user
    return UserInfo(user.name, (*user.groups, AUTHENTICATED_GROUP), user.uid, user.extra)


def as_json(user: UserInfo) -> JSONObject:
    """Return a user in the form of reviews."""
    shown: JSONObject = {"username": user.name}
    if user.uid:
        shown["uid"] = user.uid
    if user.groups:
        shown["groups"] = list(user.groups)
    if user.extra:
        shown["extra"] = {key: list(values) for key, values in user.extra.items()}
    return shown


CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"


def certificate_user(certificate: bytes) -> UserInfo:
    """Return the user that a verified client certificate (DER) names: CN is the name, each O a group."""
    # Start-up time: the cryptography library is loaded with the first certificate that is shown.
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_der_x509_certificate(certificate).subject
    names = [str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = tuple(str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))
    fingerprint = hashlib.sha256(certificate).hexdigest()
    return UserInfo(names[0] if names else "", groups, "", {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)})


_SECRETS: Final = GroupResource("", "secrets")
_LENGTH: Final = 23


class BootstrapTokens:
    """Knows the tokens of secrets of type ``bootstrap.kubernetes.io/token``."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    def user_of(self, token: str) -> UserInfo | None:
        """Return the user of a token, or None if the token is unknown or has expired."""
        token_id, dot, key = token.partition(".")
        if not dot or len(token) != _LENGTH or len(token_id) != 6 or not token.isascii():
            return None
        try:
            secret = self._registry.find(_SECRETS, f"{NAMESPACE}/bootstrap-token-{token_id}")
        except KeyError:
            return None  # no secrets are served
        found = token_of(secret, AUTHENTICATION, self._clock.now()) if secret is not None else None
        if found is None or not hmac.compare_digest(found.secret, key):
            return None
        return UserInfo(found.user, found.groups)
