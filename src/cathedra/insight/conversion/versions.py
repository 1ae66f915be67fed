"""A text in another version of resource.k8s.io: only the fields that the versions have in different places change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.decoding import DecodeError, decode_values
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupVersionKind
from cathedra.insight.conversion.documents import (
    SourceDocument,
    SourcePart,
    changed_values,
    documents_of,
    json_of,
    json_written,
    parts_in,
)
from cathedra.insight.conversion.edits import TextEdit, Unconvertible, edited, unwrap, wrap
from cathedra.insight.conversion.values import (
    CONVERTIBLE,
    EXACTLY,
    FLAT,
    KEPT_OF_DEVICES,
    KEPT_OF_REQUESTS,
    WRAPPED,
    in_version,
    parts_of,
)
from cathedra.insight.manifests.tree import YAMLNode
from cathedra.insight.reading.objects import definition_of

__all__ = ["VersionChange"]

_GROUP: Final = "resource.k8s.io"


class VersionChange:
    """Rewrites texts to one version, and remembers what was changed in the last one."""

    def __init__(self, to: str) -> None:
        self._to = to
        self.changes: list[str] = []
        self.notes: list[str] = []

    def rewritten(self, name: str, text: str) -> str:
        """The text in the version.

        Raises:
            InvalidInput: it is no YAML.
            Unconvertible: it cannot be changed without changing more.
        """
        self.changes, self.notes = [], []
        plain = json_of(name, text)
        if plain is not None:
            made = changed_values(plain, self._converted)
            return json_written(made, text) if made != plain else text
        documents = documents_of(name, text)
        expected = [changed_values(one.value, self._converted) for one in documents]
        if not self.changes:
            return text
        first = edited(text, [edit for one in documents for edit in self._capacities(text, one)])
        if first != text:
            documents = documents_of(name, first)
        made_text = edited(first, [edit for one in documents for edit in self._edits(first, one)])
        if [one.value for one in documents_of(name, made_text)] != expected:
            raise Unconvertible("anchors or unusual indentation")
        return made_text

    def _converted(self, value: Mapping[str, Any], gvk: GroupVersionKind) -> JSONObject:
        """The values of one object, and a note of what was done."""
        if gvk.group != _GROUP or gvk.version == self._to:
            return {**value}
        where = _title(value, gvk)
        if gvk.version not in CONVERTIBLE:
            self.notes.append(f"{where} stays in {gvk.version}: from there no conversion leads to {self._to}")
            return {**value}
        if not self._exists(gvk):
            self.notes.append(f"{where} stays in {gvk.version}: {gvk.kind} has no version {self._to}")
            return {**value}
        self.changes.append(f"{where}: {gvk.version} → {self._to}")
        made = in_version(value, gvk.kind, gvk.version, self._to)
        self.notes += [f"{where}: {problem} in {self._to}" for problem in _unknown(made, gvk, self._to)]
        return made

    def _exists(self, gvk: GroupVersionKind) -> bool:
        if gvk.version not in CONVERTIBLE:
            return False
        definition = definition_of(gvk.group, gvk.kind.removesuffix("List"))
        return definition is not None and any(one.name == self._to for one in definition.versions)

    def _parts(self, document: SourceDocument) -> Iterator[SourcePart]:
        seen: set[int] = set()
        for part in parts_in(document):
            if part.gvk.group == _GROUP and part.gvk.version != self._to and self._exists(part.gvk):
                if id(part.node) not in seen:
                    yield part
                seen.add(id(part.node))

    def _capacities(self, text: str, document: SourceDocument) -> Iterator[TextEdit]:
        """v1alpha3 has bare quantities as capacities."""
        for part in self._parts(document):
            if part.gvk.version != "v1alpha3" or part.gvk.kind != "ResourceSlice":
                continue
            for device in _elements(part.node, part.gvk.kind):
                basic = device.get(WRAPPED)
                capacity = basic.get("capacity") if basic is not None else None
                for _, value in capacity.entries if capacity is not None else ():
                    if value.kind == "scalar":
                        yield TextEdit(value.start, value.start, "{value: ")
                        yield TextEdit(value.end, value.end, "}")

    def _edits(self, text: str, document: SourceDocument) -> Iterator[TextEdit]:
        told: set[int] = set()
        for part in self._parts(document):
            entry = part.node.entry("apiVersion")
            if entry is not None and id(entry[1]) not in told:
                told.add(id(entry[1]))
                node = entry[1]
                written = text[node.start : node.end]
                old = f"{_GROUP}/{part.gvk.version}"
                yield TextEdit(node.start, node.end, written.replace(old, f"{_GROUP}/{self._to}"))
            if (part.gvk.version in FLAT) is (self._to in FLAT):
                continue
            for element in _elements(part.node, part.gvk.kind):
                if id(element) not in told:
                    told.add(id(element))
                    yield from self._element(text, element, part.gvk.kind)

    def _element(self, text: str, element: YAMLNode, kind: str) -> Iterator[TextEdit]:
        is_slice, flat = kind == "ResourceSlice", self._to in FLAT
        name, kept = (WRAPPED, KEPT_OF_DEVICES) if is_slice else (EXACTLY, KEPT_OF_REQUESTS)
        if is_slice is not flat:
            yield from unwrap(text, element, name)
            return
        yield from wrap(text, element, kept, name)
        if is_slice and all(key.text in kept for key, _ in element.entries):
            # A device without properties has an empty ``basic``.
            yield from _empty(text, element, name)


def _unknown(value: Mapping[str, Any], gvk: GroupVersionKind, version: str) -> tuple[str, ...]:
    """Fields that the version does not have; they stay, for the author has to decide what becomes of them."""
    definition = definition_of(gvk.group, gvk.kind)
    if definition is None:
        return ()
    try:
        kind = definition.version(version).type
        return decode_values(kind, GroupVersionKind(gvk.group, version, gvk.kind), value).problems
    except (DecodeError, msgspec.MsgspecError, TypeError):
        return ()


def _empty(text: str, element: YAMLNode, name: str) -> Iterator[TextEdit]:
    if not element.entries:
        return
    key, value = element.entries[-1]
    if element.is_flow:
        quoted = f'"{name}"' if key.style == '"' else name
        yield TextEdit(value.end, value.end, f", {quoted}: {{}}")
        return
    column = key.start - text.rfind("\n", 0, key.start) - 1
    newline = "\r\n" if "\r\n" in text else "\n"
    at = text.find("\n", value.end)
    if at < 0:
        yield TextEdit(len(text), len(text), f"{newline}{' ' * column}{name}: {{}}")
    else:
        yield TextEdit(at + 1, at + 1, f"{' ' * column}{name}: {{}}{newline}")


def _elements(node: YAMLNode, kind: str) -> Iterator[YAMLNode]:
    """The requests or devices of an object."""
    found: YAMLNode | None = node
    for step in parts_of(kind):
        found = found.get(step) if found is not None else None
    if found is not None:
        yield from (item for item in found.items if item.kind == "mapping")


def _title(value: Mapping[str, Any], gvk: GroupVersionKind) -> str:
    metadata = value.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    names = (known.get("namespace"), known.get("name") or known.get("generateName"))
    return "/".join((gvk.kind, *(str(one) for one in names if one)))
