"""URLs (docs/spec/cel.md §6.4)."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("url('https://u@h.example:8080/a%20b?q=1&q=2#f').getPort()", "8080"),
        ("url('https://h/p?q=1&q=2').getQuery()", "{q: [1, 2]}"),
        ("url('http://[::1]:80/').getHostname()", "::1"),
        ("isURL('relative')", "false"),
        ("url('/a/b').getEscapedPath()", "/a/b"),
        ("url('/a/b').getHost()", ""),
        ("url('/a/b').getHostname()", ""),
        ("url('/a/b').getPort()", ""),
        ("url('/a/b').getScheme()", ""),
        ("url('file:///a').getHost()", ""),
        ("url('HTTP://x').getScheme()", "http"),
    ],
)
def test_urls_are_taken_apart(expression: str, result: str) -> None:
    assert shown(expression) == result
