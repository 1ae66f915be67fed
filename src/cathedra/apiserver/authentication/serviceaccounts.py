"""Tokens of service accounts: issued for a time and for audiences, and valid while the object they are bound to exists
(docs/spec/apimachinery.md §12 and §14).

Nothing is stored: a token contains its account, and the account is looked up each time the token is used.
"""

from __future__ import annotations

import random as random_module
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.api.core.core_v1 import ServiceAccount
from cathedra.api.scheme import GroupResource
from cathedra.apiserver.authentication.signing import ALGORITHM, BadToken, SigningKey
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.registry.registry import Registry
from cathedra.clock import Clock

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
"""The issuer, and the audience of tokens that name none: the API itself."""
SERVICE_ACCOUNTS: Final = GroupResource("", "serviceaccounts")
PREFIX: Final = "system:serviceaccount:"

_EXTRA: Final = "authentication.kubernetes.io/"
_PRIVATE: Final = "kubernetes.io"
_BINDABLE: Final = {"pod": "pods", "secret": "secrets", "node": "nodes"}
_WARNED_SECONDS: Final = 3607
"""The lifetime in the requests of pods by default: such tokens are valid for a year, and contain the time at which the
holder should have requested another one."""
_EXTENDED_SECONDS: Final = 365 * 24 * 3600
_GRACE_SECONDS: Final = 60
"""Seconds that a token stays valid after it expired, or after the deletion of its account, pod or secret: the leeway of
Kubernetes' validator."""


class Bound(msgspec.Struct, frozen=True):
    """An object that a token is bound to: with its deletion the token becomes invalid."""

    kind: str
    """``pod``, ``secret`` or ``node``."""
    name: str
    uid: str
    node: Mapping[str, str] = msgspec.field(default_factory=dict)
    """For a pod: its node's ``name`` and ``uid``."""


class ServiceAccountTokens:
    """Issues tokens and finds their users; a `cathedra.apiserver.authentication.authenticator.KnownTokens`."""

    def __init__(self, registry: Registry, clock: Clock, random: random_module.Random, key: SigningKey) -> None:
        self._registry = registry
        self._clock = clock
        self._random = random
        self.key = key

    def issue(
        self, account: ServiceAccount, audiences: Sequence[str], seconds: int, bound: Bound | None
    ) -> tuple[str, float]:
        """Return a token, and the time by which its holder should request another (seconds since the Unix epoch)."""
        now = int(self._clock.now())
        lasting = seconds
        private: dict[str, Any] = {
            "namespace": account.metadata.namespace,
            "serviceaccount": {"name": account.metadata.name, "uid": account.metadata.uid},
        }
        if bound is not None:
            private[bound.kind] = {"name": bound.name, "uid": bound.uid}
            if bound.node:
                private["node"] = dict(bound.node)
            # Old clients never read the token file again. Kubernetes extends such tokens for them, and counts uses.
            if bound.kind == "pod" and seconds == _WARNED_SECONDS and ISSUER in audiences:
                lasting = _EXTENDED_SECONDS
                private["warnafter"] = now + seconds
        claims = {
            "aud": list(audiences),
            "exp": now + lasting,
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.UUID(int=self._random.getrandbits(128), version=4)),
            _PRIVATE: dict(sorted(private.items())),
            "nbf": now,
            "sub": f"{PREFIX}{account.metadata.namespace}:{account.metadata.name}",
        }
        return self.key.sign(claims), float(now + seconds)

    def user_of(self, token: str) -> UserInfo | None:
        """Return the user of a token, or None if it is not valid for the API."""
        found = self.review(token, (ISSUER,))
        return found[0] if found is not None else None

    def review(self, token: str, audiences: Iterable[str]) -> tuple[UserInfo, tuple[str, ...]] | None:
        """Return the user of a token, and the audiences that it is for; None if it is valid for none of them."""
        # Other kinds of tokens are recognized without the cryptography library.
        if token.count(".") != 2:
            return None
        try:
            claims = self.key.verified(token)
        except BadToken:
            return None
        meant = tuple(one for one in audiences if one in claims.get("aud", ()))
        if not meant or claims.get("iss") != ISSUER or not self._timely(claims):
            return None
        user = self._holder(claims)
        return (user, meant) if user is not None else None

    def configuration(self, jwks_uri: str) -> dict[str, Any]:
        """Return the issuer's OpenID discovery document."""
        return {
            "issuer": ISSUER,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }

    def keys(self) -> dict[str, Any]:
        """Return the public keys, as a JSON Web Key Set."""
        return {"keys": [self.key.jwk()]}

    def _timely(self, claims: Mapping[str, Any]) -> bool:
        """Return True if the token is valid now, with some tolerance for the clocks of two servers."""
        now = self._clock.now()
        return int(claims.get("nbf", 0)) - _GRACE_SECONDS <= now <= int(claims.get("exp", 0)) + _GRACE_SECONDS

    def _holder(self, claims: Mapping[str, Any]) -> UserInfo | None:
        private = claims.get(_PRIVATE)
        if not isinstance(private, dict) or "serviceaccount" not in private:
            return None
        namespace, account = private.get("namespace", ""), private["serviceaccount"]
        if not self._lives(SERVICE_ACCOUNTS, f"{namespace}/{account['name']}", account["uid"]):
            return None
        for kind, plural in _BINDABLE.items():
            bound = private.get(kind)
            # A pod's token contains its node, but is bound to the pod alone.
            if bound is None or (kind == "node" and "pod" in private):
                continue
            key = bound["name"] if kind == "node" else f"{namespace}/{bound['name']}"
            if not self._lives(GroupResource("", plural), key, bound["uid"]):
                return None
        return service_account_user(namespace, account["name"], account["uid"], _extra(claims["jti"], private))

    def _lives(self, resource: GroupResource, key: str, uid: str) -> bool:
        found = self._registry.find(resource, key)
        # An object of the same name that was created later has another uid: tokens of the old one are not for it.
        if found is None or found.metadata.uid != uid:
            return False
        # The containers of a pod still need the API while they shut down.
        deleted = found.metadata.deletion_timestamp
        return deleted is None or deleted.micros / 1e6 + _GRACE_SECONDS > self._clock.now()


def service_account_user(
    namespace: str, name: str, uid: str, extra: Mapping[str, tuple[str, ...]] | None = None
) -> UserInfo:
    """Return the user of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return UserInfo(f"{PREFIX}{namespace}:{name}", groups, uid, extra or {})


def _extra(token_id: str, private: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {f"{_EXTRA}credential-id": (f"JTI={token_id}",)}
    for kind in ("node", "pod"):
        bound = private.get(kind)
        if bound is None:
            continue
        extra[f"{_EXTRA}{kind}-name"] = (bound["name"],)
        if bound.get("uid"):
            extra[f"{_EXTRA}{kind}-uid"] = (bound["uid"],)
    return extra
