"""The words for tokens in wrong places."""

from __future__ import annotations

import contextlib

import pytest

from cathedra.cel.errors import Issue
from cathedra.cel.syntax.recognizer import Context, Recognizer, Stopped
from cathedra.cel.syntax.tokens import scan

EXPRESSION = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def read(source: str) -> tuple[Context, list[Issue]]:
    """The tree with its holes, and the reports."""
    issues: list[Issue] = []
    tokens, _ = scan(source)
    return Recognizer(list(source), tokens, issues).read(), issues


@pytest.mark.parametrize(
    ("source", "offset", "message"),
    [
        ("1 +", 3, f"mismatched input '<EOF>' expecting {EXPRESSION}"),
        ("a b", 2, "extraneous input 'b' expecting <EOF>"),
        ("1 ++ 1", 3, f"extraneous input '+' expecting {EXPRESSION}"),
        ("(true", 5, "missing ')' at '<EOF>'"),
        ("{'a' 1}", 5, "missing ':' at '1'"),
        ("[1,,2]", 3, "mismatched input ',' expecting ']'"),
        ("a..b", 2, "no viable alternative at input '..'"),
        ("a. [0]", 3, "no viable alternative at input '. ['"),
        ("a.true", 2, "mismatched input 'true' expecting IDENTIFIER"),
        ("true ? 1", 8, "mismatched input '<EOF>' expecting ':'"),
        ("a.?", 3, "mismatched input '<EOF>' expecting {IDENTIFIER, ESC_IDENTIFIER}"),
        ("a{1}", 2, "extraneous input '1' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"),
        ("-", 1, "no viable alternative at input '-'"),
    ],
)
def test_the_first_mistake_is_worded_as_by_kubernetes(source: str, offset: int, message: str) -> None:
    _, issues = read(source)
    assert (issues[0].offset, issues[0].message) == (offset, f"Syntax error: {message}")


def test_several_mistakes_are_found_in_one_reading() -> None:
    _, issues = read("f(1 1) + [2 2] + {3 3}")
    assert [issue.offset for issue in issues] == [4, 12, 20]


def test_what_could_be_read_is_kept() -> None:
    whole, _ = read("a.b.")
    assert whole.first is not None
    assert whole.first.kind == "expr"


@pytest.mark.parametrize("source", ["a + b * c", "f(a, b)[0].?c", "m{f: 1, ?`g`: 2}", "[?a, b,]", "{?1: 2,}", "--1"])
def test_correct_text_has_no_mistakes(source: str) -> None:
    assert read(source)[1] == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("(" * 300, "expression recursion limit exceeded: 250"),
        ("a b " * 2000, "error recovery token lookahead limit exceeded: 256"),
        ("[1 1], " * 40, "Syntax error: mismatched input ',' expecting <EOF>"),
    ],
)
def test_hopeless_text_is_given_up(source: str, message: str) -> None:
    issues: list[Issue] = []
    tokens, _ = scan(source)
    with contextlib.suppress(Stopped):
        Recognizer(list(source), tokens, issues).read()
    assert message in [issue.message for issue in issues]
