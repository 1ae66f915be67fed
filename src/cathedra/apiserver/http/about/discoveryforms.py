"""The list of another server's resources in the form of aggregated discovery."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["aggregated_resources"]


def aggregated_resources(listed: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """APIResources as APIResourceDiscovery: sub-resources below their resource."""
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(listed, key=lambda one: str(one.get("name", ""))):
        name, _, subresource = str(one.get("name", "")).partition("/")
        kind = {"group": one.get("group", ""), "version": one.get("version", ""), "kind": one.get("kind", "")}
        scope = "Namespaced" if one.get("namespaced") else "Cluster"
        entry = found.setdefault(name, {"resource": name, "scope": scope})
        if subresource:
            below = {"subresource": subresource, "responseKind": kind, "verbs": one.get("verbs", [])}
            entry.setdefault("subresources", []).append(below)
            continue
        entry |= {"responseKind": kind, "verbs": one.get("verbs", [])}
        for wanted, given in (
            ("singularResource", "singularName"),
            ("shortNames", "shortNames"),
            ("categories", "categories"),
        ):
            if one.get(given):
                entry[wanted] = one[given]
    return list(found.values())
