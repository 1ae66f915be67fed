"""The objects of a manifest: documents and Lists taken apart, each with its node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cathedra.api.decoding import DecodeError, read_yaml_documents
from cathedra.api.scheme import GroupVersionKind
from cathedra.insight.manifests.files import ManifestFile
from cathedra.insight.manifests.tree import BrokenYAML, YAMLNode, read_trees

__all__ = ["Manifest", "Unreadable", "manifests_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """An object as it was written: its values, and the nodes that hold them."""

    file: ManifestFile
    node: YAMLNode
    value: Mapping[str, Any]
    gvk: GroupVersionKind
    repeated: tuple[str, ...] = ()
    """Keys that its document says twice, as ``line 3: key "name" already set in map``; with the first object only."""

    @property
    def name(self) -> str:
        """``metadata.name`` or ``metadata.generateName``; "" if there is neither."""
        return self._metadata("name") or self._metadata("generateName")

    @property
    def namespace(self) -> str:
        """``metadata.namespace``; "" if it is not said."""
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
    """The objects of a file in order. What is no object (a Helm values file, a list of texts) is passed over."""
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
    kind, api_version = value.get("kind") or given.kind, value.get("apiVersion") or given.api_version
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
