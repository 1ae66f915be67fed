"""Parser of RE2's syntax, with the errors of Go's ``regexp/syntax``, and its translation to a program.

The parser keeps a stack as Go's does, so nesting costs no recursion. It makes no tree: each piece of the pattern is its
program at once, forwards and backwards, because a leftmost match is found by reading the text in both directions
(`cathedra.cel.regex.automaton`). Jumps are relative, so a repeated piece is its program several times.

Groups capture nothing: CEL and schemas use only where a match begins and ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cathedra.cel.regex import classes
from cathedra.cel.regex.classes import CharacterSet

Instruction = tuple[str, object, int]
"""``char`` with a set, ``split`` and ``jump`` with relative targets, ``assert`` with a condition."""

_MOST_REPEATED: Final = 1000
_MOST_NESTED: Final = 1000
_MOST_INSTRUCTIONS: Final = 200_000
"""Go has 3.3 million; a pattern of this size takes some 50 MB here."""
_OCTAL: Final = "01234567"
_DIGITS: Final = "0123456789"
_SURROGATES: Final = range(0xD800, 0xE000)
_CONTROL: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_ANCHORS: Final = {"A": "text-begin", "z": "text-end", "b": "boundary", "B": "no-boundary"}
_SOURCE: Final = {
    "text-begin": r"\A",
    "text-end": r"\z",
    "line-begin": "(?m:^)",
    "line-end": "(?m:$)",
    "boundary": r"\b",
    "no-boundary": r"\B",
}


class PatternError(Exception):
    """A text that is no regular expression. ``str()`` is what Go's ``regexp`` answers."""

    def __init__(self, problem: str, text: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{text}`")


@dataclass(slots=True, frozen=True)
class Piece:
    """A part of a pattern as programs in both directions, and in the spelling that every RE2 reads alike."""

    forward: Sequence[Instruction]
    backward: Sequence[Instruction]
    source: str
    nullable: bool
    height: int = 1
    repeats: int = 1
    """The largest product of nested repetitions, which Go limits to 1000."""


_EMPTY: Final = Piece((), (), "(?:)", nullable=True)


@dataclass(slots=True, frozen=True)
class _Flags:
    fold: bool = False
    multi_line: bool = False
    dot_newline: bool = False
    lazy: bool = False


@dataclass(slots=True)
class _OpenGroup:
    """An open group: the flags outside of it, its alternatives that are complete, and the pieces of the current one."""

    outside: _Flags
    alternatives: list[Piece] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)


def parse(pattern: str) -> Piece:
    """Return the program of the pattern.

    Raises:
        PatternError: Go's ``regexp`` refuses the pattern, or its program is too large.
    """
    return _PatternParser(pattern).run()


class _PatternParser:
    __slots__ = ("_flags", "_groups", "_pattern", "_position", "_repeated")

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._flags = _Flags()
        self._groups = [_OpenGroup(self._flags)]
        self._repeated: int | None = None  # where the previous repetition operator begins, if it ends here

    def run(self) -> Piece:
        try:
            self._pattern.encode()
        except UnicodeEncodeError:
            raise PatternError("invalid UTF-8", "") from None
        while self._position < len(self._pattern):
            before = self._repeated
            self._repeated = None
            self._read_one(self._pattern[self._position], before)
        if len(self._groups) > 1:
            raise PatternError("missing closing )", self._pattern)
        return self._close(self._groups.pop())

    def _read_one(self, character: str, repeated: int | None) -> None:
        if character in "*+?{" and self._repetition(character, repeated):
            return
        if character == "(":
            self._open()
        elif character == "|":
            group = self._groups[-1]
            group.alternatives.append(_concatenated(group.pieces))
            group.pieces = []
            self._position += 1
        elif character == ")":
            self._end_group()
        elif character in "^$":
            side = "begin" if character == "^" else "end"
            self._add(_assertion(f"{'line' if self._flags.multi_line else 'text'}-{side}"))
            self._position += 1
        elif character == ".":
            self._add(_character(classes.ANY if self._flags.dot_newline else classes.except_for(classes.NEWLINE)))
            self._position += 1
        elif character == "[":
            self._class()
        elif character == "\\":
            self._escaped()
        else:
            self._literal(ord(character))
            self._position += 1

    def _add(self, piece: Piece) -> None:
        self._groups[-1].pieces.append(piece)

    def _literal(self, point: int) -> None:
        one = classes.single(point)
        self._add(_character(classes.folded(one) if self._flags.fold else one))

    def _error(self, problem: str, start: int, end: int | None = None) -> PatternError:
        return PatternError(problem, self._pattern[start : self._position if end is None else end])

    # --- groups and flags ---

    def _open(self) -> None:
        if self._pattern.startswith("(?", self._position):
            self._perl_group()
            return
        self._groups.append(_OpenGroup(self._flags))
        self._position += 1

    def _end_group(self) -> None:
        if len(self._groups) == 1:
            raise PatternError("unexpected )", self._pattern)
        group = self._groups.pop()
        self._flags = group.outside
        piece = self._close(group)
        self._add(Piece(piece.forward, piece.backward, piece.source, piece.nullable, piece.height + 1, piece.repeats))
        self._position += 1

    def _close(self, group: _OpenGroup) -> Piece:
        piece = _alternated([*group.alternatives, _concatenated(group.pieces)])
        if piece.height > _MOST_NESTED:
            raise PatternError("expression nests too deeply", self._pattern)
        if len(piece.forward) > _MOST_INSTRUCTIONS:
            raise PatternError("expression too large", self._pattern)
        return piece

    def _perl_group(self) -> None:
        start = self._position
        rest = len(self._pattern) - start
        for opening, shortest in (("(?P<", 4), ("(?<", 3)):
            if self._pattern.startswith(opening, start) and rest > shortest:
                self._named_group(start, start + len(opening))
                return
        self._position += 2
        flags, positive, seen = self._flags, True, False
        while self._position < len(self._pattern):
            character = self._pattern[self._position]
            self._position += 1
            if character in "imsU":
                flags, seen = _with(flags, character, on=positive), True
            elif character == "-" and positive:
                positive, seen = False, False
            elif character in ":)" and (positive or seen):
                if character == ":":
                    self._groups.append(_OpenGroup(self._flags))
                self._flags = flags
                return
            else:
                break
        raise self._error("invalid or unsupported Perl syntax", start)

    def _named_group(self, start: int, name: int) -> None:
        end = self._pattern.find(">", start)
        if end < 0:
            raise self._error("invalid named capture", start, len(self._pattern))
        text = self._pattern[name:end]
        if not text or not all(each == "_" or (each.isascii() and each.isalnum()) for each in text):
            raise self._error("invalid named capture", start, end + 1)
        self._groups.append(_OpenGroup(self._flags))
        self._position = end + 1

    # --- repetitions ---

    def _repetition(self, operator: str, repeated: int | None) -> bool:
        start = self._position
        bounds, end = _counted(self._pattern, start) if operator == "{" else (_BOUNDS[operator], start + 1)
        if bounds is None:
            return False
        least, most = bounds
        if operator == "{" and (least < 0 or least > _MOST_REPEATED or most > _MOST_REPEATED or 0 <= most < least):
            raise self._error("invalid repeat count", start, end)
        lazy = self._flags.lazy
        after = end
        if self._pattern.startswith("?", after):
            after, lazy = after + 1, not lazy
        if repeated is not None:
            raise self._error("invalid nested repetition operator", repeated, after)
        pieces = self._groups[-1].pieces
        if not pieces:
            raise self._error("missing argument to repetition operator", start, after)
        product = pieces[-1].repeats * max(least, most) if most else 1
        if operator == "{" and (least >= 2 or most >= 2) and product > _MOST_REPEATED:
            raise self._error("invalid repeat count", start, after)
        if max(least, most, 1) * len(pieces[-1].forward) > _MOST_INSTRUCTIONS:
            raise PatternError("expression too large", self._pattern)
        pieces[-1] = _repeated(pieces[-1], least, most, lazy=lazy)
        self._position, self._repeated = after, start
        return True

    # --- classes and escapes ---

    def _escaped(self) -> None:
        start = self._position
        following = self._pattern[start + 1 : start + 2]
        if following in _ANCHORS:
            self._add(_assertion(_ANCHORS[following]))
            self._position += 2
        elif following == "Q":
            end = self._pattern.find(r"\E", start + 2)
            for character in self._pattern[start + 2 : None if end < 0 else end]:
                self._literal(ord(character))
            self._position = len(self._pattern) if end < 0 else end + 2
        elif (characters := self._class_escape()) is not None:
            self._add(_character(characters))
        else:
            self._literal(self._escape())

    def _class_escape(self) -> CharacterSet | None:
        """Read ``\\d``, ``\\pN`` and the like; None if something else is here."""
        start = self._position
        letter = self._pattern[start + 1 : start + 2]
        if self._pattern[start] != "\\" or not letter:
            return None
        if letter.lower() in classes.PERL and letter in "dswDSW":
            self._position += 2
            return self._signed(classes.PERL[letter.lower()], positive=letter.islower())
        return self._unicode_class(letter) if letter in "pP" else None

    def _unicode_class(self, letter: str) -> CharacterSet:
        start = self._position
        end = start + 3
        name = self._pattern[start + 2 : end]
        if name == "{":
            end = self._pattern.find("}", start) + 1
            if end == 0:
                raise self._error("invalid character class range", start, len(self._pattern))
            name = self._pattern[start + 3 : end - 1]
        positive = (letter == "p") != name.startswith("^")
        characters = classes.named(name.removeprefix("^"))
        if characters is None:
            raise self._error("invalid character class range", start, end)
        self._position = end
        return self._signed(characters, positive=positive)

    def _signed(self, characters: CharacterSet, *, positive: bool) -> CharacterSet:
        whole = classes.folded(characters) if self._flags.fold else characters
        return whole if positive else classes.except_for(whole)

    def _class(self) -> None:
        start = self._position
        self._position += 1
        positive = not self._pattern.startswith("^", self._position)
        if not positive:
            self._position += 1
        first, members = True, list[CharacterSet]()
        while first or not self._pattern.startswith("]", self._position):
            first = False
            members.append(self._member(start))
        self._position += 1
        characters = classes.union(members)
        self._add(_character(characters if positive else classes.except_for(characters)))

    def _member(self, start: int) -> CharacterSet:
        here = self._position
        if here >= len(self._pattern):
            raise self._error("missing closing ]", start)
        if self._pattern.startswith("[:", here) and (end := self._pattern.find(":]", here + 2)) >= 0:
            name = self._pattern[here + 2 : end]
            characters = classes.POSIX.get(name.removeprefix("^"))
            if characters is None:
                raise self._error("invalid character class range", here, end + 2)
            self._position = end + 2
            return self._signed(characters, positive=not name.startswith("^"))
        whole = self._class_escape()
        return self._range(start) if whole is None else whole

    def _range(self, start: int) -> CharacterSet:
        here = self._position
        low = high = self._class_character(start)
        if self._pattern.startswith("-", self._position) and self._pattern[self._position + 1 :][:1] not in ("", "]"):
            self._position += 1
            high = self._class_character(start)
            if high < low:
                raise self._error("invalid character class range", here)
        return self._signed(classes.single(low, high), positive=True)

    def _class_character(self, start: int) -> int:
        if self._position >= len(self._pattern):
            raise self._error("missing closing ]", start)
        if self._pattern[self._position] == "\\":
            return self._escape()
        self._position += 1
        return ord(self._pattern[self._position - 1])

    def _escape(self) -> int:
        """Read an escaped character, and return its code point."""
        start = self._position
        self._position += 1
        character = self._next()
        if not character:
            raise PatternError("trailing backslash at end of expression", "")
        if character in _OCTAL and (character == "0" or self._pattern[self._position : self._position + 1] in _EIGHT):
            end = self._position
            while end < start + 4 and self._pattern[end : end + 1] in _EIGHT:
                end += 1
            self._position = end
            return int(self._pattern[start + 1 : end], 8)
        if character == "x" and (point := self._hexadecimal()) is not None:
            return point
        if character in _CONTROL:
            return _CONTROL[character]
        if character.isascii() and not character.isalnum():
            return ord(character)
        raise self._error("invalid escape sequence", start)

    def _hexadecimal(self) -> int | None:
        first = self._next()
        if first != "{":
            digits = first + self._next()
            return int(digits, 16) if len(digits) == 2 and _is_hexadecimal(digits) else None
        point, digits = 0, ""
        while (digit := self._next()) and digit != "}":
            if not _is_hexadecimal(digit):
                return None
            point, digits = point * 16 + int(digit, 16), digit
            if point > 0x10FFFF:
                return None
        return point if digit and digits else None

    def _next(self) -> str:
        character = self._pattern[self._position : self._position + 1]
        self._position += len(character)
        return character


_BOUNDS: Final = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}
_EIGHT: Final = frozenset(_OCTAL)


def _is_hexadecimal(digits: str) -> bool:
    return all(digit in "0123456789abcdefABCDEF" for digit in digits)


def _with(flags: _Flags, letter: str, *, on: bool) -> _Flags:
    names = {"i": "fold", "m": "multi_line", "s": "dot_newline", "U": "lazy"}
    return _Flags(**{name: on if names[letter] == name else getattr(flags, name) for name in names.values()})


def _counted(pattern: str, start: int) -> tuple[tuple[int, int] | None, int]:
    """Return the bounds of ``{n}``, ``{n,}`` or ``{n,m}`` and where it ends; no bounds for a literal brace."""
    least, end = _number(pattern, start + 1)
    if least is None:
        return None, start
    most = least
    if pattern.startswith(",", end):
        end += 1
        bound, end = (-1, end) if pattern.startswith("}", end) else _number(pattern, end)
        if bound is None:
            return None, start
        most = bound
    if not pattern.startswith("}", end):
        return None, start
    return (least, most), end + 1


def _number(pattern: str, start: int) -> tuple[int | None, int]:
    end = start
    while pattern[end : end + 1] in _DECIMAL:
        end += 1
    digits = pattern[start:end]
    if not digits or (len(digits) > 1 and digits[0] == "0"):
        return None, start
    return (int(digits) if len(digits) < 9 else _MOST_REPEATED + 1), end


_DECIMAL: Final = frozenset(_DIGITS)


# --- programs -------------------------------------------------------------------------------------------------------


def _character(characters: CharacterSet) -> Piece:
    code = (("char", characters, 0),)
    return Piece(code, code, _written(characters), nullable=False)


def _assertion(condition: str) -> Piece:
    code = (("assert", condition, 0),)
    return Piece(code, code, _SOURCE[condition], nullable=True)


def _written(characters: CharacterSet) -> str:
    if len(characters) == 2 and characters[1] == characters[0] + 1 and characters[0] not in _SURROGATES:
        return _quoted(characters[0])
    ranges = [
        # No text has surrogates, and they cannot be encoded.
        (0xE000 if low in _SURROGATES else low, 0xD7FF if end - 1 in _SURROGATES else end - 1)
        for low, end in zip(characters[::2], characters[1::2], strict=True)
    ]
    written = "".join(f"{_quoted(low)}-{_quoted(high)}" for low, high in ranges if low <= high)
    return f"[{written}]" if written else "[^\0-\U0010ffff]"


def _quoted(point: int) -> str:
    character = chr(point)
    return character if point >= 0x80 or character.isalnum() or point < 0x20 else f"\\{character}"


def _concatenated(pieces: list[Piece]) -> Piece:
    if not pieces:
        return _EMPTY
    if len(pieces) == 1:
        return pieces[0]
    return Piece(
        [each for piece in pieces for each in piece.forward],
        [each for piece in reversed(pieces) for each in piece.backward],
        "".join(piece.source for piece in pieces),
        all(piece.nullable for piece in pieces),
        1 + max(piece.height for piece in pieces),
        max(piece.repeats for piece in pieces),
    )


def _alternated(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    return Piece(
        _choice([piece.forward for piece in pieces]),
        _choice([piece.backward for piece in pieces]),
        f"(?:{'|'.join(piece.source for piece in pieces)})",
        any(piece.nullable for piece in pieces),
        1 + max(piece.height for piece in pieces),
        max(piece.repeats for piece in pieces),
    )


def _choice(codes: list[Sequence[Instruction]]) -> Sequence[Instruction]:
    """Return the program of alternatives in order of preference, each followed by a jump to the end."""
    left = sum(len(code) + 2 for code in codes[:-1]) + len(codes[-1])
    result: list[Instruction] = []
    for code in codes[:-1]:
        result.append(("split", 1, len(code) + 2))
        result.extend(code)
        result.append(("jump", 0, left - len(result)))
    result.extend(codes[-1])
    return result


def _repeated(piece: Piece, least: int, most: int, *, lazy: bool) -> Piece:
    # x* of an empty x is (x+)?: with a plain loop, the empty alternative of (|a)* would end a match early (RE2, Go).
    codes = [_loop(code, least, most, lazy=lazy, nullable=piece.nullable) for code in (piece.forward, piece.backward)]
    bounds = {(0, -1): "*", (1, -1): "+", (0, 1): "?"}.get((least, most)) or (
        f"{{{least}}}" if least == most else f"{{{least},{'' if most < 0 else most}}}"
    )
    product = piece.repeats * max(least, most) if max(least, most) >= 2 else piece.repeats
    return Piece(
        codes[0],
        codes[1],
        f"(?:{piece.source}){bounds}{'?' if lazy else ''}",
        piece.nullable or least == 0,
        piece.height + 1,
        product if most else 1,
    )


def _loop(code: Sequence[Instruction], least: int, most: int, *, lazy: bool, nullable: bool) -> Sequence[Instruction]:
    if most < 0:
        if least == 0:
            if nullable:
                return _optional(_loop(code, 1, -1, lazy=lazy, nullable=True), lazy=lazy)
            return [_split(1, len(code) + 2, lazy=lazy), *code, ("jump", 0, -(len(code) + 1))]
        return [*list(code) * least, _split(-len(code), 1, lazy=lazy)]
    optional: list[Instruction] = []
    # x(x(x)?)?: each further copy is tried only after the one before it, and the first refusal leaves all others
    whole = (len(code) + 1) * (most - least)
    for number in range(most - least):
        optional.append(_split(1, whole - number * (len(code) + 1), lazy=lazy))
        optional.extend(code)
    return [*list(code) * least, *optional]


def _optional(code: Sequence[Instruction], *, lazy: bool) -> Sequence[Instruction]:
    return [_split(1, len(code) + 1, lazy=lazy), *code]


def _split(more: int, leave: int, *, lazy: bool) -> Instruction:
    return ("split", leave, more) if lazy else ("split", more, leave)
