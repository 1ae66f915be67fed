"""Versions of resource.k8s.io: which release brings, deprecates and removes them (docs/spec/api.md §1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cathedra.api.core import meta_v1
from cathedra.api.gates import FeatureGates
from cathedra.api.struct import EMPTY_LIST, KubeStruct, reshape
from cathedra.kinds.definition import VersionDefinition

__all__ = ["GROUP", "deprecation", "reshape_all", "served_versions"]

GROUP: Final = "resource.k8s.io"
_LIFE: Final = {
    "v1beta1": ("1.32", "1.35", "1.38"),
    "v1beta2": ("1.33", "1.36", "1.39"),
    "v1": ("1.34", "", ""),
}
"""Version → release that brings it, deprecates it, removes it."""


def served_versions(
    gates: FeatureGates,
    hub: type[meta_v1.KubeObject],
    flat: type[meta_v1.KubeObject],
    to_hub: Callable[[Any], Any],
    from_hub: Callable[[Any], Any],
) -> tuple[VersionDefinition, ...]:
    """Versions in order of preference; v1beta2 has the shape of v1, v1beta1 one of its own."""
    kind = hub.__name__
    made = {
        "v1": VersionDefinition("v1", hub),
        "v1beta2": VersionDefinition(
            "v1beta2", hub, served_by_default=False, deprecation_warning=_warning(gates, "v1beta2", kind)
        ),
        "v1beta1": VersionDefinition(
            "v1beta1",
            flat,
            to_hub,
            from_hub,
            served_by_default=False,
            deprecation_warning=_warning(gates, "v1beta1", kind),
        ),
    }
    preferred = ("v1", "v1beta2", "v1beta1") if gates.at_least("1.35") else ("v1beta2", "v1", "v1beta1")
    return tuple(made[name] for name in preferred)


def _warning(gates: FeatureGates, version: str, kind: str) -> str:
    _, deprecated, removed = _LIFE[version]
    return deprecation(gates, version, kind, deprecated, removed)


def deprecation(gates: FeatureGates, version: str, kind: str, deprecated: str, removed: str) -> str:
    if not deprecated or not gates.at_least(deprecated):
        return ""
    return f"{GROUP}/{version} {kind} is deprecated in v{deprecated}+, unavailable in v{removed}+"


def reshape_all(items: Any, kind: type[KubeStruct]) -> Any:
    """A list reshaped element by element; absent and spelled-out-empty lists stay what they are."""
    if items is None or items is EMPTY_LIST:
        return items
    return tuple(reshape(item, kind) for item in items)
