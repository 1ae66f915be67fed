"""Fields that a patch has twice: the last one counts, and field validation reports them
(docs/spec/apimachinery.md §13)."""

from __future__ import annotations

import json
from typing import Any, Final

from cathedra.api.decoding import YAMLDocument, written_keys
from cathedra.api.decoding.reader import MOST_PROBLEMS, Place, place_text
from cathedra.api.nesting import check_nesting


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with a repeated field, in order."""


def repeated_fields(raw: bytes, parsed: Any = None) -> tuple[str, ...]:
    """Return the problems of a JSON body: ``duplicate field "metadata.labels.a"``, in order of appearance.

    ``parsed`` has the body's values, if they were decoded already.
    """
    # A repeated field makes fewer fields than keys. To count both is much faster than the decoder below.
    if parsed is not None and _fields(parsed) == written_keys(raw):
        return ()
    found = False

    def paired(pairs: list[tuple[str, Any]]) -> Any:
        nonlocal found
        values = dict(pairs)
        if len(values) == len(pairs):
            return values
        found = True
        return _Pairs(pairs)

    try:
        check_nesting(raw)
        value = json.loads(raw, object_pairs_hook=paired)
    except ValueError:
        return ()  # the decoder of the body refuses it
    if not found:
        return ()
    problems: list[str] = []
    _walk(value, None, problems)
    return tuple(dict.fromkeys(problems))


def _fields(value: Any) -> int:
    """Return the number of fields at all levels."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return 0
    count, items = (len(value), value.values()) if kind is dict else (0, value)
    for item in items:
        kind = type(item)
        if kind is dict or kind is list:
            count += _fields(item)
    return count


def _walk(value: Any, path: Place | None, problems: list[str]) -> None:
    if len(problems) >= MOST_PROBLEMS:
        return
    if isinstance(value, dict):
        value = list(value.items())
    elif not isinstance(value, _Pairs):
        if isinstance(value, list):
            for position, item in enumerate(value):
                _walk(item, (path, f"[{position}]"), problems)
        return
    seen: set[str] = set()
    for name, item in value:
        where = (path, f".{name}")
        if name in seen and len(problems) < MOST_PROBLEMS:
            problems.append(f'duplicate field "{place_text(where)}"')
        seen.add(name)
        _walk(item, where, problems)


def repeated_keys(document: YAMLDocument) -> tuple[str, ...]:
    """Return the problem with repeated keys of a YAML body: all of them in one text, as strict validation has it."""
    if not document.repeated:
        return ()
    return (_SHORT + "\n".join(f"  {text}" for text in document.repeated),)


def warnings_of(problem: str) -> tuple[str, ...]:
    """Return the warnings for a problem: one for each repeated YAML key, otherwise the problem itself."""
    for prefix in (_LONG, _SHORT):
        if problem.startswith(prefix):
            return tuple(line.strip() for line in problem.removeprefix(prefix).split("\n"))
    return (problem,)


_SHORT: Final = "yaml: unmarshal errors:\n"
_LONG: Final = f"error converting YAML to JSON: {_SHORT}"
