"""The documents of a text with their nodes, Lists and what is in them one by one; and JSON, which is written anew."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from cathedra.allocation.errors import InvalidInput
from cathedra.api.decoding import DecodeError, read_yaml_documents
from cathedra.api.nesting import NestingError, check_nesting
from cathedra.api.scheme import GroupVersionKind
from cathedra.insight.manifests.tree import BrokenYAML, YAMLNode, read_trees

__all__ = ["SourceDocument", "SourcePart", "changed_values", "documents_of", "json_of", "json_written", "parts_in"]

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
    """All documents.

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
    """The objects of a document, Lists first."""
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
            pending += [(place, item, element) for place, item in pairs][::-1]


def changed_values(value: Any, change: Callable[[Mapping[str, Any], GroupVersionKind], Any]) -> Any:
    """A document with every object changed, those of Lists too."""
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
        check_nesting(text)
        return json.loads(text)
    except NestingError as error:
        raise InvalidInput(f"{name}: {error}") from error
    except ValueError:
        return None


def json_written(value: Any, like: str) -> str:
    """JSON with the indentation and the end of ``like``."""
    found = _INDENT.search(like)
    indent: str | None = found[1] if found else None
    separators = (",", ":") if indent is None and '": ' not in like else None
    end = like[len(like.rstrip()) :]
    return json.dumps(value, indent=indent, separators=separators, ensure_ascii=False) + end
