"""JSON patch (RFC 6902), with Kubernetes' leniency: replacing a missing key adds it (spec: apimachinery.md, section
6.2)."""

from __future__ import annotations

import copy
from typing import Any

__all__ = ["JSONPatchError", "json_patch"]


class JSONPatchError(ValueError):
    """An operation cannot be carried out."""


def json_patch(target: Any, operations: list[Any]) -> Any:
    """``target`` after all operations; ``target`` itself is not changed.

    Raises:
        JSONPatchError: an operation fails; none counts.
    """
    document = copy.deepcopy(target)
    for operation in operations:
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise JSONPatchError("an operation is an object")
    op, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise JSONPatchError("an operation needs a path")
    keys = _pointer(path)
    if op == "test":
        if not _equal(_lookup(document, keys), operation.get("value")):
            raise JSONPatchError(f"testing value {path} failed")
        return document
    if op == "remove":
        return _remove(document, keys)
    if op in {"add", "replace"}:
        if "value" not in operation:
            raise JSONPatchError(f"{op} operation needs a value")
        value = copy.deepcopy(operation["value"])
        return _add(document, keys, value) if op == "add" else _replace(document, keys, value)
    if op in {"move", "copy"}:
        origin = operation.get("from")
        if not isinstance(origin, str):
            raise JSONPatchError(f"{op} operation needs a from")
        value = copy.deepcopy(_lookup(document, _pointer(origin)))
        if op == "move":
            document = _remove(document, _pointer(origin))
        return _add(document, keys, value)
    raise JSONPatchError(f"unexpected kind: {op}")


def _pointer(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise JSONPatchError(f"{path!r} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _equal(found: Any, wanted: Any) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return bool(found == wanted)


def _index(items: list[Any], key: str, *, end: int) -> int:
    if key.startswith("-") and key[1:].isdigit():
        position = int(key) + len(items)
    elif key.isdigit():
        position = int(key)
    else:
        raise JSONPatchError(f"{key!r} is no index")
    if not 0 <= position < end:
        raise JSONPatchError(f"index {key} is out of bounds")
    return position


def _step(node: Any, key: str) -> Any:
    if isinstance(node, dict) and key in node:
        return node[key]
    if isinstance(node, list):
        return node[_index(node, key, end=len(node))]
    raise JSONPatchError(f"{key!r} is not there")


def _lookup(document: Any, keys: list[str]) -> Any:
    for key in keys:
        document = _step(document, key)
    return document


def _parent(document: Any, keys: list[str]) -> Any:
    parent = _lookup(document, keys[:-1])
    if not isinstance(parent, (dict, list)):
        raise JSONPatchError(f"{keys[-1]!r} has no place")
    return parent


def _add(document: Any, keys: list[str], value: Any) -> Any:
    if not keys:
        return value
    parent = _parent(document, keys)
    if isinstance(parent, dict):
        parent[keys[-1]] = value
    elif keys[-1] == "-":
        parent.append(value)
    else:
        parent.insert(_index(parent, keys[-1], end=len(parent) + 1), value)
    return document


def _replace(document: Any, keys: list[str], value: Any) -> Any:
    if not keys:
        return value
    parent = _parent(document, keys)
    if isinstance(parent, dict):
        parent[keys[-1]] = value
    else:
        parent[_index(parent, keys[-1], end=len(parent))] = value
    return document


def _remove(document: Any, keys: list[str]) -> Any:
    if not keys:
        raise JSONPatchError("the document itself cannot be removed")
    parent = _parent(document, keys)
    if isinstance(parent, dict):
        if keys[-1] not in parent:
            raise JSONPatchError(f"{keys[-1]!r} is not there")
        del parent[keys[-1]]
    else:
        del parent[_index(parent, keys[-1], end=len(parent))]
    return document
