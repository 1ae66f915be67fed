"""What becomes of a refusal, and of the end of a connection; frames are passed in the tests of the ways themselves."""

from __future__ import annotations

import pytest

from cathedra.apiserver.http.proxying.websockets import refusal_of


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [(403, 403, "Forbidden"), (404, 404, "NotFound"), (418, 418, "InternalError"), (302, 500, "InternalError")],
)
def test_a_refusal_keeps_its_status_if_it_is_one(status: int, code: int, reason: str) -> None:
    found = refusal_of(status, " no ")
    assert (found.code, found.status.reason, found.status.message) == (code, reason, "no")


def test_a_refusal_without_words_tells_its_status() -> None:
    assert refusal_of(503, "").status.message == "the node answered 503"
