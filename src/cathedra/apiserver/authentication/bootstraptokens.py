"""Bearer tokens of nodes that join, as secrets of kube-system hold them (docs/spec/apimachinery.md §14)."""

from __future__ import annotations

import hmac
from typing import Final

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.registry.registry import Registry
from cathedra.clock import Clock
from cathedra.semantics.bootstraptokens import AUTHENTICATION, NAMESPACE, token_of

__all__ = ["BootstrapTokens"]

_SECRETS: Final = GroupResource("", "secrets")
_LENGTH: Final = 23


class BootstrapTokens:
    """Knows the tokens of secrets of type ``bootstrap.kubernetes.io/token``."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    def user_of(self, token: str) -> UserInfo | None:
        """Whose token it is, or None if it is none that is good now."""
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
