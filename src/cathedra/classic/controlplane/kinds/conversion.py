"""Between v1alpha3 of 1.31 and what is inside the system (docs/spec/api.md §5.3).

The shape is that of v1alpha3 in 1.32 but for the fields of controllers, and for ``adminAccess``, which was a plain
bool: saying no was saying nothing.
"""

from __future__ import annotations

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.core import resource_v1beta1 as v1beta1
from cathedra.api.struct import replace, reshape
from cathedra.classic.controlplane.kinds.types import (
    ControlledClaim,
    ControlledClaimSpec,
    ControlledClaimStatus,
    ControlledClass,
    ControlledClassSpec,
    ControlledTemplate,
    ControlledTemplateSpec,
)
from cathedra.kinds.resource.claims import conversion as claims


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
    """The same object: v1alpha2 and v1alpha3 do not differ here."""
    return reshape(context, v1alpha2.PodSchedulingContext)


def context_from_hub(context: v1alpha2.PodSchedulingContext) -> v1alpha3.PodSchedulingContext:
    """Convert a scheduling context from its stored form."""
    return reshape(context, v1alpha3.PodSchedulingContext)
