"""Bootstrap tokens: secrets in kube-system with which a joining node authenticates."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Secret

NAMESPACE: Final = "kube-system"
AUTHENTICATION: Final = "usage-bootstrap-authentication"
SIGNING: Final = "usage-bootstrap-signing"
_TYPE: Final = "bootstrap.kubernetes.io/token"
_PREFIX: Final = "bootstrap-token-"
_ID: Final = re.compile(r"[a-z0-9]{6}")
_SECRET: Final = re.compile(r"[a-z0-9]{16}")
_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_GROUPS: Final = "system:bootstrappers"
_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)")


class BootstrapToken(msgspec.Struct, frozen=True):
    """A token that can be used now; it is written ``id.secret``."""

    id: str
    secret: str
    groups: tuple[str, ...]
    """The groups of the token's user."""

    @property
    def user(self) -> str:
        """The name of the token's user."""
        return f"system:bootstrap:{self.id}"


def is_token_secret(secret: Secret) -> bool:
    """Return True if a secret is meant to be a token."""
    return secret.type == _TYPE and secret.metadata.namespace == NAMESPACE


def expiration(secret: Secret) -> float | None:
    """Return the time at which a token expires (seconds since the Unix epoch). It is 0 if the time is malformed, and
    None if there is none."""
    text = secret.data.get("expiration", b"").decode(errors="replace")
    if not text:
        return None
    if not _RFC3339.fullmatch(text):
        return 0.0
    try:
        return datetime.fromisoformat(text.upper().replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def token_of(secret: Secret, usage: str, now: float) -> BootstrapToken | None:
    """Return the token of a secret; None unless it is valid for this use now."""
    data = {name: value.decode(errors="replace") for name, value in secret.data.items()}
    token_id, key = data.get("token-id", ""), data.get("token-secret", "")
    ends = expiration(secret)
    if (
        not is_token_secret(secret)
        or secret.metadata.deletion_timestamp is not None
        or not _ID.fullmatch(token_id)
        or not _SECRET.fullmatch(key)
        or secret.metadata.name != f"{_PREFIX}{token_id}"
        or data.get(usage) != "true"
        or (ends is not None and ends <= now)
    ):
        return None
    extra = [one for one in data.get("auth-extra-groups", "").split(",") if one]
    if not all(_GROUP.fullmatch(one) for one in extra):
        return None
    return BootstrapToken(token_id, key, (_GROUPS, *dict.fromkeys(extra)))
