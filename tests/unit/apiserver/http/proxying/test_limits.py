"""Limits on requests that are passed on at the same time."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.http.proxying.limits import PassedRequests, PassingLimits

LIMITS = PassingLimits(of_user=2, to_server=3, total=4)


@pytest.mark.parametrize(
    ("open_already", "user", "server", "refusal"),
    [
        ([("a", "n1")], "a", "n1", ""),
        ([("a", "n1"), ("a", "n2")], "a", "n3", "user 'a' has 2 logs and streams open"),
        ([("a", "n1"), ("a", "n1")], "b", "n1", ""),
        ([("a", "n1"), ("b", "n1"), ("c", "n1")], "d", "n1", "3 logs and streams of n1 are open"),
        ([("a", "n1"), ("b", "n1"), ("c", "n1")], "d", "n2", ""),
        ([("a", "n1"), ("b", "n2"), ("c", "n3"), ("d", "n4")], "e", "n5", "4 logs and streams are open"),
    ],
)
def test_requests_are_counted_per_user_per_server_and_over_all(
    open_already: list[tuple[str, str]], user: str, server: str, refusal: str
) -> None:
    passed = PassedRequests(LIMITS)
    with ExitStack() as stack:
        for one in open_already:
            stack.enter_context(passed.admitted(*one))
        if not refusal:
            with passed.admitted(user, server):
                return
        with pytest.raises(StatusError, match=refusal) as caught, passed.admitted(user, server):
            pass
        assert caught.value.code == 429
    with passed.admitted(user, server):
        pass


def test_a_request_that_fails_is_counted_no_longer() -> None:
    passed = PassedRequests(PassingLimits(of_user=1, to_server=1, total=1))
    with pytest.raises(ValueError, match="fault"), passed.admitted("a", "n1"):
        raise ValueError("fault")
    with passed.admitted("a", "n1"):
        pass
