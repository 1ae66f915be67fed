"""The kinds of resource.k8s.io in 1.31; none is served unless asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from cathedra.api import resource
from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.classic.controlplane.kinds import conversion
from cathedra.classic.controlplane.kinds.claims import (
    ControlledClaimStatusStrategy,
    ControlledClaimStrategy,
    ControlledTemplateStrategy,
    controlled_claim_cells,
)
from cathedra.classic.controlplane.kinds.classes import ControlledClassStrategy
from cathedra.classic.controlplane.kinds.types import ControlledClaim, ControlledClass, ControlledTemplate
from cathedra.classic.kinds.definitions import context_definition
from cathedra.kinds.definition import AnyDefinition, VersionDefinition
from cathedra.kinds.resource.claims.strategy import claim_definition, template_definition
from cathedra.kinds.resource.classes import class_definition
from cathedra.kinds.resource.slices.conversion import alpha_slice_from_hub, alpha_slice_to_hub
from cathedra.kinds.resource.slices.strategy import slice_definition
from cathedra.releases import FeatureGates

__all__ = ["control_plane_definitions"]


def control_plane_definitions(gates: FeatureGates) -> tuple[AnyDefinition, ...]:
    """The kinds of the group; PodSchedulingContext is among them whether or not anything negotiates."""
    to_claim, from_claim = conversion.claim_to_hub, conversion.claim_from_hub
    to_template, from_template = conversion.template_to_hub, conversion.template_from_hub
    to_class, from_class = conversion.class_to_hub, conversion.class_from_hub
    contexts = _version(v1alpha3.PodSchedulingContext, conversion.context_to_hub, conversion.context_from_hub)
    claim_type: type[resource.ResourceClaim] = ControlledClaim
    template_type: type[resource.ResourceClaimTemplate] = ControlledTemplate
    class_type: type[resource.DeviceClass] = ControlledClass
    return (
        replace(
            class_definition(gates),
            type=class_type,
            versions=_version(v1alpha3.DeviceClass, to_class, from_class),
            strategy=ControlledClassStrategy(),
        ),
        replace(
            claim_definition(gates),
            type=claim_type,
            versions=_version(v1alpha3.ResourceClaim, to_claim, from_claim),
            strategy=ControlledClaimStrategy(),
            subresources={"status": ControlledClaimStatusStrategy()},
            cells=controlled_claim_cells,
        ),
        replace(
            template_definition(gates),
            type=template_type,
            versions=_version(v1alpha3.ResourceClaimTemplate, to_template, from_template),
            strategy=ControlledTemplateStrategy(),
        ),
        replace(
            slice_definition(gates),
            versions=_version(v1alpha3.ResourceSlice, alpha_slice_to_hub, alpha_slice_from_hub),
        ),
        context_definition(contexts),
    )


def _version(
    kind: type[KubeObject], to_hub: Callable[[Any], Any], from_hub: Callable[[Any], Any]
) -> tuple[VersionDefinition, ...]:
    return (VersionDefinition("v1alpha3", kind, to_hub, from_hub, served_by_default=False),)
