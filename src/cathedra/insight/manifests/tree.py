"""YAML as nodes with positions in the text.

The values that Kubernetes would decode come from `cathedra.api.decoding`, whose parser keeps no positions; here are the
positions of the same document. Comments and quotes are found in the text itself, between the positions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final


class BrokenYAML(ValueError):
    """The text is no YAML; ``line`` and ``column`` count from 1."""

    def __init__(self, text: str, line: int, column: int) -> None:
        self.line, self.column = line, column
        super().__init__(text)


@dataclass(slots=True, eq=False)
class YAMLNode:
    """A scalar, mapping or sequence. ``start`` and ``end`` count characters; of block collections ``end`` is where
    their last child ends."""

    start: int
    end: int
    style: str = ""
    """Of scalars the quote or «|» or «>», of collections «{» where they are in flow style."""
    text: str = ""
    """The value of a scalar."""
    entries: list[tuple[YAMLNode, YAMLNode]] = field(default_factory=list)
    items: list[YAMLNode] = field(default_factory=list)
    kind: str = "scalar"
    """«scalar», «mapping» or «sequence»."""
    shared: bool = False
    """True if an alias refers to it."""

    def get(self, key: str) -> YAMLNode | None:
        """Return the value of a mapping's key; the last one if the key is repeated."""
        found = self.entry(key)
        return found[1] if found is not None else None

    def entry(self, key: str) -> tuple[YAMLNode, YAMLNode] | None:
        """Key and value of a mapping's key."""
        # The last of repeated keys wins, as in Kubernetes' decoder.
        for one in reversed(self.entries):
            if one[0].kind == "scalar" and one[0].text == key:
                return one
        return None

    @property
    def is_flow(self) -> bool:
        """True for a collection in braces or brackets."""
        return self.kind != "scalar" and self.style == "{"


def read_trees(text: str) -> Iterator[YAMLNode | None]:
    """The root of every document; None for one without content. An alias yields the node that it refers to.

    Raises:
        BrokenYAML: it is no YAML; raised when the place is reached.
    """
    # start-up time: PyYAML is loaded with the first manifest
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(text)
    try:
        for event in yaml.parse(text, Loader=loader):
            # Compared by name, so that PyYAML need not be imported before the first manifest.
            name = type(event).__name__
            if name == "DocumentStartEvent":
                builder = _Builder(text)
            elif name == "DocumentEndEvent":
                yield builder.root
            else:
                builder.take(name, event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise BrokenYAML(str(getattr(error, "problem", None) or error), line, column) from error
    except UnicodeError as error:
        raise BrokenYAML("invalid Unicode character", 1, 1) from error


_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s*)+")
"""The anchor and the tag in front of a scalar."""
_COLLECTIONS: Final = {"MappingStartEvent": "mapping", "SequenceStartEvent": "sequence"}


class _Builder:
    """Puts the nodes of one document together, without recursion."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.root: YAMLNode | None = None
        self._open: list[YAMLNode] = []
        self._keys: list[YAMLNode | None] = []
        self._anchors: dict[str, YAMLNode] = {}

    def take(self, name: str, event: Any) -> None:
        if name == "ScalarEvent":
            self._add(self._scalar(event), event)
        elif name in _COLLECTIONS:
            node = YAMLNode(event.start_mark.index, event.end_mark.index, kind=_COLLECTIONS[name])
            node.style = "{" if event.flow_style else ""
            # libyaml starts a node at its anchor; edits must not move or repeat that.
            if event.anchor or event.tag:
                node.start = node.end - 1 if event.flow_style else node.end
            self._add(node, event)
            self._open.append(node)
            self._keys.append(None)
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            node = self._open.pop()
            self._keys.pop()
            # The end event of a block collection is at the next token, behind comments that belong to what follows.
            node.end = event.end_mark.index if node.is_flow else _last_end(node)
        elif name == "AliasEvent":
            self._alias(event)

    def _scalar(self, event: Any) -> YAMLNode:
        start, end = event.start_mark.index, event.end_mark.index
        if (event.anchor or event.tag) and (found := _PROPERTIES.match(self._text, start, end)):
            start = found.end()
        return YAMLNode(start, end, event.style or "", event.value)

    def _alias(self, event: Any) -> None:
        known = self._anchors.get(event.anchor)
        # libyaml resolves aliases only when it composes nodes; events alone do not report an undefined one.
        if known is None:
            mark = event.start_mark
            raise BrokenYAML(f"found undefined alias {event.anchor!r}", mark.line + 1, mark.column + 1)
        known.shared = True
        self._place(known)

    def _add(self, node: YAMLNode, event: Any) -> None:
        if event.anchor:
            self._anchors[event.anchor] = node
        self._place(node)

    def _place(self, node: YAMLNode) -> None:
        if not self._open:
            self.root = self.root or node
            return
        owner = self._open[-1]
        if owner.kind == "sequence":
            owner.items.append(node)
        elif self._keys[-1] is None:
            self._keys[-1] = node
        else:
            owner.entries.append((self._keys[-1], node))
            self._keys[-1] = None


def _last_end(node: YAMLNode) -> int:
    if node.kind == "mapping":
        return max((value.end for _, value in node.entries[-1:]), default=node.start)
    return max((item.end for item in node.items[-1:]), default=node.start)
