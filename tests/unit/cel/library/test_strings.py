"""Functions of texts (docs/spec/cel.md §6.1)."""

from __future__ import annotations

import pytest

from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("'abc'.charAt(3)", ""),
        ("'abc'.charAt(4)", "error: index out of range: 4"),
        ("'abc'.indexOf('c')", "2"),
        ("'abc'.indexOf('a', 9)", "-1"),
        ("'abc'.indexOf('a', -1)", "error: index out of range: -1"),
        ("'aXbX'.lastIndexOf('X')", "3"),
        ("'abcabc'.lastIndexOf('a', 2)", "0"),
        ("'ÄBc'.lowerAscii()", "Äbc"),
        ("'aab'.replace('a', 'x', 1)", "xab"),
        ("'ab'.replace('', '-')", "-a-b-"),
        ("'a,b,c'.split(',', 2)", "[a, b,c]"),
        ("'abc'.split('')", "[a, b, c]"),
        ("'a'.split(',', 0)", "[]"),
        ("'abcd'.substring(1, 3)", "bc"),
        ("'abcd'.substring(3, 1)", "error: invalid substring range. start: 3, end: 1"),
        ("' \\u00a0x\\n'.trim()", "x"),
        ("['a', 'b'].join('-')", "a-b"),
        ("strings.quote('a\"b\\n')", '"a\\"b\\n"'),
        ("size('héé')", "3"),
        ("'abc'.contains('')", "true"),
    ],
)
def test_functions_of_texts_give_what_kubernetes_gives(expression: str, result: str) -> None:
    assert shown(expression) == result
