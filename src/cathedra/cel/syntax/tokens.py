"""Cuts an expression into tokens, in one regular expression per token.

Kinds are small strings: the text itself for punctuation and keywords, names in capitals for the rest. Anything the
grammar does not know ends the fast way; `cathedra.cel.syntax.diagnosis` then finds the words for it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["EOF", "Token", "scan"]

EOF: Final = "<EOF>"

_ESC = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_STRING = (
    rf'(?:"""(?:{_ESC}|[^\\])*?"""|\'\'\'(?:{_ESC}|[^\\])*?\'\'\''
    rf'|"(?:{_ESC}|[^\\"\n\r])*"|\'(?:{_ESC}|[^\\\'\n\r])*\''
    r'|[rR](?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"[^"\n\r]*"|\'[^\'\n\r]*\'))'
)
_TOKEN: Final = re.compile(
    r"(?P<HIDDEN>(?:[\t \r\n\f]++|//[^\n]*+)++)"
    rf"|(?P<BYTES>[bB]{_STRING})|(?P<STRING>{_STRING})"
    r"|(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<PUNCT>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
    r"|(?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/ ]+`)"
)
_KEYWORDS: Final = frozenset(("in", "true", "false", "null"))


class Token(NamedTuple):
    """``kind``, the text as written, and where it starts and ends."""

    kind: str
    text: str
    start: int
    end: int


_token: Final = Token._make
"""Half the price of calling the class."""


def scan(source: str, start: int = 0) -> tuple[list[Token], int]:
    """All tokens from ``start`` up to the end, or up to the first place that starts none.

    Returns the tokens (with a final EOF if the end was reached) and the offset that was reached.
    """
    tokens: list[Token] = []
    position, size = start, len(source)
    for found in _TOKEN.finditer(source, start):
        begin, end = found.span()
        if begin != position:  # characters were skipped in search of a token
            break
        position = end
        kind = found.lastgroup
        if kind == "HIDDEN":
            continue
        text = found.group()
        if kind == "PUNCT" or (kind == "IDENTIFIER" and text in _KEYWORDS):
            kind = text
        tokens.append(_token((kind, text, begin, end)))
    if position < size:
        return tokens, position
    tokens.append(Token(EOF, EOF, size, size))
    return tokens, size
