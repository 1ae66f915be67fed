"""Cuts an expression into tokens, in one regular expression per token.

Kinds are small strings: the text itself for punctuation and keywords, names in capitals for the rest. Anything the
grammar does not know ends the fast way; `cathedra.cel.syntax.diagnosis` then finds the words for it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final, NamedTuple

EOF: Final = "<EOF>"

_ESC = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_STRING = (
    rf'(?:"""(?:{_ESC}|[^\\])*?"""|\'\'\'(?:{_ESC}|[^\\])*?\'\'\''
    rf'|"(?:{_ESC}|[^\\"\n\r])*"|\'(?:{_ESC}|[^\\\'\n\r])*\''
    r'|[rR](?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"[^"\n\r]*"|\'[^\'\n\r]*\'))'
)
_HIDDEN: Final = re.compile(r"(?:[\t \r\n\f]++|//[^\n]*+)*+")
_TOKEN: Final = re.compile(
    _HIDDEN.pattern + "(?:"
    r"(?P<PUNCT>==|!=|<=|>=|&&|\|\||\.(?![0-9])|[<>\[\]{}(),\-!?:+*/%])"
    rf"|(?P<BYTES>[bB]{_STRING})|(?P<STRING>{_STRING})"
    r"|(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<END>\Z))"
)
"""A token with the blanks and comments before it: one match each, which is a fifth of the time of a scan."""
_KEYWORDS: Final = frozenset(("in", "true", "false", "null"))


class Token(NamedTuple):
    """``kind``, the text as written, and where it starts and ends."""

    kind: str
    text: str
    start: int
    end: int


_token: Final = partial(tuple.__new__, Token)
"""A fifth of the price of calling the class."""


def scan(source: str, start: int = 0) -> tuple[list[Token], int]:
    """Return all tokens from ``start`` up to the end, or up to the first place that starts none.

    Returns the tokens (with a final EOF if the end was reached) and the offset that was reached.
    """
    tokens: list[Token] = []
    reached = start
    for found in _TOKEN.finditer(source, start):
        if found.start() != reached:  # characters were skipped in search of a token
            break
        reached = found.end()
        kind = found.lastgroup
        assert kind is not None
        text = found[kind]
        if kind == "END":
            tokens.append(Token(EOF, EOF, reached, reached))
            return tokens, reached
        if kind == "PUNCT" or (kind == "IDENTIFIER" and text in _KEYWORDS):
            kind = text
        tokens.append(_token((kind, text, reached - len(text), reached)))
    hidden = _HIDDEN.match(source, reached)
    return tokens, reached if hidden is None else hidden.end()
