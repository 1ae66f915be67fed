"""Where a field stands: from a path of the API, as errors name it, to the node; and into a scalar's text."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from cathedra.insight.manifests.files import ManifestFile
from cathedra.insight.manifests.tree import YAMLNode

__all__ = ["TextPlaces", "find_node"]

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_OPTIONAL: Final = frozenset(("exactly", "basic"))
"""Levels that some versions of resource.k8s.io have and others lack."""


def find_node(root: YAMLNode, path: str) -> tuple[YAMLNode, YAMLNode | None, bool]:
    """The node of a field such as ``spec.devices.requests[0].exactly.count``, the key before it if there is one, and
    whether it was found; otherwise they are of the nearest field around it."""
    node, key = root, None
    for index, name in _STEP.findall(path):
        step = _step(node, index, name)
        if step is None and name in _OPTIONAL:
            continue
        if step is None and node.get("basic") is not None:
            basic = node.get("basic")
            step = _step(basic, index, name) if basic is not None else None
        if step is None:
            return node, key, False
        node, key = step
    return node, key, True


def _step(node: YAMLNode, index: str, name: str) -> tuple[YAMLNode, YAMLNode | None] | None:
    if node.kind == "sequence":
        if not name and index.isdigit() and int(index) < len(node.items):
            return node.items[int(index)], None
        # Errors of types name no positions: the first element that has the field is as good a guess as any.
        found = [item for item in node.items if name and item.get(name) is not None]
        return _step(found[0], index, name) if found else None
    entry = node.entry(name or index)
    return (entry[1], entry[0]) if entry is not None else None


class TextPlaces:
    """Places of the characters of a scalar's value, in whichever style it is written.

    The value's letters stand in the text in the same order, with line breaks, indentation, quotes and escapes between
    them: so they are found by walking along both.
    """

    def __init__(self, file: ManifestFile, node: YAMLNode) -> None:
        self._file, self._node = file, node
        self._indexes = _aligned(file.text, node)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character of the value; beyond the last, that after it."""
        if not self._indexes:
            return self._file.place(self._node.start)
        if offset >= len(self._indexes):
            line, column = self._file.place(self._indexes[-1])
            return line, column + 1
        return self._file.place(self._indexes[max(offset, 0)])

    def offset(self, index: int) -> int:
        """The character of the value that stands at ``index`` of the text, or the nearest before it."""
        return max(bisect_right(self._indexes, index) - 1, 0)


_SIMPLE: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_CODES: Final = {"x": 2, "u": 4, "U": 8}


def _aligned(text: str, node: YAMLNode) -> list[int]:
    """For each character of the value the index at which it stands in the text."""
    at = _content_start(text, node)
    found: list[int] = []
    for letter in node.text:
        at = _next(text, at, node.end, letter, double=node.style == '"')
        if at >= node.end:
            return found
        found.append(at)
        at += _width(text, at, double=node.style == '"') if not letter.isspace() or text[at] == "\\" else 1
        if node.style == "'" and letter == "'":
            at += 1
    return found


def _content_start(text: str, node: YAMLNode) -> int:
    if node.style in ("'", '"'):
        return node.start + 1
    if node.style in ("|", ">"):
        end = text.find("\n", node.start)
        return end + 1 if end >= 0 else node.end
    return node.start


def _next(text: str, at: int, end: int, letter: str, *, double: bool) -> int:
    """Where ``letter`` stands next: line breaks and indentation are skipped, blanks stand for folded breaks."""
    if letter.isspace():
        if at < end and (text[at].isspace() or (double and text[at] == "\\")):
            return at
        return min(at, end)
    while at < end and (text[at].isspace() or (double and text[at] == "\\" and text[at + 1 : at + 2] == "\n")):
        at += 1
    return at


def _width(text: str, at: int, *, double: bool) -> int:
    """How many characters of the text one character of the value takes."""
    if not double or text[at] != "\\":
        return 1
    following = text[at + 1 : at + 2]
    return 2 + _CODES.get(following, 0)
