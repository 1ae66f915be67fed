"""Short forms of models: beginnings of their lists, and a sentence on each list that was cut.

An agent pays for each character of an answer and reads no more than some thousands. The list that takes the most room
is cut first, so that a long list leaves room for the others; a list of a list's items is cut after the outer one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from cathedra.api.jsonvalue import JSONObject

_FIRST_ITEMS: Final = 50
"""Items of a list in the first attempt. Hundreds of names of nodes would fit, and help little."""
_FIRST_CHARACTERS: Final = 1000
"""Characters of a string in the first attempt."""
_FIELDS: Final = 40
"""A mapping with more keys is no struct but a table, and is cut as a list is."""


def shortened(model: JSONObject, most: int) -> tuple[JSONObject, tuple[str, ...]]:
    """Return the model in at most ``most`` characters of JSON, and sentences on what was left out.

    The sentences count as well. A model that fits is returned as it is.
    """
    if _size(model) <= most:
        return model, ()
    bounds: dict[str, int] = {}
    characters = _FIRST_CHARACTERS
    while characters:
        cut = _Cut(bounds, characters)
        shown, left_out = cut.value(model, ""), cut.sentences()
        if _size(shown) + _size(left_out) <= most:
            return shown, left_out
        path = cut.largest()
        if path:
            bounds[path] = cut.kept[path] * 3 // 4
        else:
            characters //= 2
    return {key: model[key] for key in ("apiVersion", "kind") if key in model}, ("everything: it is too long",)


def _size(value: Any) -> int:
    """Return the characters of a value in JSON."""
    return len(msgspec.json.encode(value).decode())


@dataclass(slots=True)
class _Cut:
    """One attempt, and what it left out by path. Items of one list, and of all lists at its path, share a path."""

    bounds: dict[str, int]
    characters: int
    kept: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Path → items of the longest list that is left."""
    _sizes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _shown: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _totals: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _strings: int = 0

    def value(self, value: Any, path: str) -> Any:
        """Return the short form of a value."""
        if isinstance(value, str) and len(value) > self.characters:
            self._strings += 1
            return f"{value[: self.characters - 1]}…"
        if isinstance(value, list | tuple):
            bound = self.bounds.get(path, _FIRST_ITEMS)
            shown = [self.value(item, f"{path}[]") for item in value[:bound]]
            return self._noted(shown, len(value), path)
        if isinstance(value, dict):
            return self._mapping(value, path)
        return value

    def _mapping(self, value: JSONObject, path: str) -> Any:
        if len(value) > _FIELDS:
            names = list(value)[: self.bounds.get(path, _FIRST_ITEMS)]
            return self._noted({name: self.value(value[name], f"{path}[]") for name in names}, len(value), path)
        start = f"{path}." if path else ""
        return {name: self.value(item, f"{start}{name}") for name, item in value.items() if not _is_empty(item)}

    def _noted(self, shown: Any, total: int, path: str) -> Any:
        self.kept[path] = max(self.kept[path], len(shown))
        self._sizes[path] += _size(shown)
        self._shown[path] += len(shown)
        self._totals[path] += total
        return shown

    def largest(self) -> str:
        """Return the path whose lists take the most room; "" if no list has an item."""
        # The last item of a list shows what its items are, so lists with more are cut first.
        return max(
            (path for path, number in self.kept.items() if number),
            key=lambda path: (self.kept[path] > 1, self._sizes[path]),
            default="",
        )

    def sentences(self) -> tuple[str, ...]:
        """Return what is missing."""
        found = [
            f"{path}: the first {self._shown[path]:,} of {total:,} are shown"
            for path, total in sorted(self._totals.items())
            if self._shown[path] < total
        ]
        if self._strings:
            found.append(f"the ends of {self._strings:,} strings longer than {self.characters:,} characters")
        return (*found, "empty fields")


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | tuple | dict) and not value)
