"""The reduced forms in which ``vectors/api`` records discovery and OpenAPI."""

from __future__ import annotations

import re
from typing import Any

GROUPS = frozenset({"", "apps", "batch", "resource.k8s.io"})


def shaped(shape: str, value: Any) -> Any:
    """``value`` reduced to what the vectors keep."""
    return {
        "openapi": openapi,
        "aggregated": aggregated,
        "groups": groups,
        "index": index,
        "index_root": index_root,
    }[shape](value)


def aggregated(value: Any) -> Any:
    items = [item for item in value.get("items", []) if item["metadata"].get("name", "") in GROUPS]
    return {**value, "items": items}


def groups(value: Any) -> Any:
    return {**value, "groups": [group for group in value.get("groups", []) if group["name"] in GROUPS]}


def index(value: Any) -> Any:
    return {"paths": {path: item for path, item in value["paths"].items() if _kept(path)}}


def index_root(value: Any) -> Any:
    return {**value, "paths": [path for path in value["paths"] if _kept(path.strip("/"))]}


def _kept(path: str) -> bool:
    return bool(re.fullmatch(r"|api(/v1)?|apis(/(apps|batch|resource\.k8s\.io)(/.*)?)?|version|openapi/.*", path))


def openapi(value: Any) -> Any:
    return value
