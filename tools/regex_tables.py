"""Write the character tables of the regular expressions in Python, as the installed RE2 has them.

python tools/regex_tables.py > src/cathedra/cel/regex/unicode.txt

A line is ``NAME LOW-HIGH LOW-HIGH …`` in hexadecimal for a category or script of Unicode, or ``fold A B …`` for
characters that are equal without regard to case.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

import re2

_ALL: Final = "".join(chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point <= 0xDFFF)
_OTHERWISE_NAMED: Final = (
    "Anatolian_Hieroglyphs", "Common", "Egyptian_Hieroglyphs", "Han", "Inherited", "Kawi", "Meroitic_Hieroglyphs",
    "Nag_Mundari", "SignWriting", "Yi",
)  # fmt: skip
"""Scripts that the names of their characters do not begin with."""
_CATEGORIES: Final = (
    "C", "Cc", "Cf", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No",
    "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
)  # fmt: skip


def lines(scripts: Iterable[str]) -> Iterator[str]:
    """The lines of the table: categories, the given scripts, folds."""
    encoded = _ALL.encode()
    for name in (*_CATEGORIES, *scripts):
        runs = (match.group().decode() for match in re2.finditer(f"\\p{{{name}}}+".encode(), encoded))
        yield " ".join((name, *(_range(ord(run[0]), ord(run[-1])) for run in runs)))
    cased = [text for text in _ALL if {text} != {text.lower(), text.upper(), text.title(), text.casefold()}]
    seen: set[str] = set()
    for text in cased:
        if text not in seen:
            same = re2.findall(f"(?i){re2.escape(text)}", "".join(cased))
            seen.update(same)
            if len(same) > 1:
                yield " ".join(("fold", *(f"{ord(each):x}" for each in same)))


def _range(low: int, high: int) -> str:
    return f"{low:x}" if low == high else f"{low:x}-{high:x}"


def known_scripts() -> list[str]:
    """Scripts of RE2, found by the first words of characters' names, which begin with the script's name."""
    options = re2.Options()
    options.log_errors = False
    words: set[str] = set(_OTHERWISE_NAMED)
    for text in _ALL:
        parts = unicodedata.name(text, "").replace("-", " ").split()
        words.update("_".join(parts[:length]).title() for length in range(1, 4))
    return sorted(
        word for word in words if len(word) > 1 and word.replace("_", "").isalpha() and _is_known(word, options)
    )


def _is_known(name: str, options: re2.Options) -> bool:
    try:
        re2.compile(f"\\p{{{name}}}", options)
    except re2.error:
        return False
    return True


if __name__ == "__main__":
    for line in lines(known_scripts()):
        print(line)
