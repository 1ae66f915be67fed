"""Versions of resource.k8s.io: which release brings, deprecates and removes them (docs/spec/api.md §1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from cathedra.api.core import meta_v1
from cathedra.api.struct import EMPTY_LIST, KubeStruct, reshape
from cathedra.kinds.definition import VersionDefinition
from cathedra.releases import FeatureGates
from cathedra.releases.served import deprecation_warning, device_versions

GROUP: Final = "resource.k8s.io"


class Shapes(msgspec.Struct, frozen=True):
    """The forms of a kind: v1beta2 has that of v1, ``hub``; v1beta1 and v1alpha3 of 1.32 and 1.33 have their own."""

    hub: type[meta_v1.KubeObject]
    v1beta1: VersionDefinition
    v1alpha3: VersionDefinition

    @property
    def older(self) -> tuple[VersionDefinition, ...]:
        """The versions before v1, newest first."""
        return VersionDefinition("v1beta2", self.hub, served_by_default=False), self.v1beta1, self.v1alpha3


def served_versions(gates: FeatureGates, shapes: Shapes) -> tuple[VersionDefinition, ...]:
    """Return versions in order of preference. Until 1.33 no version is served unless it is switched on."""
    kind = shapes.hub.__name__
    made = {"v1": VersionDefinition("v1", shapes.hub)}
    for version in shapes.older:
        warning = deprecation_warning(gates.release, GROUP, version.name, kind)
        made[version.name] = msgspec.structs.replace(version, deprecation_warning=warning)
    return tuple(made[name] for name in device_versions(gates.release))


def beta_version(
    kind: type[meta_v1.KubeObject], to_hub: Callable[[Any], Any], from_hub: Callable[[Any], Any]
) -> VersionDefinition:
    """Return a kind in v1beta1."""
    return VersionDefinition("v1beta1", kind, to_hub, from_hub, served_by_default=False)


def alpha_version(
    kind: type[meta_v1.KubeObject],
    flat: type[meta_v1.KubeObject],
    to_hub: Callable[[Any], Any],
    from_hub: Callable[[Any], Any],
) -> VersionDefinition:
    """Return a kind in v1alpha3 of 1.32 and 1.33, where it has the shape of v1beta1."""

    def alpha_to_hub(obj: Any) -> Any:
        return to_hub(reshape(obj, flat))

    def alpha_from_hub(obj: Any) -> Any:
        return reshape(from_hub(obj), kind)

    return VersionDefinition("v1alpha3", kind, alpha_to_hub, alpha_from_hub, served_by_default=False)


def reshape_all(items: Any, kind: type[KubeStruct]) -> Any:
    """Return a list reshaped element by element; absent and spelled-out-empty lists stay what they are."""
    if items is None or items is EMPTY_LIST:
        return items
    return tuple(reshape(item, kind) for item in items)
