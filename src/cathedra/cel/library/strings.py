"""Functions of texts (docs/spec/cel.md §6.1). Indexes count code points; «Ascii» in a name is meant literally."""

from __future__ import annotations

from typing import Final

from cathedra.api.goquote import ESCAPES
from cathedra.cel.library.costs import FORMATTED, JOINED, QUOTED, REPLACED, REWRITTEN, SPLIT, TRAVERSED
from cathedra.cel.library.formatting import format_text
from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.values import CELValue, Failure, holdable, text

_LOWER: Final = {i: i + 32 for i in range(65, 91)}
_UPPER: Final = {i: i - 32 for i in range(97, 123)}
_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
)


def _out_of_range(index: int) -> Failure:
    return Failure(f"index out of range: {index}")


def char_at(value: CELValue, index: CELValue) -> CELValue:
    """Evaluate charAt; the position after the last is empty."""
    return value[index : index + 1] if 0 <= index <= len(value) else _out_of_range(index)


def index_of(value: CELValue, wanted: CELValue, start: CELValue = 0) -> CELValue:
    """Return the position of the first occurrence."""
    if start < 0:
        return _out_of_range(start)
    if not wanted:
        return start
    return value.find(wanted, start) if start < len(value) else -1


def last_index_of(value: CELValue, wanted: CELValue) -> CELValue:
    """Evaluate lastIndexOf without a start."""
    if not wanted:
        return len(value)
    # Kubernetes compares the lengths in bytes before it searches in code points.
    if len(value.encode("utf-8", "replace")) < len(wanted.encode("utf-8", "replace")):
        return -1
    return last_index_of_from(value, wanted, len(value) - 1)


def last_index_of_from(value: CELValue, wanted: CELValue, start: CELValue) -> CELValue:
    """Evaluate lastIndexOf with a start."""
    if start < 0:
        return _out_of_range(start)
    if not wanted:
        return start
    if start >= len(value):
        return -1
    # Searching backwards may take as long as the product of the lengths; forwards it is linear.
    end = min(start + len(wanted), len(value))
    found = value[:end][::-1].find(wanted[::-1])
    return -1 if found < 0 else end - found - len(wanted)


def replace(value: CELValue, old: CELValue, new: CELValue, limit: CELValue = -1) -> str:
    """Evaluate replace; an empty text to be replaced stands between all code points."""
    count = value.count(old)
    # Computed before the text is built: a short expression can require gigabytes.
    holdable(len(value) + (count if limit < 0 else min(count, limit)) * len(new), str)
    return str(value.replace(old, new, limit if limit >= 0 else -1))


def split(value: CELValue, separator: CELValue, limit: CELValue = -1) -> list[str]:
    """Evaluate split; by nothing means into code points."""
    if limit == 0:
        return []
    if not separator:
        parts = list(value)
        return parts if limit < 0 or limit >= len(parts) else [*parts[: limit - 1], "".join(parts[limit - 1 :])]
    return list(value.split(separator, limit - 1 if limit > 0 else -1))


def substring(value: CELValue, start: CELValue) -> CELValue:
    """Evaluate substring to the end."""
    return value[start:] if 0 <= start <= len(value) else _out_of_range(start)


def substring_range(value: CELValue, start: CELValue, end: CELValue) -> CELValue:
    """Evaluate substring from start up to end."""
    if start > end:
        return Failure(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(value):
            return _out_of_range(index)
    return value[start:end]


def join(values: CELValue, separator: CELValue = "") -> CELValue:
    """Return the texts joined by a separator; a Failure if one is no string."""
    for value in values:
        if value.__class__ is not str:
            return Failure(f"join: invalid input: {text(value)}")
    holdable(sum(map(len, values)) + len(values) * len(separator), str)
    return separator.join(values)


def quote(value: CELValue) -> str:
    """Return the text in quotes, with escapes."""
    return '"' + "".join(ESCAPES.get(c, c) for c in value) + '"'


OVERLOADS: Final[Functions] = {
    "charAt": (declare("string_char_at_int: string., int -> string", char_at),),
    "indexOf": (
        declare("string_index_of_string: string., string -> int", index_of, TRAVERSED),
        declare("string_index_of_string_int: string., string, int -> int", index_of, TRAVERSED),
    ),
    "lastIndexOf": (
        declare("string_last_index_of_string: string., string -> int", last_index_of, TRAVERSED),
        declare("string_last_index_of_string_int: string., string, int -> int", last_index_of_from, TRAVERSED),
    ),
    "lowerAscii": (declare("string_lower_ascii: string. -> string", lambda s: s.translate(_LOWER), REWRITTEN),),
    "replace": (
        declare("string_replace_string_string: string., string, string -> string", replace, REPLACED, dear=True),
        declare(
            "string_replace_string_string_int: string., string, string, int -> string", replace, REPLACED, dear=True
        ),
    ),
    "split": (
        declare("string_split_string: string., string -> list(string)", split, SPLIT),
        declare("string_split_string_int: string., string, int -> list(string)", split, SPLIT),
    ),
    "substring": (
        declare("string_substring_int: string., int -> string", substring, REWRITTEN),
        declare("string_substring_int_int: string., int, int -> string", substring_range, REWRITTEN),
    ),
    "trim": (declare("string_trim: string. -> string", lambda s: s.strip(_SPACE), REWRITTEN),),
    "upperAscii": (declare("string_upper_ascii: string. -> string", lambda s: s.translate(_UPPER), REWRITTEN),),
    "format": (declare("string_format: string., list(dyn) -> string", format_text, FORMATTED),),
    "strings.quote": (declare("strings_quote: string -> string", quote, QUOTED),),
    "join": (
        declare("list_join: list(string). -> string", join, JOINED),
        declare("list_join_string: list(string)., string -> string", join, JOINED),
    ),
}
