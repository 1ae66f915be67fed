"""Text from outside, made safe to print: names, attributes, selectors, errors of drivers, dumps and file names.

A terminal obeys control characters. An attribute of a device or an error of a driver can hold the sequence that clears
the screen, renames the window or hides a line, and it reaches the terminal of an administrator through a table, an
explanation or the log. `printable` replaces such characters by a visible form, as kubectl does with the output of its
tables. It is applied where text leaves the program: to what the commands print and to each line of the log. JSON and
YAML keep their own escapes.

`counted` writes a number of things.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import msgspec

T = TypeVar("T")

# Control characters but for tab and line feed; line separators; marks that reorder text (Unicode's «bidi» controls).
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def printable(text: str) -> str:
    """Return ``text`` with its control characters in a visible form: ``^[`` for escape, else ``\\u0007``.

    Tabs and line feeds stay. The escapes are those of JSON, so that JSON stays JSON.
    """
    return _UNSAFE.sub(_visible, text)


def printable_line(text: str) -> str:
    """Return ``text`` as `printable` does, on a single line: its line feeds become ``\\n``."""
    return printable(text).replace("\n", "\\n")


def printable_values(value: T) -> T:
    """Return ``value`` with every text in it made printable: through structs, data classes, tuples, lists and mappings.

    What holds no unsafe text is returned as it is, not copied.
    """
    return cast("T", _through(value))


def _visible(found: re.Match[str]) -> str:
    return "^[" if found[0] == "\x1b" else f"\\u{ord(found[0]):04x}"


def _through(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value) if type(value) is str else value
    if isinstance(value, tuple | list):
        return _sequence(value)
    if isinstance(value, Mapping):
        changed = {_through(key): _through(item) for key, item in value.items()}
        return value if changed == value else changed
    if isinstance(value, msgspec.Struct):
        return _fields(value, value.__struct_fields__, msgspec.structs.replace)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value, tuple(one.name for one in dataclasses.fields(value) if one.init), dataclasses.replace)
    return value


def _sequence(value: Any) -> Any:
    items = [_through(item) for item in value]
    if all(item is old for item, old in zip(items, value, strict=True)):
        return value
    if hasattr(value, "_make"):  # a named tuple
        return value._make(items)
    return type(value)(items)


def _fields(value: Any, names: tuple[str, ...], replace: Any) -> Any:
    changes = {}
    for name in names:
        old = getattr(value, name)
        new = _through(old)
        if new is not old:
            changes[name] = new
    return replace(value, **changes) if changes else value


def counted(number: int, what: str) -> str:
    """Return a count with its noun: «1 device», «2 devices», «1,024 devices»."""
    return f"{number:,} {what if number == 1 else plural(what)}"


def plural(what: str) -> str:
    """Return the plural of a regular noun: claims, classes, capacities."""
    return f"{what[:-1]}ies" if what.endswith("y") else f"{what}{'es' if what.endswith('s') else 's'}"
