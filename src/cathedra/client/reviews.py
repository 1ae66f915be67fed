"""Authentication and authorization of requests to servers that are not API servers, by reviews of the API server.

The user of a request is that of a client certificate, or of a bearer token that the API server knows. As a kubelet with
webhook authentication: certificates are checked against ``--client-ca-file`` by TLS itself, tokens by
a TokenReview whose outcome is kept for two minutes. There are no anonymous requests. SubjectAccessReviews decide what
the user may do.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from cathedra.api.core.authentication_v1 import TokenReview, TokenReviewSpec, UserInfo
from cathedra.api.core.authorization_v1 import (
    NonResourceAttributes,
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from cathedra.api.status import StatusError, unauthorized
from cathedra.asgi.application import PEER_CERTIFICATE, PeerCertificate
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef
from cathedra.clock import Clock
from cathedra.remembering import everything_but

TOKEN_SECONDS: Final = 120.0
TOKEN_BYTES: Final = 64 * 1024
"""Longer tokens are refused unseen."""

_TOKEN_REVIEWS: Final = ResourceRef("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, TokenReview)
_ACCESS_REVIEWS: Final = ResourceRef(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, SubjectAccessReview
)
_AUTHENTICATED: Final = "system:authenticated"
_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"

K = TypeVar("K")
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """Cache whose values expire after some seconds; beyond ``size`` entries the oldest are dropped."""

    def __init__(self, clock: Clock, size: int) -> None:
        self._clock = clock
        self._size = size
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, or None if there is none or it has expired."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and self._clock.monotonic() < entry[0] else None

    def put(self, key: K, value: V, seconds: float) -> None:
        """Keep ``value`` for ``seconds``."""
        self._entries[key] = (self._clock.monotonic() + seconds, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)


class ReviewUnavailable(ConnectionError):
    """The API server did not review a token."""


class RequestAuthenticator:
    """Authenticates requests to the node's server, and to the ports of other parts."""

    def __init__(self, client: Client, clock: Clock, seconds: float = TOKEN_SECONDS) -> None:
        """``seconds``: time for which a token that has ended may still be accepted."""
        self._clock, self._seconds = clock, seconds
        self._reviews = client.resource(_TOKEN_REVIEWS)
        self._known: ExpiringCache[bytes, TokenReview] = ExpiringCache(clock, 4096)

    async def user_of(self, scope: Mapping[str, Any]) -> UserInfo:
        """Return the user of an ASGI scope's certificate or token.

        Raises:
            StatusError: 401, it has neither, the token is invalid, or the API server does not answer.
        """
        try:
            return await self.identify(scope)
        except ReviewUnavailable as error:
            raise unauthorized() from error

    async def identify(self, scope: Mapping[str, Any]) -> UserInfo:
        """Return the user of an ASGI scope's certificate or token.

        Raises:
            StatusError: 401, it has neither, or the token is invalid.
            ReviewUnavailable: the API server does not answer.
        """
        shown: PeerCertificate | None = scope.get("extensions", {}).get(PEER_CERTIFICATE)
        if shown is not None and shown.has_ended(self._clock.now()):
            shown = None
        certified = certificate_user(shown.fields, shown.der) if shown is not None else None
        if certified is not None:
            return certified
        token = _bearer_token(scope)
        if not token or len(token) > TOKEN_BYTES:
            raise unauthorized()
        review = await self._reviewed(token)
        if not review.status.authenticated:
            raise unauthorized()
        return review.status.user

    async def _reviewed(self, token: str) -> TokenReview:
        key = hashlib.sha256(token.encode()).digest()
        known = self._known.get(key)
        if known is not None:
            return known
        try:
            review = await self._reviews.create(TokenReview(spec=TokenReviewSpec(token=token)))
        except (StatusError, ConnectionError) as error:
            raise ReviewUnavailable(str(error)) from error
        self._known.put(key, review, self._seconds)
        return review


def certificate_user(subject: Mapping[str, Any], certificate: bytes) -> UserInfo | None:
    """Return the user of a verified client certificate: CN is the name, each O a group. None: it has no CN.

    Args: subject: the result of ``ssl.SSLSocket.getpeercert``. certificate: the same certificate in DER.
    """
    facts = [(key, value) for relative in subject.get("subject", ()) for key, value in relative]
    name = next((value for key, value in facts if key == "commonName"), "")
    if not name:
        return None
    groups = tuple(value for key, value in facts if key == "organizationName")
    fingerprint = hashlib.sha256(certificate).hexdigest()
    return UserInfo(
        username=name, groups=(*groups, _AUTHENTICATED), extra={_CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
    )


def _bearer_token(scope: Mapping[str, Any]) -> str:
    for key, value in scope["headers"]:
        if key == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            return token.strip() if scheme.lower() == "bearer" else ""
    return ""


user_key: Final = everything_but(UserInfo, {})
"""Key of a user in caches of reviews. Authorizers may decide by any field, also by ``extra``."""


class AccessReviews:
    """SubjectAccessReviews of the API server."""

    def __init__(self, client: Client) -> None:
        self._reviews = client.resource(_ACCESS_REVIEWS)

    async def allows(self, user: UserInfo, wanted: ResourceAttributes | NonResourceAttributes) -> bool:
        """Return True if the user has a right.

        Raises:
            StatusError: the server refuses the review.
            ConnectionError: it does not answer.
        """
        path = wanted if isinstance(wanted, NonResourceAttributes) else None
        resource = wanted if isinstance(wanted, ResourceAttributes) else None
        spec = SubjectAccessReviewSpec(
            user=user.username,
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
            resource_attributes=resource,
            non_resource_attributes=path,
        )
        review = await self._reviews.create(SubjectAccessReview(spec=spec))
        return review.status.allowed and not review.status.denied
