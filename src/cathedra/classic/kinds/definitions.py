"""The kinds of resource.k8s.io that a release from 1.26 to 1.30 has; none is served unless asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from cathedra.api.core import resource_v1alpha1 as v1alpha1
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.gates import FeatureGates
from cathedra.classic.kinds import columns, conversion
from cathedra.classic.kinds.strategies import (
    ClassicClaimStatusStrategy,
    ClassicClaimStrategy,
    ClassicClassStrategy,
    ClassicTemplateStrategy,
    ContextStatusStrategy,
    ContextStrategy,
)
from cathedra.kinds.definition import AnyDefinition, ResourceDefinition, VersionDefinition

__all__ = ["GROUP", "classic_definitions"]

GROUP: Final = "resource.k8s.io"
T = TypeVar("T", bound=KubeObject)


def classic_definitions(gates: FeatureGates) -> tuple[AnyDefinition, ...]:
    """The kinds of the group in the release: v1alpha1 in 1.26, v1alpha2 from 1.27 to 1.30."""
    first = not gates.at_least("1.27")
    structured: tuple[ResourceDefinition[Any], ...] = ()
    if gates.at_least("1.30"):
        # start-up time: CEL, with the one release that has them
        from cathedra.classic.kinds.structured import structured_definitions

        structured = structured_definitions()
    return (
        ResourceDefinition(
            group=GROUP,
            kind="ResourceClass",
            plural="resourceclasses",
            singular="resourceclass",
            namespaced=False,
            type=v1alpha2.ResourceClass,
            versions=_versions(
                v1alpha2.ResourceClass,
                v1alpha1.ResourceClass if first else None,
                conversion.class_to_hub,
                conversion.class_from_hub,
            ),
            strategy=ClassicClassStrategy(),
            columns=columns.CLASS_COLUMNS,
            cells=columns.class_cells,
        ),
        ResourceDefinition(
            group=GROUP,
            kind="ResourceClaim",
            plural="resourceclaims",
            singular="resourceclaim",
            namespaced=True,
            type=v1alpha2.ResourceClaim,
            versions=_versions(
                v1alpha2.ResourceClaim,
                v1alpha1.ResourceClaim if first else None,
                conversion.claim_to_hub,
                conversion.claim_from_hub,
            ),
            strategy=ClassicClaimStrategy(),
            subresources={"status": ClassicClaimStatusStrategy()},
            columns=columns.CLAIM_COLUMNS,
            cells=columns.claim_cells,
        ),
        ResourceDefinition(
            group=GROUP,
            kind="ResourceClaimTemplate",
            plural="resourceclaimtemplates",
            singular="resourceclaimtemplate",
            namespaced=True,
            type=v1alpha2.ResourceClaimTemplate,
            versions=_versions(
                v1alpha2.ResourceClaimTemplate,
                v1alpha1.ResourceClaimTemplate if first else None,
                conversion.template_to_hub,
                conversion.template_from_hub,
            ),
            strategy=ClassicTemplateStrategy(),
            columns=columns.TEMPLATE_COLUMNS,
            cells=columns.template_cells,
        ),
        ResourceDefinition(
            group=GROUP,
            kind="PodScheduling" if first else "PodSchedulingContext",
            plural="podschedulings" if first else "podschedulingcontexts",
            singular="podscheduling" if first else "podschedulingcontext",
            namespaced=True,
            type=v1alpha2.PodSchedulingContext,
            versions=_versions(
                v1alpha2.PodSchedulingContext,
                v1alpha1.PodScheduling if first else None,
                conversion.context_to_hub,
                conversion.context_from_hub,
            ),
            strategy=ContextStrategy(),
            subresources={"status": ContextStatusStrategy()},
            columns=columns.CONTEXT_COLUMNS,
            cells=columns.context_cells,
        ),
        *structured,
    )


def _versions(
    hub: type[T], first: type[KubeObject] | None, to_hub: Callable[[Any], T], from_hub: Callable[[T], Any]
) -> tuple[VersionDefinition, ...]:
    if first is None:
        return (VersionDefinition("v1alpha2", hub, served_by_default=False),)
    return (VersionDefinition("v1alpha1", first, to_hub, from_hub, served_by_default=False),)
