"""Paths into custom resources: printer columns, selectable fields, the numbers behind scale.

Definitions use a small part of JSONPath: fields, ``['quoted.fields']``, numbers and ``[*]`` in lists, and filters of
the form ``[?(@.type=="Ready")]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from cathedra.api.struct import Time
from cathedra.apiserver.custom.schema import Schema
from cathedra.kinds.columns import age
from cathedra.kinds.definition import Column

NAME: Final = Column("Name", "string", "name", "The name of the object, unique in its namespace.")
_STEP: Final = re.compile(
    r"""\.(?P<field>[^.\[\]]+)
    |\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
    |\[(?P<all>\*)\]
    |\[(?P<index>-?\d+)\]
    |\[\?\(@\.(?P<key>[^=!<>()]+?)\s*(?P<operator>==|!=)\s*(?P<filter>"[^"]*"|'[^']*'|[^)]+)\)\]""",
    re.VERBOSE,
)
_FIELDS: Final = re.compile(r"(?:\.[^.\[\]\\$]+)+")
Step = Callable[[Any], Iterable[Any]]


class Path:
    """A path, parsed once."""

    def __init__(self, text: str, steps: tuple[Step, ...], names: tuple[str, ...] | None) -> None:
        self.text = text
        self._steps = steps
        self._names = names
        """The fields of a path that has nothing else; None of any other."""

    def all(self, value: Any) -> list[Any]:
        """Return every value that the path leads to."""
        found = [value]
        for step in self._steps:
            found = [inner for one in found for inner in step(one)]
        return found

    def one(self, value: Any) -> Any:
        """Return the first value that the path leads to, or None."""
        if self._names is not None:
            # Most columns are such: 0.3 µs instead of 2.
            for name in self._names:
                if type(value) is not dict or (value := value.get(name)) is None:
                    return None
            return value
        found = self.all(value)
        return found[0] if found else None


def parse_path(text: str) -> Path:
    """Return the path that a definition gives.

    Raises:
        ValueError: it is none.
    """
    return Path(text, tuple(_steps(text)), _names_of(text))


def parse_fields(text: str) -> Path:
    """Return the path of a number or selector of the sub-resource ``scale``.

    Dots separate the names of its fields, which may have any other character: Kubernetes takes brackets as part of a
    name here.
    """
    return Path(text, (), tuple(text.removeprefix(".").split(".")))


_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
_UNKNOWN_FIELD: Final = "does not refer to a valid field"


def check_field_path(text: str, schema: Schema, *, brackets: bool = True) -> tuple[str, Schema]:
    """Return the first field of a path such as ``.spec['a.b']``, and the schema of its target in values of ``schema``.

    Raises:
        ValueError: it is no path of fields of the schema, in Kubernetes' words; or it has ``brackets``, but cannot.
    """
    tokens = iter(_TOKEN.findall(text))
    first, found = "", schema
    for token in tokens:
        if token == "[":
            if not brackets:
                raise ValueError("array notation is not allowed")
            name = next(tokens, "")
            if not name:
                raise ValueError("unexpected end of JSON path")
            if len(name) < 2 or not (name.startswith("'") and name.endswith("'")):
                raise ValueError(f"expected single quoted string but got {name}")
            name = name[1:-1].replace("\\'", "'")
            closing = next(tokens, "")
            if closing != "]":
                raise ValueError(f"expected ] but got {closing}" if closing else "unexpected end of JSON path")
        elif token == ".":
            name = next(tokens, "")
            if not name:
                raise ValueError("unexpected end of JSON path")
        else:
            raise ValueError(f"expected [ or . but got: {token}")
        first = first or name
        below = found.properties.get(name) if found.properties else found.additional
        if below is None:
            raise ValueError(_UNKNOWN_FIELD)
        found = below
    return first, found


def _names_of(text: str) -> tuple[str, ...] | None:
    return tuple(text.split(".")[1:]) if _FIELDS.fullmatch(text) else None


def _steps(text: str) -> Iterator[Step]:
    text = text.removeprefix("$").replace("\\.", "\0")
    if text and not text.startswith((".", "[")):
        raise ValueError(f"a path begins with a dot: {text}")
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise ValueError(f"unexpected character at {position} in {text}")
        position = match.end()
        yield _step(match)


def _step(match: re.Match[str]) -> Step:
    if match["all"]:
        return lambda value: value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    if match["index"]:
        index = int(match["index"])
        return lambda value: (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()
    if match["key"]:
        wanted = match["filter"].strip().strip("\"'")
        key, equal = match["key"], match["operator"] == "=="
        return lambda value: [
            item
            for item in (value if isinstance(value, list) else ())
            if isinstance(item, dict) and (_text(item.get(key)) == wanted) is equal
        ]
    name = (match["field"] or match["quoted"] or "").replace("\0", ".")
    return lambda value: (value[name],) if isinstance(value, dict) and value.get(name) is not None else ()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def column_of(given: Any) -> Column:
    """Return the column that a definition describes."""
    return Column(given.name, given.type, given.format, given.description, given.priority)


def cell(path: Path, kind: str, values: Any, now: float) -> Any:
    """Return the value that a column shows of an object's plain values; None where it has nothing."""
    value = path.one(values)
    if value is None:
        return None
    if kind == "date":
        try:
            return age(Time.parse(value), now)
        except (ValueError, TypeError):
            return "<invalid>"
    if kind == "string":
        return value if isinstance(value, str) else _shown(value)
    return value


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "[" + " ".join(_shown(item) for item in value) + "]"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_shown(value[key])}" for key in sorted(value)) + "]"
    return _text(value)
