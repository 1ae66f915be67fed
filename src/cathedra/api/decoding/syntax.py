"""Errors of malformed JSON, in the words of the Go decoder that Kubernetes uses."""

from __future__ import annotations

import re
from typing import Final

from cathedra.api.goquote import go_quote
from cathedra.api.nesting import MAX_DEPTH, TOO_DEEP

_BLANKS: Final = re.compile(r"[ \t\r\n]+")
_ORDINARY: Final = re.compile(r'[^"\\\x00-\x1f]+')
_DIGITS: Final = re.compile(r"[0-9]+")
_DIGIT: Final = "0123456789"
_SIMPLE: Final = (
    r'(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null|\{\}|\[\]|"[^"\\\x00-\x1f]*+")'
    r"[ \t\r\n]*+,[ \t\r\n]*+"
)
_ELEMENTS: Final = re.compile(f"(?:{_SIMPLE}){{1,4096}}")
_FIELDS: Final = re.compile(rf'(?:"[^"\\\x00-\x1f]*+"[ \t\r\n]*+:[ \t\r\n]*+{_SIMPLE}){{1,4096}}')
"""Sequences of simple elements and fields, each with its comma. They let a body of millions of elements be skipped in
few steps.

Rows have an end because each element takes memory while it is matched. ``++`` would free it; but before Python
3.11.5 a possessive group that begins to match and fails leaves behind what it had passed over.
"""
_END: Final = "unexpected end of JSON input"
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_ESCAPES: Final = '"\\/bfnrt'


class _Broken(Exception):
    """The text of the first error."""


def explain_syntax(text: str) -> str | None:
    """Return the first syntax error of ``text``; None if it is well-formed JSON."""
    try:
        scanner = _Scanner(text)
        scanner.value("looking for beginning of value")
        scanner.blanks()
        if not scanner.at_end:
            scanner.unexpected("after top-level value")
    except _Broken as broken:
        return str(broken)
    return None


class _Scanner:
    """Goes through the text once, keeping the open brackets in a list so that depth costs no stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._text)

    def blanks(self) -> None:
        self._pass_over(_BLANKS)

    def _pass_over(self, letters: re.Pattern[str]) -> None:
        found = letters.match(self._text, self._position)
        if found is not None:
            self._position = found.end()

    def unexpected(self, where: str) -> None:
        if self.at_end:
            raise _Broken(_END)
        raise _Broken(f"invalid character {_quoted(self._text[self._position])} {where}")

    def _letter(self) -> str:
        if self.at_end:
            raise _Broken(_END)
        return self._text[self._position]

    def value(self, where: str) -> None:
        """Skip one value with everything in it; raise `_Broken` at the first syntax error."""
        open_brackets: list[str] = []
        while True:
            self.blanks()
            if open_brackets and open_brackets[-1] == "[":
                self._pass_over(_ELEMENTS)
            letter = self._letter()
            if letter in "{[":
                self._position += 1
                if len(open_brackets) >= MAX_DEPTH:
                    raise _Broken(TOO_DEEP)
                open_brackets.append(letter)
                self.blanks()
                if letter == "{":
                    if self._letter() == "}":
                        self._position += 1
                        open_brackets.pop()
                    else:
                        self._key()
                        where = "looking for beginning of value"
                        continue
                elif self._letter() == "]":
                    self._position += 1
                    open_brackets.pop()
                else:
                    where = "looking for beginning of value"
                    continue
            else:
                self._scalar(letter, where)
            if not self._close(open_brackets):
                return
            where = "looking for beginning of value"

    def _close(self, open_brackets: list[str]) -> bool:
        """After a value: close what ends here; whether another value follows."""
        while open_brackets:
            self.blanks()
            letter = self._letter()
            inside_object = open_brackets[-1] == "{"
            if letter == ",":
                self._position += 1
                if inside_object:
                    self.blanks()
                    self._key()
                return True
            if letter == ("}" if inside_object else "]"):
                self._position += 1
                open_brackets.pop()
                continue
            self.unexpected("after object key:value pair" if inside_object else "after array element")
        return False

    def _key(self) -> None:
        self._pass_over(_FIELDS)
        if self._letter() != '"':
            self.unexpected("looking for beginning of object key string")
        self._string()
        self.blanks()
        if self._letter() != ":":
            self.unexpected("after object key")
        self._position += 1

    def _scalar(self, letter: str, where: str) -> None:
        if letter == '"':
            self._string()
        elif letter in _LITERALS:
            self._literal(_LITERALS[letter])
        elif letter == "-" or letter in _DIGIT:
            self._number()
        else:
            self.unexpected(where)

    def _string(self) -> None:
        self._position += 1
        while True:
            self._pass_over(_ORDINARY)
            letter = self._letter()
            if letter == '"':
                self._position += 1
                return
            if letter < " ":
                self.unexpected("in string literal")
            self._position += 1
            if letter == "\\":
                escape = self._letter()
                if escape == "u":
                    for _ in range(4):
                        self._position += 1
                        if self._letter() not in "0123456789abcdefABCDEF":
                            self.unexpected("in \\u hexadecimal character escape")
                elif escape not in _ESCAPES:
                    self.unexpected("in string escape code")
                self._position += 1

    def _literal(self, word: str) -> None:
        for expected in word:
            if self._letter() != expected:
                self.unexpected(f"in literal {word} (expecting {_quoted(expected)})")
            self._position += 1

    def _number(self) -> None:
        if self._text[self._position] == "-":
            self._position += 1
            if self._letter() not in _DIGIT:
                self.unexpected("in numeric literal")
        if self._text[self._position] == "0":
            self._position += 1
        else:
            self._digits()
        if not self.at_end and self._text[self._position] == ".":
            self._position += 1
            if self._letter() not in _DIGIT:
                self.unexpected("after decimal point in numeric literal")
            self._digits()
        if not self.at_end and self._text[self._position] in "eE":
            self._position += 1
            if self._letter() in "+-":
                self._position += 1
            if self._letter() not in _DIGIT:
                self.unexpected("in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        self._pass_over(_DIGITS)


def _quoted(letter: str) -> str:
    if letter == "'":
        return "'\\''"
    if letter == '"':
        return "'\"'"
    return f"'{go_quote(letter)[1:-1]}'"
