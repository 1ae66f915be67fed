"""Headers of requests: pairs in order, with what is asked of them in every one."""

from __future__ import annotations

import pytest

from cathedra.asgi.headers import Pairs, RequestHeaders

PAIRS = [(b"accept", b"a"), (b"x-name", b"\xfc"), (b"accept", b"b")]


def test_headers_are_their_pairs_in_order() -> None:
    assert list(RequestHeaders(PAIRS)) == PAIRS


def test_the_last_value_of_a_name_counts() -> None:
    assert RequestHeaders(PAIRS).texts == {b"accept": "b", b"x-name": "ü"}


def test_how_a_name_begins_is_seen_in_all_names() -> None:
    headers = RequestHeaders(PAIRS)
    assert b"\nx-" in headers.names
    assert b"\nname" not in headers.names
    assert RequestHeaders(()).names == b""


WRITTEN = ((b"Accept", b"a"), (b"Content-Length", b"7"), (b"X-Name", b"\xfc"))


def lowered(pairs: Pairs) -> RequestHeaders:
    return RequestHeaders((name.lower(), value) for name, value in pairs)


def test_headers_of_a_body_of_another_length_are_those_read_anew() -> None:
    longer = (WRITTEN[0], (b"Content-Length", b"12"), WRITTEN[2])
    headers = lowered(WRITTEN).of_other_length(WRITTEN, longer)
    assert headers == lowered(longer)
    assert headers is not None
    assert headers.texts == lowered(longer).texts
    assert headers.names == lowered(longer).names


@pytest.mark.parametrize(
    "others",
    [
        WRITTEN[:2],
        ((b"Accept", b"b"), *WRITTEN[1:]),
        ((b"Accept", b"b"), (b"Content-Length", b"12"), WRITTEN[2]),
        (WRITTEN[0], (b"Expect", b"100-continue"), WRITTEN[2]),
    ],
)
def test_headers_that_differ_in_more_are_read_anew(others: Pairs) -> None:
    assert lowered(WRITTEN).of_other_length(WRITTEN, others) is None
