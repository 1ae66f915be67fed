"""Changes of a YAML text around its nodes: fields are wrapped, unwrapped, removed, added; everything else stays.

Entries of a block mapping are taken as whole lines, with the comments in front of them, and are moved by indenting
them. In flow style, braces are put around entries where they stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cathedra.allocation.errors import InvalidInput
from cathedra.api.decoding import DecodeError, read_yaml_documents
from cathedra.api.nesting import NestingError, check_nesting
from cathedra.api.scheme import GroupVersionKind
from cathedra.insight.manifests import BrokenYAML, YAMLNode, read_trees

_COMMENT: Final = re.compile(r"#[^\n\r]*")


class Unconvertible(ValueError):
    """The text cannot be edited without changing more; the message names the construct."""


class TextEdit(NamedTuple):
    """Replacement of the text from ``start`` to ``end``."""

    start: int
    end: int
    text: str


def edited(text: str, edits: Iterable[TextEdit]) -> str:
    """Return the text with all edits, which must not overlap; insertions at one place keep their order.

    Raises:
        Unconvertible: two edits overlap.
    """
    pieces, at = [], 0
    for one in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        # A node behind an alias is reached twice. Editing it would change the other place as well.
        if one.start < at:
            raise Unconvertible("parts of it are shared by an anchor")
        pieces += [text[at : one.start], one.text]
        at = one.end
    return "".join((*pieces, text[at:]))


def wrap(text: str, node: YAMLNode, kept: Collection[str], name: str) -> Iterator[TextEdit]:
    """Put all entries of a mapping but those ``kept`` below a new one, ``name``.

    Raises:
        Unconvertible: entries come from a merge key, or a comment would get lost.
    """
    _check(node)
    moved = [entry for entry in node.entries if entry[0].text not in kept]
    if not moved:
        return
    if node.is_flow:
        yield from _wrap_flow(text, node, moved, name)
        return
    lines = _Block(text, node)
    inner = lines.indented("".join(lines.entry(key) for key, _ in moved), 2)
    made = f"{lines.margin}{name}:{lines.newline}{inner}"
    parts = [
        # The new mapping stands where the first moved entry stood, so unmoved entries keep their order.
        made if key is moved[0][0] else lines.entry(key)
        for key, _ in node.entries
        if key.text in kept or key is moved[0][0]
    ]
    yield lines.replaced("".join(parts))


def unwrap(text: str, node: YAMLNode, name: str) -> Iterator[TextEdit]:
    """Put the entries of the mapping below ``name`` in its place.

    Raises:
        Unconvertible: they come from an anchor or a merge key.
    """
    _check(node)
    entry = node.entry(name)
    if entry is None:
        return
    key, inner = entry
    # The value of an alias stands before its key in the text.
    if inner.shared or inner.start < key.start:
        raise Unconvertible(f"{name} is shared by an anchor")
    _check(inner)
    if node.is_flow:
        yield from _unwrap_flow(text, node, key, inner)
        return
    lines = _Block(text, node)
    yield lines.replaced(
        "".join(_loose(lines, key, inner) if one is key else lines.entry(one) for one, _ in node.entries)
    )


def remove_entry(text: str, node: YAMLNode, name: str) -> TextEdit:
    """Take an entry out of a mapping that has others; the comments in front of it go with it."""
    entry = node.entry(name)
    if entry is None:
        raise KeyError(name)
    if node.is_flow:
        return _without_flow(text, node, entry[0])
    lines = _Block(text, node)
    return lines.replaced("".join(lines.entry(one) for one, _ in node.entries if one is not entry[0]))


def add_entry(text: str, node: YAMLNode, name: str, block: Sequence[str], flow: str) -> TextEdit:
    """Add an entry at the end of a mapping: ``block`` are the lines of its value, ``flow`` the same in flow style."""
    if node.is_flow:
        last = _end_of(text, *node.entries[-1]) if node.entries else node.start + 1
        return TextEdit(last, last, f"{', ' if node.entries else ''}{_spelled(node, name)}: {flow}")
    lines = _Block(text, node)
    added = f"{lines.margin}{name}:{lines.newline}" + "".join(f"{lines.margin}{one}{lines.newline}" for one in block)
    return lines.replaced("".join([*(lines.entry(one) for one, _ in node.entries), added]))


def _check(node: YAMLNode) -> None:
    if any(key.text == "<<" and not key.style for key, _ in node.entries):
        raise Unconvertible("a merge key (<<) brings fields from elsewhere")


def _end_of(text: str, key: YAMLNode, value: YAMLNode) -> int:
    """Return the end of an entry; an alias ends elsewhere than the node that it refers to."""
    if value.start >= key.end:
        return max(value.end, key.end)
    found = re.compile(r"\s*:\s*\*[^\s,\]}]+").match(text, key.end)
    if found is None:
        raise Unconvertible("an alias that stands in an unusual place")
    return found.end()


class _Block:
    """The entries of a block mapping as whole lines, comments in front of them included."""

    def __init__(self, text: str, node: YAMLNode) -> None:
        self._text, self._node = text, node
        self.newline = "\r\n" if "\r\n" in text else "\n"
        begin = node.entries[0][0].start
        self._column = begin - (text.rfind("\n", 0, begin) + 1)
        self.margin = " " * self._column
        self._bounds: dict[int, tuple[int, int]] = {}
        at = begin
        for key, value in node.entries:
            end = self._line_end(key, value)
            self._bounds[id(key)] = (at, end)
            at = end
        self._begin, self._end = begin, self._with_comments(at)
        self._bounds[id(node.entries[-1][0])] = (self._bounds[id(node.entries[-1][0])][0], self._end)

    def entry(self, key: YAMLNode) -> str:
        """Return the lines of an entry; a margin or newline that the text lacks at its ends is added."""
        start, end = self._bounds[id(key)]
        lines = self._text[start:end]
        if start == self._begin:
            lines = self.margin + lines
        return lines if lines.endswith("\n") else lines + self.newline

    def replaced(self, lines: str) -> TextEdit:
        """Return the edit that replaces these lines of the mapping; the first line starts where the mapping started."""
        if not self._text[: self._end].endswith("\n"):
            # A text without a newline at its end stays so.
            lines = lines.removesuffix("\n").removesuffix("\r")
        return TextEdit(self._begin, self._end, lines[self._column :])

    def indented(self, lines: str, by: int) -> str:
        """Return the lines moved to the right by ``by`` columns, or, if ``by`` is negative, to the left."""
        return "".join(self._moved(line, by) for line in lines.splitlines(keepends=True))

    def _moved(self, line: str, by: int) -> str:
        if by > 0:
            return " " * by + line if line.strip("\r\n") else line
        spaces = len(line) - len(line.lstrip(" "))
        return line[min(-by, max(spaces - self._column, 0)) :]

    def _line_end(self, key: YAMLNode, value: YAMLNode) -> int:
        last = value
        while last.kind != "scalar" and not last.is_flow and (last.entries or last.items):
            last = last.entries[-1][1] if last.entries else last.items[-1]
        # A block scalar ends where its last line ends, which libyaml reports; its newline belongs to it.
        if value.start >= key.end and last.start >= key.end and last.style in ("|", ">"):
            return last.end
        at = self._text.find("\n", _end_of(self._text, key, value))
        return at + 1 if at >= 0 else len(self._text)

    def _with_comments(self, at: int) -> int:
        """Comments right below the last entry that are indented as it is belong to it."""
        while True:
            end = self._text.find("\n", at) + 1 or len(self._text)
            line = self._text[at:end]
            spaces = len(line) - len(line.lstrip(" "))
            # A comment that is indented less belongs to what follows the mapping.
            if not line.lstrip(" ").startswith("#") or spaces < max(self._column, 1):
                return at
            at = end


def _loose(lines: _Block, key: YAMLNode, inner: YAMLNode) -> str:
    """Return the lines that replace an entry by the entries below it, which are moved to the left."""
    written = lines.entry(key).splitlines(keepends=True)
    at = next(
        n for n, line in enumerate(written) if line.lstrip().startswith((key.text, f'"{key.text}', f"'{key.text}"))
    )
    before, own, below = written[:at], written[at], written[at + 1 :]
    if inner.kind == "mapping" and inner.entries and not inner.is_flow:
        comment = _COMMENT.search(own)
        note = [f"{lines.margin}{comment[0]}{lines.newline}"] if comment else []
        begin = lines._text.rfind("\n", 0, inner.entries[0][0].start) + 1
        by = inner.entries[0][0].start - begin - len(lines.margin)
        return "".join(before) + "".join(note) + lines.indented("".join(below), -by)
    text = lines._text
    made = [f"{lines.margin}{one}{lines.newline}" for one in _COMMENT.findall(_gaps(text, inner))]
    for one, value in inner.entries:
        made.append(f"{lines.margin}{text[one.start : _end_of(text, one, value)]}{lines.newline}")
    tail = text[inner.end : lines._bounds[id(key)][1]]
    made += [f"{lines.margin}{one}{lines.newline}" for one in _COMMENT.findall(tail)]
    return "".join(before) + "".join(made)


def _gaps(text: str, inner: YAMLNode) -> str:
    """Return the texts between the entries of a mapping in flow style."""
    at, found = inner.start, []
    for one, value in inner.entries:
        found.append(text[at : one.start])
        at = _end_of(text, one, value)
    return "\n".join([*found, text[at : inner.end]]) if inner.kind == "mapping" else ""


def _spelled(node: YAMLNode, name: str) -> str:
    """Return a key in the style of the other keys of the mapping: in quotes, as in JSON, if one of them is."""
    quoted = any(key.style == '"' for key, _ in node.entries)
    return f'"{name}"' if quoted else name


def _wrap_flow(text: str, node: YAMLNode, moved: list[tuple[YAMLNode, YAMLNode]], name: str) -> Iterator[TextEdit]:
    places = [number for number, entry in enumerate(node.entries) if entry in moved]
    head = f"{_spelled(node, name)}: {{"
    # The moved entries are adjacent: two insertions suffice, and comments between them stay.
    if places[-1] - places[0] == len(places) - 1:
        end = _end_of(text, *moved[-1])
        yield TextEdit(moved[0][0].start, moved[0][0].start, head)
        yield TextEdit(end, end, "}")
        return
    if "#" in _gaps(text, node):
        raise Unconvertible("comments between entries in braces that would have to be moved")
    kept = [entry for entry in node.entries if entry not in moved]
    inner = ", ".join(text[key.start : _end_of(text, key, value)] for key, value in moved)
    rest = ", ".join(text[key.start : _end_of(text, key, value)] for key, value in kept)
    yield TextEdit(node.start + 1, node.end - 1, f"{rest}, {head}{inner}}}")


def _unwrap_flow(text: str, node: YAMLNode, key: YAMLNode, inner: YAMLNode) -> Iterator[TextEdit]:
    if not inner.entries:
        yield _without_flow(text, node, key)
        return
    last = _end_of(text, *inner.entries[-1])
    yield TextEdit(
        key.start, inner.entries[0][0].start, " ".join(_block_comments(text[key.start : inner.entries[0][0].start]))
    )
    yield TextEdit(last, inner.end, "")


def _block_comments(text: str) -> list[str]:
    if "#" in text:
        raise Unconvertible("a comment inside of braces that would have to be moved")
    return []


def _without_flow(text: str, node: YAMLNode, key: YAMLNode) -> TextEdit:
    """Return the edit that removes an entry in flow style, with the comma behind it or, if it is the last, the one
    before it."""
    number = next(n for n, entry in enumerate(node.entries) if entry[0] is key)
    if number + 1 < len(node.entries):
        return TextEdit(key.start, node.entries[number + 1][0].start, "")
    end = _end_of(text, *node.entries[number])
    start = _end_of(text, *node.entries[number - 1]) if number else key.start
    return TextEdit(start, end, "")


# --- documents


_INDENT: Final = re.compile(r"[\[{]\r?\n( +|\t+)")
_NOTHING: Final = GroupVersionKind("", "", "")


class SourceDocument(NamedTuple):
    """A document: its node, and its values as Kubernetes reads them."""

    node: YAMLNode | None
    value: Any


class SourcePart(NamedTuple):
    """An object, or a List of some."""

    node: YAMLNode
    value: Mapping[str, Any]
    gvk: GroupVersionKind


def documents_of(name: str, text: str) -> list[SourceDocument]:
    """Return all documents.

    Raises:
        InvalidInput: the text is no YAML.
    """
    try:
        values = [one.value for one in read_yaml_documents(text, own=True)]
        return [SourceDocument(node, value) for node, value in zip(read_trees(text), values, strict=True)]
    except DecodeError as error:
        raise InvalidInput(f"{name}: {error}") from error
    except BrokenYAML as error:
        raise InvalidInput(f"{name}:{error.line}:{error.column}: {error}") from error


def parts_in(document: SourceDocument) -> Iterator[SourcePart]:
    """Yield the objects of a document, Lists first."""
    pending: list[tuple[YAMLNode | None, Any, GroupVersionKind]] = [(document.node, document.value, _NOTHING)]
    while pending:
        node, value, given = pending.pop()
        gvk = _kind(value, given)
        if node is None or gvk is None:
            continue
        yield SourcePart(node, value, gvk)
        items, inside = value.get("items"), node.get("items")
        if gvk.kind.endswith("List") and inside is not None and isinstance(items, list):
            element = GroupVersionKind(gvk.group, gvk.version, gvk.kind.removesuffix("List"))
            pairs = zip(inside.items, items, strict=False)
            # Reversed, because the list is used as a stack: objects are to come in their order.
            pending += [(place, item, element) for place, item in pairs][::-1]


def changed_values(value: Any, change: Callable[[Mapping[str, Any], GroupVersionKind], Any]) -> Any:
    """Return a document with every object changed, those of Lists too."""
    return _changed(value, _NOTHING, change)


def _changed(value: Any, given: GroupVersionKind, change: Callable[[Mapping[str, Any], GroupVersionKind], Any]) -> Any:
    gvk = _kind(value, given)
    if gvk is None:
        return value
    made = change(value, gvk)
    items = value.get("items")
    if not gvk.kind.endswith("List") or not isinstance(items, list):
        return made
    element = GroupVersionKind(gvk.group, gvk.version, gvk.kind.removesuffix("List"))
    return {**made, "items": [_changed(item, element, change) for item in items]}


def _kind(value: Any, given: GroupVersionKind) -> GroupVersionKind | None:
    if not isinstance(value, Mapping):
        return None
    kind, version = value.get("kind") or given.kind, value.get("apiVersion") or given.api_version
    if not isinstance(kind, str) or not isinstance(version, str) or not kind or version.count("/") > 1:
        return None
    return GroupVersionKind.parse(version, kind)


def json_of(name: str, text: str) -> Any:
    """Return the values of a text that is one JSON document; None for YAML.

    Raises:
        InvalidInput: it is nested too deeply for Python's decoder.
    """
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        # Python's decoder raises RecursionError for deep nesting, which depends on the stack of the caller.
        check_nesting(text)
        return json.loads(text)
    except NestingError as error:
        raise InvalidInput(f"{name}: {error}") from error
    except ValueError:
        return None


def json_written(value: Any, like: str) -> str:
    """Return JSON with the indentation and the end of ``like``."""
    found = _INDENT.search(like)
    indent: str | None = found[1] if found else None
    separators = (",", ":") if indent is None and '": ' not in like else None
    end = like[len(like.rstrip()) :]
    return json.dumps(value, indent=indent, separators=separators, ensure_ascii=False) + end
