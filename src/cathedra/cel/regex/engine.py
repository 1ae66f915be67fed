"""Choice of the engine for regular expressions, and the engines that are bindings of RE2.

CEL and the schemas of custom resources have RE2's syntax and semantics. The engines in order of preference:

* ``google-re2``, Google's binding, which lacks wheels for some Pythons;
* ``pyre2``, another binding of the same engine. It reads patterns as Python's ``re`` does (``\\w`` is any letter) and
  falls back to ``re``, so it gets the pattern as our parser writes it, without anything that it would read differently;
* ``python``, our own automaton, for WebAssembly, PyPy and Pythons without a wheel of either.

Both bindings are a module named ``re2``, so at most one is installed. ``CATHEDRA_REGEX`` names an engine; it is an
error if that engine is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any, Final, Protocol

from cathedra.cel.regex.syntax import parse

_SWITCH: Final = "CATHEDRA_REGEX"
_BETWEEN_BYTES: Final = r"\B"
"""RE2 finds it between the bytes of one character too, and Go does not."""


class EngineMissing(Exception):
    """The engine that ``CATHEDRA_REGEX`` names does not exist or is not installed."""


class Regex(Protocol):
    """A compiled regular expression."""

    def matches(self, text: str) -> bool:
        """Return True if the pattern is found anywhere in the text."""

    def found(self, text: str) -> Iterator[str]:
        """Yield the matches from left to right, without empty ones right after a match."""


def compile_with(engine: str, pattern: str) -> Regex:
    """Return the pattern compiled by the engine of this name.

    Raises:
        PatternError: Go's ``regexp`` refuses the pattern.
    """
    return ENGINES[engine](pattern)


@cache
def engine_name() -> str:
    """Return the name of the engine that this process uses.

    Raises:
        EngineMissing: ``CATHEDRA_REGEX`` names an engine that is not there.
    """
    wanted = os.environ.get(_SWITCH, "")
    installed = installed_engines()
    if wanted and wanted not in installed:
        raise EngineMissing(f"{_SWITCH}={wanted}: installed engines are {', '.join(installed)}")
    return wanted or installed[0]


def installed_engines() -> list[str]:
    """Return the names of the engines that can be used here, the preferred one first."""
    found = find_spec("re2")
    if found is None:
        return ["python"]
    # Google's binding is a package, in older versions two modules; pyre2 is one module. Neither is loaded for this.
    is_google = found.submodule_search_locations is not None or find_spec("_re2") is not None
    return ["google-re2" if is_google else "pyre2", "python"]


class _GoogleRegex:
    """A pattern in Google's binding.

    Its wrapper takes 4 µs to make a match object, and its sets of patterns take 0.6 µs to find that there is a match.
    A set reports no match also if it runs out of memory, so only its positive answers count.
    """

    __slots__ = ("_exact", "_quick")

    def __init__(self, exact: Any, quick: Any) -> None:
        self._exact = exact
        self._quick = quick

    def matches(self, text: str) -> bool:
        return bool(self._quick.Match(text)) or self._exact.search(text) is not None

    def found(self, text: str) -> Iterator[str]:
        # In bytes, since RE2 would encode a text again for each search.
        encoded = text.encode("utf-8", "surrogatepass")
        position, last_end = 0, -1
        while position <= len(encoded):
            match = self._exact.search(encoded, position)
            if match is None:
                return
            start, end = match.span()
            if start != end or start != last_end:
                yield encoded[start:end].decode("utf-8", "surrogatepass")
            last_end = end
            position = end if end > position else _next_character(encoded, position)


def _next_character(encoded: bytes, position: int) -> int:
    position += 1
    while position < len(encoded) and encoded[position] & 0xC0 == 0x80:
        position += 1
    return position


def _by_google(pattern: str) -> Regex:
    # start-up time: few expressions have patterns
    import re2

    # RE2 accepts \C, a single byte, which Go refuses. The parser of our own engine has the errors.
    if r"\C" in pattern or _BETWEEN_BYTES in pattern:
        return _by_python(pattern)
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        exact = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError):
        return _by_python(pattern)  # raises Go's error, or the pattern was only too large for RE2's memory
    quick = re2.Set.SearchSet(options)
    quick.Add(pattern)
    quick.Compile()
    return _GoogleRegex(exact, quick)


class _PyRegex:
    """A pattern in pyre2, which finds out that there is a match. Where it is, our own automaton finds.

    After an empty match, pyre2's iterator goes on inside a character of several bytes.
    """

    __slots__ = ("_compiled", "_pattern")

    def __init__(self, pattern: str, compiled: Any) -> None:
        self._pattern = pattern
        self._compiled = compiled

    def matches(self, text: str) -> bool:
        return self._compiled.search(text) is not None

    def found(self, text: str) -> Iterator[str]:
        return _by_python(self._pattern).found(text) if self.matches(text) else iter(())


def _by_pyre2(pattern: str) -> Regex:
    # start-up time: as above
    import re2

    piece = parse(pattern)
    if _BETWEEN_BYTES in pattern:
        return _by_python(pattern)
    compiled = re2.compile(piece.source)
    if isinstance(compiled, re2.Pattern):
        return _PyRegex(pattern, compiled)
    return _by_python(pattern)  # too large for RE2's memory: pyre2 would use a matcher that takes exponential time


def _by_python(pattern: str) -> Regex:
    # start-up time: two thousand ranges of characters are read only where they are used
    from cathedra.cel.regex.automaton import PythonRegex

    return PythonRegex(pattern)


ENGINES: Final[dict[str, Callable[[str], Regex]]] = {
    "google-re2": _by_google,
    "pyre2": _by_pyre2,
    "python": _by_python,
}
"""The function that compiles a pattern, by the engine's name."""
