"""``format``: the clauses of format strings, in the older form that Kubernetes keeps (docs/spec/cel.md §6.1).

The same walk over the format string serves the evaluation and the check of constant format strings at compile time: the
caller passes the function that formats one argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cathedra.api.goquote import go_quote
from cathedra.cel import _trampoline
from cathedra.cel._trampoline import Descent
from cathedra.cel.library import times
from cathedra.cel.library.conversions import to_string
from cathedra.cel.values import CELValue, Duration, Failure, Timestamp, TypeValue, UInt, decode_key, type_name, walkable

_PRECISION: Final = 6
_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

_REQUIREMENTS: Final = {
    "s": (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
        "and timestamps"
    ),
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}


class FormatError(Exception):
    """A clause or its argument is invalid. ``argument`` is the position of the argument, or -1."""

    def __init__(self, text: str, argument: int = -1) -> None:
        self.text, self.argument = text, argument
        super().__init__(text)


def wrong_type(clause: str, given: str) -> str:
    """Return the error text for an argument of a type that the clause cannot format."""
    return f"{_REQUIREMENTS[clause.lower()]}, was given {given}"


Clause = Callable[[str, int | None, int], str]
"""(letter, precision, position of the argument) → text."""


def render(pattern: str, count: int, clause: Clause, *, end_first: bool = False) -> str:
    """Walk over a format string with ``count`` arguments.

    With ``end_first`` an unfinished clause is noticed before a missing argument, as when constants are checked.

    Raises:
        FormatError: with the words that users see.
    """
    out: list[str] = []
    position, argument = 0, 0
    while position < len(pattern):
        char = pattern[position]
        if char != "%":
            out.append(char)
            position += 1
            continue
        if pattern[position + 1 : position + 2] == "%":
            out.append("%")
            position += 2
            continue
        # The order of these two checks differs in Kubernetes between compilation and evaluation.
        if argument >= count and not (end_first and position + 1 >= len(pattern)):
            raise FormatError(f"index {argument} out of range")
        if position + 1 >= len(pattern):
            raise FormatError("unexpected end of string")
        position, letter, precision = _clause(pattern, position + 1)
        try:
            out.append(clause(letter, precision, argument))
        except FormatError as error:
            raise FormatError(f"error during formatting: {error.text}", error.argument) from error
        argument += 1
    return "".join(out)


def _clause(pattern: str, position: int) -> tuple[int, str, int | None]:
    precision: int | None = None
    if pattern[position] == ".":
        end = position + 1
        while end < len(pattern) and pattern[end].isascii() and pattern[end].isdigit():
            end += 1
        precision = _read_precision(pattern, position + 1, end)
        position = end
    letter = pattern[position]
    if letter not in "sdfebxXo":
        # Go's library reads one byte of the text, not at the character.
        shown = letter if letter.isascii() else chr(letter.encode()[0])
        raise FormatError(f'could not parse formatting clause: unrecognized formatting clause "{shown}"')
    return position + 1, letter, precision


def _read_precision(pattern: str, start: int, end: int) -> int:
    prefix = "could not parse formatting clause: error while parsing precision: "
    if end >= len(pattern):
        raise FormatError(prefix + "could not find end of precision specifier")
    digits = pattern[start:end]
    if not digits:
        raise FormatError(
            prefix + 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
        )
    if len(digits) > 18:
        raise FormatError(
            prefix
            + f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": value out of range'
        )
    return int(digits)


def format_text(pattern: CELValue, arguments: CELValue) -> CELValue:
    """Return ``pattern.format(arguments)``, or the Failure that its pattern causes."""
    seen = len(arguments)
    try:
        return render(pattern, seen, lambda letter, precision, at: _show(letter, precision, arguments[at]))
    except FormatError as error:
        return Failure(error.text)


def _show(letter: str, precision: int | None, value: CELValue) -> str:
    kind = value.__class__
    match letter:
        case "s":
            return str(_trampoline.run(_string(value)))
        case "d" if kind is int or kind is UInt:
            return str(int(value))
        case "f" if _is_double(value):
            return _fixed(float(value), _PRECISION if precision is None else precision)
        case "e" if _is_double(value):
            return _scientific(float(value), _PRECISION if precision is None else precision)
        case "b" if kind in (int, UInt, bool):
            return format(int(value), "b")
        case "o" if kind is int or kind is UInt:
            return format(int(value), "o")
        case "x" | "X" if kind in (int, UInt, str, bytes):
            return _hexadecimal(value, letter)
    raise FormatError(wrong_type(letter, type_name(value)))


def _is_double(value: CELValue) -> bool:
    return value.__class__ is float or value in ("NaN", "Infinity", "-Infinity")


def _fixed(value: float, precision: int) -> str:
    """Kubernetes keeps the precision in one byte, so 257 digits are one."""
    special = _special(value)
    return special if special is not None else f"{value:,.{precision % 256}f}"


def _special(value: float) -> str | None:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "-∞"
    return None


def _scientific(value: float, width: int) -> str:
    """Six digits always: Kubernetes takes the precision for the width."""
    shown = _special(value)
    if shown is None:
        mantissa, _, exponent = f"{value:.{_PRECISION}e}".partition("e")
        power = int(exponent)
        digits = f"{abs(power):02d}"
        shown = f"{mantissa}×10{('-' + digits if power < 0 else digits).translate(_SUPERSCRIPT)}"
    return shown.rjust(min(width, 10_000))


def _hexadecimal(value: CELValue, letter: str) -> str:
    if isinstance(value, int):
        return format(int(value), letter)
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    return str(raw.hex().upper() if letter == "X" else raw.hex())


def _string(value: CELValue) -> Descent[str]:
    if value is None:
        return "null"
    if isinstance(value, list):
        return (yield from _list(walkable(value)))
    if isinstance(value, dict):
        return (yield from _map(walkable(value)))
    if value.__class__ is TypeValue:
        return str(value.name)
    if value.__class__ in (bool, int, UInt, float, str, bytes, Duration, Timestamp):
        shown = to_string(value)
        if isinstance(shown, Failure):
            raise FormatError(f'could not convert argument "{shown.text}" to string')
        return str(shown)
    raise FormatError(wrong_type("s", type_name(value)))


def _list(values: list[CELValue]) -> Descent[str]:
    shown = []
    for value in values:
        shown.append((yield _member(value)))
    return "[" + ", ".join(shown) + "]"


def _map(mapping: dict[CELValue, CELValue]) -> Descent[str]:
    pairs: list[tuple[str, str]] = []
    for raw, value in mapping.items():
        key = decode_key(raw)
        if key.__class__ not in (str, bool, int, UInt):
            raise FormatError(f"no formatting function for map key of type {type_name(key)}")
        pairs.append(((yield _member(key)), (yield _member(value))))
    # Sorted by their text: Go's maps have no order.
    return "{" + ", ".join(f"{key}:{value}" for key, value in sorted(pairs, key=lambda pair: pair[0])) + "}"


def _member(value: CELValue) -> Descent[str]:
    kind = value.__class__
    if kind is float:
        shown = "NaN" if value != value else f"{value:.6f}"
        if value in (float("inf"), float("-inf")):
            shown = "+Inf" if value > 0 else "-Inf"
        return shown if shown[-1].isdigit() else f'"{shown}"'
    if kind is Timestamp:
        return f"timestamp({go_quote(times.timestamp_text(value))})"
    if kind is Duration:
        return f"duration({go_quote(times.duration_text(value))})"
    if value is not None and not isinstance(value, (bool, int, str, bytes, list, dict, TypeValue)):
        raise FormatError(f"no formatting function for {type_name(value)}")
    if isinstance(value, list):
        return (yield from _list(value))
    if isinstance(value, dict):
        return (yield from _map(value))
    shown = yield from _string(value)
    if kind is str:
        return go_quote(shown)
    return f"b{go_quote(shown)}" if kind is bytes else shown
