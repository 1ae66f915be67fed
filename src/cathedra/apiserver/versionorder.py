"""The order of groups and versions: as a stock server lists them (docs/spec/apimachinery.md §2.1)."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["group_order", "version_order"]

_GROUPS: Final = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
)
_RANK: Final = {group: position for position, group in enumerate(_GROUPS)}
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def group_order(group: str) -> tuple[int, str]:
    """Sort key of a group: the stock order, then the rest by name."""
    return _RANK.get(group, len(_GROUPS)), group


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sort key of a version: stable before beta before alpha, newer first."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return stage, -int(match[1]), -int(match[3] or 0), version
