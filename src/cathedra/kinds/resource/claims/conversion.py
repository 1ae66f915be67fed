"""Claims and templates in resource.k8s.io/v1beta1, where requests are flat (docs/spec/api.md §5.2)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api import resource as v1
from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.core import resource_v1beta1 as v1beta1
from cathedra.api.struct import EMPTY_LIST, replace, reshape
from cathedra.kinds.resource.claims.defaults import UndefaultedMode
from cathedra.kinds.resource.versions import Shapes, alpha_version, beta_version, reshape_all

_FLAT: Final = v1.ExactDeviceRequest.__struct_fields__


def claim_to_hub(claim: v1beta1.ResourceClaim) -> v1.ResourceClaim:
    """Return the claim with its requests wrapped in ``exactly``."""
    status = reshape(claim.status, v1.ResourceClaimStatus)
    return v1.ResourceClaim(metadata=claim.metadata, spec=_spec_to_hub(claim.spec), status=status)


def claim_from_hub(claim: v1.ResourceClaim) -> v1beta1.ResourceClaim:
    """Return the claim with flat requests."""
    status = reshape(claim.status, v1beta1.ResourceClaimStatus)
    return v1beta1.ResourceClaim(metadata=claim.metadata, spec=_spec_from_hub(claim.spec), status=status)


def template_to_hub(template: v1beta1.ResourceClaimTemplate) -> v1.ResourceClaimTemplate:
    """Return the template with its claim's requests wrapped."""
    spec = v1.ResourceClaimTemplateSpec(metadata=template.spec.metadata, spec=_spec_to_hub(template.spec.spec))
    return v1.ResourceClaimTemplate(metadata=template.metadata, spec=spec)


def template_from_hub(template: v1.ResourceClaimTemplate) -> v1beta1.ResourceClaimTemplate:
    """Return the template with its claim's requests flat."""
    spec = v1beta1.ResourceClaimTemplateSpec(metadata=template.spec.metadata, spec=_spec_from_hub(template.spec.spec))
    return v1beta1.ResourceClaimTemplate(metadata=template.metadata, spec=spec)


def _spec_to_hub(spec: v1beta1.ResourceClaimSpec) -> v1.ResourceClaimSpec:
    devices = spec.devices
    requests = devices.requests
    return v1.ResourceClaimSpec(
        devices=v1.DeviceClaim(
            requests=None if requests is None else tuple(_request_to_hub(request) for request in requests),
            constraints=reshape_all(devices.constraints, v1.DeviceConstraint),
            config=reshape_all(devices.config, v1.DeviceClaimConfiguration),
        )
    )


def _spec_from_hub(spec: v1.ResourceClaimSpec) -> v1beta1.ResourceClaimSpec:
    devices = spec.devices
    requests = devices.requests
    return v1beta1.ResourceClaimSpec(
        devices=v1beta1.DeviceClaim(
            requests=None if requests is None else tuple(_request_from_hub(request) for request in requests),
            constraints=reshape_all(devices.constraints, v1beta1.DeviceConstraint),
            config=reshape_all(devices.config, v1beta1.DeviceClaimConfiguration),
        )
    )


def _request_to_hub(request: v1beta1.DeviceRequest) -> v1.DeviceRequest:
    exactly = None
    if any(_is_given(getattr(request, name)) for name in _FLAT):
        exactly = _marked(reshape(request, v1.ExactDeviceRequest))
    return v1.DeviceRequest(
        name=request.name, exactly=exactly, first_available=reshape_all(request.first_available, v1.DeviceSubRequest)
    )


def _marked(exactly: v1.ExactDeviceRequest) -> v1.ExactDeviceRequest:
    """Return the request, marked to be given no defaults if it names no class."""
    if exactly.device_class_name:
        return exactly
    return replace(exactly, allocation_mode=UndefaultedMode(exactly.allocation_mode))


def _is_given(value: Any) -> bool:
    return value is EMPTY_LIST or value not in ("", 0, (), None) or value is False


def _request_from_hub(request: v1.DeviceRequest) -> v1beta1.DeviceRequest:
    alternatives = reshape_all(request.first_available, v1beta1.DeviceSubRequest)
    if request.exactly is None:
        return v1beta1.DeviceRequest(name=request.name, first_available=alternatives)
    flat = reshape(request.exactly, v1beta1.DeviceRequest)
    return replace(flat, name=request.name, first_available=alternatives)


CLAIM_SHAPES: Final = Shapes(
    v1.ResourceClaim,
    beta_version(v1beta1.ResourceClaim, claim_to_hub, claim_from_hub),
    alpha_version(v1alpha3.ResourceClaim, v1beta1.ResourceClaim, claim_to_hub, claim_from_hub),
)
"""The claim in each version."""
TEMPLATE_SHAPES: Final = Shapes(
    v1.ResourceClaimTemplate,
    beta_version(v1beta1.ResourceClaimTemplate, template_to_hub, template_from_hub),
    alpha_version(v1alpha3.ResourceClaimTemplate, v1beta1.ResourceClaimTemplate, template_to_hub, template_from_hub),
)
"""The template in each version."""
