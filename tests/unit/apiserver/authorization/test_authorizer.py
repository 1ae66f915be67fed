"""Users whose requests need not be authorized one by one."""

from __future__ import annotations

import pytest

from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.authorization.authorizer import (
    AlwaysAllow,
    Attributes,
    Authorizer,
    Decision,
    MastersOnly,
    Union,
    Verdict,
    always_allows,
)

MASTER = UserInfo("admin", (MASTERS_GROUP,))
USER = UserInfo("alice")


class Denies:
    """Authorizer that denies every request."""

    def authorize(self, attributes: Attributes) -> Decision:
        return Decision(Verdict.DENY)


@pytest.mark.parametrize("user", [MASTER, USER])
@pytest.mark.parametrize(
    "authorizer",
    [AlwaysAllow(), MastersOnly(), Denies(), Union((MastersOnly(), Denies())), Union((Denies(), MastersOnly()))],
)
def test_only_where_all_is_allowed_nothing_is_asked(authorizer: Authorizer, user: UserInfo) -> None:
    allowed = authorizer.authorize(Attributes(user, "delete", resource="pods", namespace="n", name="p")).allowed
    assert always_allows(authorizer, user) is allowed


def test_an_authorizer_that_allows_one_thing_is_asked_about_each() -> None:
    class ReadsOnly:
        def authorize(self, attributes: Attributes) -> Decision:
            return Decision(Verdict.ALLOW if attributes.verb == "get" else Verdict.NO_OPINION)

    assert not always_allows(ReadsOnly(), MASTER)
    assert not always_allows(Union((ReadsOnly(), AlwaysAllow())), MASTER)
