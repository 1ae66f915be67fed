"""Manifests as their authors wrote them: objects with the position of every field.

YAML and JSON are parsed into nodes with positions. Files, directories and standard input are read, documents and Lists
are split into objects, and the position of a field, or of a character in a field's text, is found.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import NamedContent, read_input
from cathedra.api.core.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from cathedra.api.core.batch_v1 import CronJob, Job
from cathedra.api.core.core_v1 import Pod, PodSpec, PodTemplate, ReplicationController
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.decoding import DecodeError, read_yaml_documents
from cathedra.api.scheme import GroupVersionKind

Written: TypeAlias = str | Path | NamedContent | Sequence[str | Path | NamedContent]
"""The text of manifests, a file or directory, or several of these; ``Path("-")`` is standard input."""

STDIN: Final = Path("-")
_SUFFIXES: Final = frozenset((".yaml", ".yml", ".json"))
_BOM: Final = "\ufeff"


class ManifestFile:
    """The text of a file, without a byte order mark, and where its lines begin."""

    def __init__(self, name: str, text: str, path: Path | None = None) -> None:
        self.name, self.path = name, path
        self.mark = _BOM if text.startswith(_BOM) else ""
        """The byte order mark in front of the text, or ""."""
        self.text = text.removeprefix(_BOM)
        self.lines = self.text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def place(self, index: int) -> tuple[int, int]:
        """Return line and column of a character, both counted from 1."""
        low, high = 0, len(self.lines) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._starts[middle] <= index:
                low = middle
            else:
                high = middle - 1
        return low + 1, index - self._starts[low] + 1

    def line(self, number: int) -> str:
        """Return a line, counted from 1, without its end; "" beyond the last."""
        return self.lines[number - 1].removesuffix("\r") if 0 < number <= len(self.lines) else ""


def written_files(given: Written) -> Iterator[ManifestFile]:
    """Yield the given files; a text is a file named «text».

    Raises:
        InvalidInput: as `read_files`, or a text is the name of a file.
        OSError: one cannot be read.
    """
    if isinstance(given, str):
        check_is_text(given)
        yield ManifestFile("text", given)
    elif isinstance(given, Path):
        yield from read_files([given])
    elif isinstance(given, NamedContent):
        yield _decoded(given.name, given.content, None)
    else:
        for one in given:
            yield from written_files(one)


def check_is_text(given: str) -> None:
    """Refuse the name of a file in place of its text.

    Raises:
        InvalidInput: the text is one line without a key, list or comment.
    """
    line = given.strip()
    if line and "\n" not in line and line[0] not in "#[{-" and ": " not in line and not line.endswith(":"):
        shown = line if len(line) <= 80 else f"{line[:80]}…"
        raise InvalidInput(
            f"{shown!r} is a text, and no Kubernetes object; if it names a file, pass pathlib.Path({shown!r})"
        )


def read_files(paths: Iterable[Path]) -> Iterator[ManifestFile]:
    """Yield the files in order; of directories those with manifests in them, at any depth, hidden ones left out.

    Raises:
        InvalidInput: one is not there, holds no manifest (a directory), is no text in UTF-8, or is too long
            (`read_input`).
        OSError: one cannot be read.
    """
    for path in paths:
        if path == STDIN:
            yield _decoded("standard input", read_input(sys.stdin.buffer, "standard input"), None)
            continue
        if not path.exists():
            raise InvalidInput(f"{path}: there is no such file or directory")
        if not path.is_dir():
            yield _read(path)
            continue
        found = [one for one in sorted(path.rglob("*")) if one.suffix in _SUFFIXES and one.is_file()]
        found = [one for one in found if not any(part.startswith(".") for part in one.relative_to(path).parts)]
        if not found:
            raise InvalidInput(f"{path}: there are no manifests ({', '.join(sorted(_SUFFIXES))}) in it")
        yield from map(_read, found)


def _read(path: Path) -> ManifestFile:
    with path.open("rb") as stream:
        return _decoded(str(path), read_input(stream, str(path)), path)


def _decoded(name: str, body: bytes, path: Path | None) -> ManifestFile:
    try:
        return ManifestFile(name, body.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name}: it is no text in UTF-8 (byte {error.start})") from error


# --- objects


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """An object as it was written: its values, and the nodes that hold them."""

    file: ManifestFile
    node: YAMLNode
    value: Mapping[str, Any]
    gvk: GroupVersionKind
    repeated: tuple[str, ...] = ()
    """Duplicate keys of its document, as ``line 3: key "name" already set in map``; with the first object only."""

    @property
    def name(self) -> str:
        """``metadata.name`` or ``metadata.generateName``; "" if there is neither."""
        return self._metadata("name") or self._metadata("generateName")

    @property
    def namespace(self) -> str:
        """``metadata.namespace``; "" if it is not set."""
        return self._metadata("namespace")

    def _metadata(self, field: str) -> str:
        metadata = self.value.get("metadata")
        found = metadata.get(field) if isinstance(metadata, Mapping) else None
        return found if isinstance(found, str) else ""


@dataclass(frozen=True, slots=True, eq=False)
class Unreadable:
    """A document that cannot be read, and those after it with it; ``index`` is the place in the text."""

    file: ManifestFile
    line: int
    column: int
    text: str


def manifests_of(file: ManifestFile) -> Iterator[Manifest | Unreadable]:
    """Yield the objects of a file in order. What is no object (a Helm values file, a list of texts) is passed over."""
    trees = read_trees(file.text)
    values = read_yaml_documents(file.text, own=True)
    line, column = 1, 1
    while True:
        try:
            root = next(trees)
            line, column = file.place(root.start) if root is not None else (line, column)
            document = next(values)
        except StopIteration:
            return
        except BrokenYAML as error:
            yield Unreadable(file, error.line, error.column, f"no YAML: {error}")
            return
        except DecodeError as error:
            yield Unreadable(file, line, column, str(error))
            return
        if root is not None:
            yield from _objects(file, root, document.value, GroupVersionKind("", "", ""), document.repeated)


def _objects(
    file: ManifestFile, node: YAMLNode, value: Any, given: GroupVersionKind, repeated: tuple[str, ...]
) -> Iterator[Manifest]:
    if not isinstance(value, Mapping):
        return
    kind = value.get("kind") or value.get(misspelt(value, "kind")) or given.kind
    api_version = value.get("apiVersion") or value.get(misspelt(value, "apiVersion")) or given.api_version
    if not isinstance(kind, str) or not isinstance(api_version, str) or not kind:
        return
    gvk = GroupVersionKind.parse(api_version, kind) if api_version.count("/") <= 1 else GroupVersionKind("", "", kind)
    items = value.get("items")
    inside = node.get("items")
    if not kind.endswith("List") or inside is None or not isinstance(items, list):
        yield Manifest(file, node, value, gvk, repeated)
        return
    element = GroupVersionKind(gvk.group, gvk.version, kind.removesuffix("List"))
    for place, item in zip(inside.items, items, strict=False):
        yield from _objects(file, place, item, element if element.kind else GroupVersionKind("", "", ""), repeated)
        repeated = ()


def misspelt(value: Mapping[str, Any], field: str) -> str:
    """Return the key that differs from ``field`` in case only, where ``field`` itself is missing; "" if there is
    none."""
    if field in value:
        return ""
    return next((key for key in value if isinstance(key, str) and key.lower() == field.lower()), "")


POD_SPECS = {
    "Pod": "spec",
    "PodTemplate": "template.spec",
    "CronJob": "spec.jobTemplate.spec.template.spec",
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"), "spec.template.spec"
    ),
}
"""Kind → the path of its pod's spec."""


def pod_spec_of(obj: KubeObject) -> PodSpec | None:
    """Return the spec of the object's pods; None if it makes none."""
    if isinstance(obj, Pod):
        return obj.spec
    if isinstance(obj, PodTemplate):
        return obj.template.spec
    if isinstance(obj, CronJob):
        return obj.spec.job_template.spec.template.spec
    if isinstance(obj, (Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController, Job)):
        template = obj.spec.template
        return template.spec if template is not None else None
    return None


# --- places of fields


_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_OPTIONAL: Final = frozenset(("exactly", "basic"))
"""Levels that some versions of resource.k8s.io have and others lack."""


def find_node(root: YAMLNode, path: str) -> tuple[YAMLNode, YAMLNode | None, bool]:
    """Return the node of a field such as ``spec.devices.requests[0].exactly.count``, the key before it if there is one,
    and whether it was found; otherwise they are of the nearest field around it."""
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


class TextPositions:
    """Positions of the characters of a scalar's value, in each of YAML's styles.

    The characters of the value appear in the text in the same order, with line breaks, indentation, quotes and escapes
    between them. Both are scanned in parallel.
    """

    def __init__(self, file: ManifestFile, node: YAMLNode) -> None:
        self._file, self._node = file, node
        self._indexes = _aligned(file.text, node)

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of a character of the value; beyond the last, that after it."""
        if not self._indexes:
            return self._file.place(self._node.start)
        if offset >= len(self._indexes):
            line, column = self._file.place(self._indexes[-1])
            return line, column + 1
        return self._file.place(self._indexes[max(offset, 0)])

    def offset(self, index: int) -> int:
        """Return the character of the value that stands at ``index`` of the text, or the nearest before it."""
        return max(bisect_right(self._indexes, index) - 1, 0)


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
    """Return the position of the next ``letter``: line breaks and indentation are skipped, blanks stand for folded
    breaks."""
    if letter.isspace():
        if at < end and (text[at].isspace() or (double and text[at] == "\\")):
            return at
        return min(at, end)
    while at < end and (text[at].isspace() or (double and text[at] == "\\" and text[at + 1 : at + 2] == "\n")):
        at += 1
    return at


def _width(text: str, at: int, *, double: bool) -> int:
    """Return the number of characters of the text for one character of the value."""
    if not double or text[at] != "\\":
        return 1
    following = text[at + 1 : at + 2]
    return 2 + _CODES.get(following, 0)


# YAML as nodes with positions in the text.
#
# The values that Kubernetes would decode come from `cathedra.api.decoding`, whose parser keeps no positions; here are
# the positions of the same document. Comments and quotes are found in the text itself, between the positions.


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
        """Return key and value of a mapping's key."""
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
    """Yield the root of every document; None for one without content. An alias yields the node that it refers to.

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
