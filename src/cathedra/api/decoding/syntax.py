"""What is wrong with broken JSON, in the words of the Go decoder that Kubernetes uses."""

from __future__ import annotations

from typing import Final

__all__ = ["explain_syntax"]

_BLANK: Final = " \t\r\n"
_END: Final = "unexpected end of JSON input"
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_ESCAPES: Final = '"\\/bfnrt'
_DEEPEST: Final = 10000


class _Broken(Exception):
    """The text of the first error."""


def explain_syntax(text: str) -> str | None:
    """The first syntax error of ``text``; None if it is well-formed JSON."""
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
        while not self.at_end and self._text[self._position] in _BLANK:
            self._position += 1

    def unexpected(self, where: str) -> None:
        if self.at_end:
            raise _Broken(_END)
        raise _Broken(f"invalid character {_quoted(self._text[self._position])} {where}")

    def _letter(self) -> str:
        if self.at_end:
            raise _Broken(_END)
        return self._text[self._position]

    def value(self, where: str) -> None:
        """One value with everything in it."""
        open_brackets: list[str] = []
        while True:
            self.blanks()
            letter = self._letter()
            if letter in "{[":
                self._position += 1
                if len(open_brackets) >= _DEEPEST:
                    raise _Broken("exceeded max depth")
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
        elif letter == "-" or letter.isdigit():
            self._number()
        else:
            self.unexpected(where)

    def _string(self) -> None:
        self._position += 1
        while True:
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
            if not self._letter().isdigit():
                self.unexpected("in numeric literal")
        if self._text[self._position] == "0":
            self._position += 1
        else:
            self._digits()
        if not self.at_end and self._text[self._position] == ".":
            self._position += 1
            if not self._letter().isdigit():
                self.unexpected("after decimal point in numeric literal")
            self._digits()
        if not self.at_end and self._text[self._position] in "eE":
            self._position += 1
            if self._letter() in "+-":
                self._position += 1
            if not self._letter().isdigit():
                self.unexpected("in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        while not self.at_end and self._text[self._position].isdigit():
            self._position += 1


def _quoted(letter: str) -> str:
    if letter == "'":
        return "'\\''"
    if letter == '"':
        return "'\"'"
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "\ufeff": "\\ufeff"}
    if letter in named:
        return f"'{named[letter]}'"
    return f"'{letter}'" if letter.isprintable() else f"'\\x{ord(letter):02x}'"
