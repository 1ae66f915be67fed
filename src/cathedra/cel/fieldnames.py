"""Names of fields in expressions, where a field's own name is no identifier (docs/spec/apimachinery.md §17)."""

from __future__ import annotations

import re
from typing import Final

_RESERVED: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return"),
    )
)
_WRITABLE: Final = re.compile(r"[a-zA-Z_.\-/][a-zA-Z0-9_.\-/]*")


def escaped(name: str) -> str:
    """Return a field's name as expressions have to write it."""
    if name in _RESERVED:
        return f"__{name}__"
    for letter, word in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(letter, word)
    return name


def is_writable(name: str) -> bool:
    """Return True if expressions can mention a field of that name at all."""
    return _WRITABLE.fullmatch(name) is not None
