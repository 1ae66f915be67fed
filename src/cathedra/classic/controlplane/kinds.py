"""The kinds of resource.k8s.io in 1.31: structs, conversion from and to v1alpha3, rules. None is served by default.

Device classes are those of today, with the nodes that suit a class's controller (docs/spec/api.md §7.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace as with_fields

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.core import resource_v1beta1 as v1beta1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import always, replace, reshape
from cathedra.classic.kinds.definitions import context_definition
from cathedra.classic.kinds.validation import validate_deallocation
from cathedra.kinds.columns import age
from cathedra.kinds.definition import AnyDefinition, RequestContext, VersionDefinition
from cathedra.kinds.nodeselectors import validate_node_selector
from cathedra.kinds.resource.claims import conversion as claims
from cathedra.kinds.resource.claims.strategy import (
    ClaimStatusStrategy,
    ClaimStrategy,
    TemplateStrategy,
    claim_definition,
    claim_state,
    template_definition,
)
from cathedra.kinds.resource.classes import ClassStrategy, class_definition
from cathedra.kinds.resource.names import validate_driver_name
from cathedra.kinds.resource.slices.conversion import alpha_slice_from_hub, alpha_slice_to_hub
from cathedra.kinds.resource.slices.strategy import slice_definition
from cathedra.releases import FeatureGates


def control_plane_definitions(gates: FeatureGates) -> tuple[AnyDefinition, ...]:
    """Return the kinds of the group; PodSchedulingContext is among them whether or not anything negotiates."""
    to_claim, from_claim = claim_to_hub, claim_from_hub
    to_template, from_template = template_to_hub, template_from_hub
    to_class, from_class = class_to_hub, class_from_hub
    contexts = _version(v1alpha3.PodSchedulingContext, context_to_hub, context_from_hub)
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
        """Check all rules of a class."""
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
        """Check all rules of a class; unchanged lists count as stored."""
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


# Between v1alpha3 of 1.31 and what is inside the system (docs/spec/api.md §5.3).
#
# The shape is that of v1alpha3 in 1.32 but for the fields of controllers, and for ``adminAccess``, which was a plain
# bool: saying no was saying nothing.


def claim_to_hub(claim: v1alpha3.ResourceClaim) -> ControlledClaim:
    """Convert a claim to its stored form."""
    return ControlledClaim(
        metadata=claim.metadata,
        spec=_spec_to_hub(claim.spec),
        status=reshape(claim.status, ControlledClaimStatus),
    )


def claim_from_hub(claim: ControlledClaim) -> v1alpha3.ResourceClaim:
    """Convert a claim from its stored form."""
    return v1alpha3.ResourceClaim(
        metadata=claim.metadata,
        spec=_spec_from_hub(claim.spec),
        status=reshape(claim.status, v1alpha3.ResourceClaimStatus),
    )


def template_to_hub(template: v1alpha3.ResourceClaimTemplate) -> ControlledTemplate:
    """Convert a template to its stored form."""
    spec = ControlledTemplateSpec(metadata=template.spec.metadata, spec=_spec_to_hub(template.spec.spec))
    return ControlledTemplate(metadata=template.metadata, spec=spec)


def template_from_hub(template: ControlledTemplate) -> v1alpha3.ResourceClaimTemplate:
    """Convert a template from its stored form."""
    spec = v1alpha3.ResourceClaimTemplateSpec(metadata=template.spec.metadata, spec=_spec_from_hub(template.spec.spec))
    return v1alpha3.ResourceClaimTemplate(metadata=template.metadata, spec=spec)


def _spec_to_hub(spec: v1alpha3.ResourceClaimSpec) -> ControlledClaimSpec:
    requests = spec.devices.requests
    if requests is not None:
        requests = tuple(replace(r, admin_access=None) if r.admin_access is False else r for r in requests)
    devices = reshape(replace(spec.devices, requests=requests), v1beta1.DeviceClaim)
    hub = claims.claim_to_hub(v1beta1.ResourceClaim(spec=v1beta1.ResourceClaimSpec(devices=devices)))
    return ControlledClaimSpec(devices=hub.spec.devices, controller=spec.controller)


def _spec_from_hub(spec: ControlledClaimSpec) -> v1alpha3.ResourceClaimSpec:
    flat = claims.claim_from_hub(ControlledClaim(spec=spec)).spec
    return v1alpha3.ResourceClaimSpec(devices=reshape(flat.devices, v1alpha3.DeviceClaim), controller=spec.controller)


def class_to_hub(device_class: v1alpha3.DeviceClass) -> ControlledClass:
    """Convert a class to its stored form."""
    return ControlledClass(metadata=device_class.metadata, spec=reshape(device_class.spec, ControlledClassSpec))


def class_from_hub(device_class: ControlledClass) -> v1alpha3.DeviceClass:
    """Convert a class from its stored form."""
    return v1alpha3.DeviceClass(
        metadata=device_class.metadata, spec=reshape(device_class.spec, v1alpha3.DeviceClassSpec)
    )


def context_to_hub(context: v1alpha3.PodSchedulingContext) -> v1alpha2.PodSchedulingContext:
    """Return the same object: v1alpha2 and v1alpha3 do not differ here."""
    return reshape(context, v1alpha2.PodSchedulingContext)


def context_from_hub(context: v1alpha2.PodSchedulingContext) -> v1alpha3.PodSchedulingContext:
    """Convert a scheduling context from its stored form."""
    return reshape(context, v1alpha3.PodSchedulingContext)


# Strategies of claims and templates of 1.31: today's, with the fields for controllers (docs/spec/api.md §7.4).
#
# With the gate closed these fields are dropped, unless what is stored uses them already.

GATE: Final = "DRAControlPlaneController"
_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")


class ControlledClaimStrategy(ClaimStrategy):
    """The claim itself, which may name the controller that allocates it."""

    def prepare_create(self, obj: resource.ResourceClaim, context: RequestContext) -> resource.ResourceClaim:
        """Empty the status, drop what closed gates forbid."""
        prepared = replace(super().prepare_create(obj, context), status=ControlledClaimStatus())
        return prepared if context.gates[GATE] else _without_controller(prepared)

    def validate_create(self, obj: resource.ResourceClaim, context: RequestContext) -> ErrorList:
        """Check all rules of a new claim."""
        errors = ErrorList(super().validate_create(obj, context))
        _validate_controller(errors, _SPEC, controller_of(obj))
        return errors

    def prepare_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Keep the status, drop what closed gates forbid and the stored claim does not use."""
        prepared = super().prepare_update(new, old, context)
        return prepared if context.gates[GATE] or controller_of(old) else _without_controller(prepared)

    def validate_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """Require an unchanged spec, and validate it nevertheless."""
        errors = ErrorList(super().validate_update(new, old, context))
        _validate_controller(errors, _SPEC, controller_of(new))
        return errors


class ControlledClaimStatusStrategy(ClaimStatusStrategy):
    """The claim's status: the allocation by scheduler or controller, its consumers, and the request to deallocate
    it."""

    def prepare_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Keep spec and metadata; drop fields of disabled gates and of other releases."""
        prepared = super().prepare_update(new, old, context)
        status: Any = _without_admin_access(prepared.status)
        if not context.gates[GATE]:
            if not controller_of(old) and old.status.allocation is None and allocated_by(status.allocation):
                status = replace(status, allocation=replace(status.allocation, controller=""))
            if not deallocation_requested(old) and not allocated_by(status.allocation):
                status = replace(status, deallocation_requested=False)
        return replace(prepared, status=status)

    def validate_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """Apply all rules of a status. The allocation is validated with every change."""
        errors = ErrorList(super().validate_update(new, old, context))
        _validate_controller(errors, _STATUS.child("allocation"), allocated_by(new.status.allocation))
        if isinstance(new, ControlledClaim) and isinstance(old, ControlledClaim):
            leaving = new.metadata.deletion_timestamp is not None
            validate_deallocation(errors, new.status, old.status, refuses_consumers=not leaving)
        return errors


class ControlledTemplateStrategy(TemplateStrategy):
    """A template; the controller that it names is never dropped."""

    def validate_create(self, obj: resource.ResourceClaimTemplate, context: RequestContext) -> ErrorList:
        """Check all rules of a new template."""
        errors = super().validate_create(obj, context)
        _validate_controller(errors, _SPEC.child("spec"), getattr(obj.spec.spec, "controller", ""))
        return errors

    def validate_update(
        self, new: resource.ResourceClaimTemplate, old: resource.ResourceClaimTemplate, context: RequestContext
    ) -> ErrorList:
        """Require an unchanged spec, and validate it nevertheless."""
        errors = super().validate_update(new, old, context)
        _validate_controller(errors, _SPEC.child("spec"), getattr(new.spec.spec, "controller", ""))
        return errors


def _validate_controller(errors: ErrorList, path: FieldPath, name: str) -> None:
    if name:
        validate_driver_name(errors, path.child("controller"), name)


def _without_controller(claim: resource.ResourceClaim) -> resource.ResourceClaim:
    return replace(claim, spec=replace(claim.spec, controller="")) if controller_of(claim) else claim


def _without_admin_access(status: resource.ResourceClaimStatus) -> resource.ResourceClaimStatus:
    """Remove the admin access of results, a field that 1.31 does not have."""
    allocation = status.allocation
    if allocation is None or all(result.admin_access is None for result in allocation.devices.results):
        return status
    results = tuple(replace(result, admin_access=None) for result in allocation.devices.results)
    return replace(status, allocation=replace(allocation, devices=replace(allocation.devices, results=results)))


def controlled_claim_state(claim: resource.ResourceClaim) -> str:
    """Return the claim's state in words; one that its controller is to take back is «deallocating»."""
    state = claim_state(claim)
    leaving = claim.metadata.deletion_timestamp is not None or deallocation_requested(claim)
    if claim.status.allocation is None or claim.status.reserved_for or not leaving:
        return state
    return f"{state},deallocating"


def controlled_claim_cells(claim: resource.ResourceClaim, now: float) -> list[Any]:
    """Return the cells of a ResourceClaim."""
    return [claim.metadata.name, controlled_claim_state(claim), age(claim.metadata.creation_timestamp, now)]


# Claims, templates and classes of 1.31 inside the system: those of v1, with the fields that v1 has no longer.
#
# Parts that know nothing of controllers see the base classes. Strategies, allocator, scheduler and node agent of today
# work on these objects unchanged, and a copy that they make keeps what they do not know.


class ControlledClaimSpec(resource.ResourceClaimSpec, frozen=True):
    """Requests for devices, and the controller that allocates them."""

    controller: str = ""
    """The driver whose controller allocates; "" leaves it to the scheduler."""


class ControlledAllocation(
    resource.AllocationResult,
    frozen=True,
    rename={"node_selector": "nodeSelector", "allocation_timestamp": "allocationTimestamp"},
):
    """Devices of a claim, and the controller that allocated them."""

    controller: str = ""
    """Name of the controller that must deallocate it, or "" if the scheduler allocated."""


class ControlledClaimStatus(
    resource.ResourceClaimStatus,
    frozen=True,
    rename={"reserved_for": "reservedFor", "deallocation_requested": "deallocationRequested"},
):
    """Allocation and consumers of a claim, and the request that its controller deallocates it."""

    allocation: ControlledAllocation | None = None
    deallocation_requested: bool = False


class ControlledClaim(resource.ResourceClaim, frozen=True, rename={"api_version": "apiVersion"}):
    """A claim of 1.31."""

    spec: ControlledClaimSpec = always(ControlledClaimSpec)
    status: ControlledClaimStatus = always(ControlledClaimStatus)


class ControlledTemplateSpec(resource.ResourceClaimTemplateSpec, frozen=True):
    """Metadata and spec of the claims that the template creates."""

    spec: ControlledClaimSpec = always(ControlledClaimSpec)


class ControlledTemplate(resource.ResourceClaimTemplate, frozen=True, rename={"api_version": "apiVersion"}):
    """A template of 1.31."""

    spec: ControlledTemplateSpec = always(ControlledTemplateSpec)


class ControlledClassSpec(
    resource.DeviceClassSpec, frozen=True, rename={"extended_resource_name": "extendedResourceName"}
):
    """Selectors of devices, and the nodes where controllers may allocate them."""

    suitable_nodes: core_v1.NodeSelector | None = None
    """For claims that name a controller alone; None: any node."""


class ControlledClass(resource.DeviceClass, frozen=True, rename={"api_version": "apiVersion"}):
    """A class of 1.31."""

    spec: ControlledClassSpec = always(ControlledClassSpec)


def controller_of(claim: resource.ResourceClaim) -> str:
    """Return the driver whose controller allocates the claim; "" if the scheduler does."""
    return claim.spec.controller if isinstance(claim.spec, ControlledClaimSpec) else ""


def allocated_by(allocation: resource.AllocationResult | None) -> str:
    """Return the driver whose controller allocated; "" if that was the scheduler, or nothing is allocated."""
    return allocation.controller if isinstance(allocation, ControlledAllocation) else ""


def deallocation_requested(claim: resource.ResourceClaim) -> bool:
    """Return True if a controller must deallocate the claim."""
    return isinstance(claim.status, ControlledClaimStatus) and claim.status.deallocation_requested


def suitable_nodes(device_class: resource.DeviceClass) -> core_v1.NodeSelector | None:
    """Return the nodes where controllers may allocate devices of the class. None means all."""
    return device_class.spec.suitable_nodes if isinstance(device_class.spec, ControlledClassSpec) else None
