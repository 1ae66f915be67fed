"""How long a request may take, as its ``timeout`` says."""

from __future__ import annotations

import pytest

from cathedra.api.status import StatusError
from cathedra.apiserver.traffic.deadlines import deadline_of


@pytest.mark.parametrize(
    ("text", "seconds"), [("", 60), ("0", 60), ("1s", 1), ("1m30s", 60), ("250ms", 0.25), ("-1s", 60), ("1.5s", 1.5)]
)
def test_a_request_says_how_long_it_may_take(text: str, seconds: float) -> None:
    assert deadline_of(text) == seconds


def test_a_duration_that_is_none_is_refused() -> None:
    with pytest.raises(StatusError, match='time: invalid duration "x"'):
        deadline_of("x")


@pytest.mark.parametrize("text", ["1" * 200 + "s", "300y", "1", "1s1", "--1s", "١s", "9999999999999h"])
def test_what_go_does_not_read_as_a_duration_is_refused(text: str) -> None:
    with pytest.raises(StatusError, match="invalid duration"):
        deadline_of(text)
