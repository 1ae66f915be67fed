"""Facts from Go source: structs with their tags, string constants, lists of names, feature gates.

Kubernetes formats its source with gofmt, and its API types follow conventions, so that expressions are enough to read
them. What does not follow a convention is left out, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["GoField", "constants", "names_in", "string_literals", "structs"]

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^\t(?:(\w+)[ \t]+)?([\w.*\[\]]+)[ \t]+`([^`]*)`")
_STRUCT_TAG = re.compile(r"(\w+):\"([^\"]*)\"")
_TAG = re.compile(r"^\t//\s*\+(.*)$")
_CONSTANT = re.compile(r"^\s*(?:const\s+)?(\w+)\s*(?:[\w.]+\s*)?=\s*\"([^\"]*)\"", re.M)
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`([^`]*)`')


@dataclass(frozen=True)
class GoField:
    """A field of an API type."""

    json: str
    """Empty for an embedded struct."""
    go: str
    number: int
    omitempty: bool
    tags: tuple[str, ...] = field(default=())
    """Tags of its comment, without the plus sign."""

    def value(self, name: str) -> str:
        """Return the value of a tag as ``name=value``, or "" if it is absent."""
        return next((tag.partition("=")[2] for tag in self.tags if tag.partition("=")[0] == name), "")


def structs(text: str) -> dict[str, dict[str, GoField]]:
    """Return the structs of a file: name → JSON name → field; fields that JSON lacks are left out."""
    return {name: dict(_fields(body)) for name, body in _STRUCT.findall(text)}


def _fields(body: str) -> Iterator[tuple[str, GoField]]:
    tags: list[str] = []
    for line in body.splitlines():
        if (tag := _TAG.match(line)) is not None:
            tags.append(tag[1].strip())
            continue
        found = _FIELD.match(line)
        if found is not None:
            tagged = dict(_STRUCT_TAG.findall(found[3]))
            json, *options = tagged.get("json", "-").split(",")
            if json != "-":
                numbers = re.findall(r"(?:^|,)(\d+)(?:,|$)", tagged.get("protobuf", ""))
                number = int(numbers[0]) if numbers else 0
                yield json or found[2], GoField(json, found[2], number, "omitempty" in options, tuple(tags))
        if not line.strip().startswith("//"):
            tags = []


def constants(text: str) -> dict[str, str]:
    """Return the string constants of a file: name → value."""
    return dict(_CONSTANT.findall(text))


def names_in(text: str, variable: str) -> list[str]:
    """Return the identifiers of a list or a call that follows ``variable``, comments left out."""
    start = re.search(rf"\b{variable}\b[^\n]*?[({{]\n", text)
    if start is None:
        return []
    body = text[start.end() :].split("\n}", 1)[0].split("\n)", 1)[0]
    without_comments = re.sub(r"//.*", "", body)
    return re.findall(r"[\w.]+|\"[^\"]*\"", without_comments)


def string_literals(text: str) -> Iterator[str]:
    """Yield the string literals of a file, without comments and imports, as they are written."""
    code = re.sub(r"(?m)^\s*//.*$", "", text.split("\n)\n", 1)[-1])
    for quoted, raw in _LITERAL.findall(code):
        yield raw or re.sub(r"\\(.)", r"\1", quoted)
