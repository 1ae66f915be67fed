"""The rights that reading a cluster needs, and no more, as a ClusterRole."""

from __future__ import annotations

from cathedra.api.core import rbac_v1
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.insight.reading.kinds import READ_KINDS

__all__ = ["reader_role"]


def reader_role(name: str = "cathedra-insight") -> rbac_v1.ClusterRole:
    """A role with which all tools work: it lists and watches what they read, and changes nothing."""
    groups: dict[str, list[str]] = {}
    for kind in READ_KINDS:
        groups.setdefault(kind.ref.group, []).append(kind.plural)
    rules = tuple(
        rbac_v1.PolicyRule(api_groups=(group,), resources=tuple(sorted(plurals)), verbs=("list", "watch"))
        for group, plurals in sorted(groups.items())
    )
    return rbac_v1.ClusterRole(metadata=ObjectMeta(name=name), rules=rules)
