"""Impersonation: acting as another user, with the right to do so (docs/spec/apimachinery.md §14)."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from cathedra.api.status import internal_error
from cathedra.apiserver.authentication.user import (
    ANONYMOUS,
    AUTHENTICATED_GROUP,
    UNAUTHENTICATED_GROUP,
    UserInfo,
)
from cathedra.apiserver.authorization.authorizer import Attributes, Authorizer, refusal
from cathedra.asgi.application import RequestHeaders

_SERVICE_ACCOUNT = "system:serviceaccount:"
_EXTRA = b"impersonate-extra-"


def asks_to_impersonate(headers: RequestHeaders) -> bool:
    """Return True if a header requests another identity."""
    return b"\nimpersonate-" in headers.names


def impersonated(user: UserInfo, headers: Iterable[tuple[bytes, bytes]], authorizer: Authorizer) -> UserInfo:
    """Return the user that the headers name.

    Raises:
        StatusError: 403, ``user`` may not act as that one; 500, they name no user.
    """
    name, uid, groups = "", "", []
    extra: dict[str, tuple[str, ...]] = {}
    for key, raw in headers:
        value = raw.decode("latin-1")
        if key == b"impersonate-user":
            name = value
        elif key == b"impersonate-uid":
            uid = value
        elif key == b"impersonate-group":
            groups.append(value)
        elif key.startswith(_EXTRA):
            extra_key = unquote(key[len(_EXTRA) :].decode("latin-1"))
            extra[extra_key] = (*extra.get(extra_key, ()), value)
    if not name:
        raise internal_error("requested groups, extra or uid without impersonating a user")
    # Each part of the identity needs a right of its own: with a user's name alone a caller could take any group.
    for attributes in _questions(user, name, uid, groups, extra):
        decision = authorizer.authorize(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision)
    if name.startswith(_SERVICE_ACCOUNT) and not groups:
        namespace = name.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    if not {AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP} & set(groups):
        groups.append(UNAUTHENTICATED_GROUP if name == ANONYMOUS.name else AUTHENTICATED_GROUP)
    return UserInfo(name, tuple(groups), uid, extra)


def _questions(
    user: UserInfo, name: str, uid: str, groups: list[str], extra: dict[str, tuple[str, ...]]
) -> Iterable[Attributes]:
    if name.startswith(_SERVICE_ACCOUNT):
        namespace, _, account = name.removeprefix(_SERVICE_ACCOUNT).partition(":")
        yield Attributes(user, "impersonate", "", "v1", "serviceaccounts", namespace=namespace, name=account)
    else:
        yield Attributes(user, "impersonate", "", "v1", "users", name=name)
    for group in groups:
        yield Attributes(user, "impersonate", "", "v1", "groups", name=group)
    for key, values in extra.items():
        for value in values:
            yield Attributes(
                user, "impersonate", "authentication.k8s.io", "v1", "userextras", subresource=key, name=value
            )
    if uid:
        yield Attributes(user, "impersonate", "authentication.k8s.io", "v1", "uids", name=uid)
