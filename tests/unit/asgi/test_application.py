"""Headers of requests: pairs in order, and lookups of single headers."""

from __future__ import annotations

from cathedra.asgi.application import RequestHeaders

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
