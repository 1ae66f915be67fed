"""The caller of a request."""

from __future__ import annotations

from cathedra.apiserver.authentication.user import (
    ANONYMOUS,
    AUTHENTICATED_GROUP,
    LOOPBACK,
    MASTERS_GROUP,
    UNAUTHENTICATED_GROUP,
    UserInfo,
)


def test_nothing_is_forbidden_to_masters_alone() -> None:
    assert UserInfo("me", ("devs", MASTERS_GROUP)).is_master
    assert LOOPBACK.is_master
    assert not UserInfo(MASTERS_GROUP, ("devs",)).is_master, "a name is no group"
    assert not ANONYMOUS.is_master


def test_who_was_not_recognized_is_in_one_group_and_who_was_in_another() -> None:
    assert (ANONYMOUS.name, ANONYMOUS.groups) == ("system:anonymous", (UNAUTHENTICATED_GROUP,))
    assert AUTHENTICATED_GROUP in LOOPBACK.groups
