"""What a URL's path names: a resource, an object, a sub-resource, or something else (spec: apimachinery.md, section
1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

__all__ = ["Target", "parse_path"]

NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a resource path. ``resource`` is "" if the path names none."""

    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """What follows the sub-resource, as in ``proxy/metrics``."""
    watch: bool = False
    """Whether the path is of the old ``/watch/`` form."""


@lru_cache(maxsize=8192)
def parse_path(path: str) -> Target | None:
    """The target of a path below ``/api/v1`` or ``/apis/<group>/<version>``; None for every other path."""
    parts = path.strip("/").split("/")
    if len(parts) >= 3 and parts[0] == "api":
        group, version, parts = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = parts[0] == "watch" and len(parts) > 1
    if watch:
        parts = parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource = parts[0]
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    rest = "/".join(parts[3:])
    return Target(group, version, namespace, resource, name, subresource, rest, watch)
