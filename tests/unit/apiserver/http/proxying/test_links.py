"""Links of pages that are seen through the API server."""

from __future__ import annotations

import time

import pytest

from cathedra.apiserver.http.proxying.links import through, with_links

PREFIX = "/api/v1/nodes/n1/proxy"
CHANGE = through(PREFIX, "10.0.0.1:80")


@pytest.mark.parametrize(
    ("link", "seen"),
    [
        ("/style.css", f"{PREFIX}/style.css"),
        ("/a/?x=1&y#z", f"{PREFIX}/a/?x=1&y#z"),
        ("http://10.0.0.1:80/a", f"{PREFIX}/a"),
        ("http://example.com/a", "http://example.com/a"),
        ("//example.com/a", "//example.com/a"),
        ("relative", "relative"),
        ("#here", "#here"),
        (f"{PREFIX}/again", f"{PREFIX}/again"),
        ("http://[", "http://["),
    ],
)
def test_paths_of_the_server_itself_lead_through_the_proxy(link: str, seen: str) -> None:
    assert CHANGE(link) == seen


@pytest.mark.parametrize(
    ("page", "seen"),
    [
        (b'<a href="/x">t</a>', f'<a href="{PREFIX}/x">t</a>'),
        (b"<A class=c HREF=/x>", f'<A class=c HREF="{PREFIX}/x">'),
        (b"<img src='/x' alt='/y'/>", f"<img src=\"{PREFIX}/x\" alt='/y'/>"),
        (b'<a href="/x?a=1&amp;b=2">', f'<a href="{PREFIX}/x?a=1&amp;b=2">'),
        (b'<form method="post" action="/do">', f'<form method="post" action="{PREFIX}/do">'),
    ],
)
def test_attributes_that_hold_links_are_changed(page: bytes, seen: str) -> None:
    assert with_links(page, CHANGE).decode() == seen


@pytest.mark.parametrize(
    "page",
    [
        b'<!-- <a href="/x"> -->',
        b'<p title="/x">1 < 2 and 3 > 2</p>',
        b"<script>var a = '<a href=\"/x\">';</script>",
        b'<title><a href="/x"></title>',
        b'<a href="/x',
        b"<script>never closed <a href='/x'>",
        b'<a href="x">\xff\xfe</a>',
    ],
)
def test_everything_else_stays_as_it_is(page: bytes) -> None:
    assert with_links(page, CHANGE) == page


def test_what_stands_behind_raw_text_is_changed_again() -> None:
    page = b'<script src="/s"><a href="/no"></script><a href="/x">'
    expected = f'<script src="{PREFIX}/s"><a href="/no"></script><a href="{PREFIX}/x">'
    assert with_links(page, CHANGE).decode() == expected


@pytest.mark.parametrize("piece", [b"<a ", b"<!--", b'<a "', b"<script>", b"<", b"<a href='", b'<a href="/x" '])
def test_pages_that_never_end_a_tag_take_no_longer_than_others(piece: bytes) -> None:
    page = piece * (1024 * 1024 // len(piece))
    began = time.process_time()
    with_links(page, CHANGE)
    assert time.process_time() - began < 5
