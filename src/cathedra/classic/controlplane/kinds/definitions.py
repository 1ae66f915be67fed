"""The kinds of resource.k8s.io in 1.31. None is served by default.

Device classes are those of today, with the nodes that suit a class's controller (docs/spec/api.md §7.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace as with_fields

from cathedra.api import resource
from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.classic.controlplane.kinds import conversion
from cathedra.classic.controlplane.kinds.claims import (
    GATE,
    ControlledClaimStatusStrategy,
    ControlledClaimStrategy,
    ControlledTemplateStrategy,
    controlled_claim_cells,
)
from cathedra.classic.controlplane.kinds.types import (
    ControlledClaim,
    ControlledClass,
    ControlledTemplate,
    suitable_nodes,
)
from cathedra.classic.kinds.definitions import context_definition
from cathedra.kinds.definition import AnyDefinition, RequestContext, VersionDefinition
from cathedra.kinds.nodeselectors import validate_node_selector
from cathedra.kinds.resource.claims.strategy import claim_definition, template_definition
from cathedra.kinds.resource.classes import ClassStrategy, class_definition
from cathedra.kinds.resource.slices.conversion import alpha_slice_from_hub, alpha_slice_to_hub
from cathedra.kinds.resource.slices.strategy import slice_definition
from cathedra.releases import FeatureGates


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
        with_fields(
            class_definition(gates),
            type=class_type,
            versions=_version(v1alpha3.DeviceClass, to_class, from_class),
            strategy=ControlledClassStrategy(),
        ),
        with_fields(
            claim_definition(gates),
            type=claim_type,
            versions=_version(v1alpha3.ResourceClaim, to_claim, from_claim),
            strategy=ControlledClaimStrategy(),
            subresources={"status": ControlledClaimStatusStrategy()},
            cells=controlled_claim_cells,
        ),
        with_fields(
            template_definition(gates),
            type=template_type,
            versions=_version(v1alpha3.ResourceClaimTemplate, to_template, from_template),
            strategy=ControlledTemplateStrategy(),
        ),
        with_fields(
            slice_definition(gates),
            versions=_version(v1alpha3.ResourceSlice, alpha_slice_to_hub, alpha_slice_from_hub),
        ),
        context_definition(contexts),
    )


def _version(
    kind: type[KubeObject], to_hub: Callable[[Any], Any], from_hub: Callable[[Any], Any]
) -> tuple[VersionDefinition, ...]:
    return (VersionDefinition("v1alpha3", kind, to_hub, from_hub, served_by_default=False),)


class ControlledClassStrategy(ClassStrategy):
    """A device class; controllers may be kept to some nodes."""

    def prepare_create(self, obj: resource.DeviceClass, context: RequestContext) -> resource.DeviceClass:
        """Drop what closed gates forbid, start counting."""
        return super().prepare_create(obj if context.gates[GATE] else _without_nodes(obj), context)

    def validate_create(self, obj: resource.DeviceClass, context: RequestContext) -> ErrorList:
        """All rules of a class."""
        errors = super().validate_create(obj, context)
        _validate_nodes(errors, obj)
        return errors

    def prepare_update(
        self, new: resource.DeviceClass, old: resource.DeviceClass, context: RequestContext
    ) -> resource.DeviceClass:
        """Drop what closed gates forbid and the stored class does not use, count the change."""
        keeps = context.gates[GATE] or suitable_nodes(old) is not None
        return super().prepare_update(new if keeps else _without_nodes(new), old, context)

    def validate_update(
        self, new: resource.DeviceClass, old: resource.DeviceClass, context: RequestContext
    ) -> ErrorList:
        """All rules of a class; unchanged lists count as stored."""
        errors = super().validate_update(new, old, context)
        _validate_nodes(errors, new)
        return errors


def _validate_nodes(errors: ErrorList, device_class: resource.DeviceClass) -> None:
    nodes = suitable_nodes(device_class)
    if nodes is not None:
        # Kubernetes leaves ``spec`` out of this path.
        validate_node_selector(errors, FieldPath("suitableNodes"), nodes)


def _without_nodes(device_class: resource.DeviceClass) -> resource.DeviceClass:
    if suitable_nodes(device_class) is None:
        return device_class
    return replace(device_class, spec=replace(device_class.spec, suitable_nodes=None))
