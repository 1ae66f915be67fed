"""resource.k8s.io/v1beta1 ↔ v1: requests are flat there, devices are wrapped in ``basic`` (spec: api.md, section
5.2)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api import resource as v1
from cathedra.api.core import resource_v1beta1 as v1beta1
from cathedra.api.defaulting.devices import UndefaultedMode
from cathedra.api.struct import EMPTY_LIST, KubeStruct, replace, reshape

__all__ = [
    "claim_from_hub",
    "claim_to_hub",
    "class_from_hub",
    "class_to_hub",
    "slice_from_hub",
    "slice_to_hub",
    "template_from_hub",
    "template_to_hub",
]

_FLAT: Final = v1.ExactDeviceRequest.__struct_fields__
_BASIC: Final = tuple(name for name in v1.Device.__struct_fields__ if name != "name")


def _all(items: Any, kind: type[KubeStruct]) -> Any:
    """A list reshaped element by element; absent and spelled-out-empty lists stay what they are."""
    if items is None or items is EMPTY_LIST:
        return items
    return tuple(reshape(item, kind) for item in items)


# --- claims and templates


def claim_to_hub(claim: v1beta1.ResourceClaim) -> v1.ResourceClaim:
    """The claim with its requests wrapped in ``exactly``."""
    status = reshape(claim.status, v1.ResourceClaimStatus)
    return v1.ResourceClaim(metadata=claim.metadata, spec=_spec_to_hub(claim.spec), status=status)


def claim_from_hub(claim: v1.ResourceClaim) -> v1beta1.ResourceClaim:
    """The claim with flat requests."""
    status = reshape(claim.status, v1beta1.ResourceClaimStatus)
    return v1beta1.ResourceClaim(metadata=claim.metadata, spec=_spec_from_hub(claim.spec), status=status)


def template_to_hub(template: v1beta1.ResourceClaimTemplate) -> v1.ResourceClaimTemplate:
    """The template with its claim's requests wrapped."""
    spec = v1.ResourceClaimTemplateSpec(metadata=template.spec.metadata, spec=_spec_to_hub(template.spec.spec))
    return v1.ResourceClaimTemplate(metadata=template.metadata, spec=spec)


def template_from_hub(template: v1.ResourceClaimTemplate) -> v1beta1.ResourceClaimTemplate:
    """The template with its claim's requests flat."""
    spec = v1beta1.ResourceClaimTemplateSpec(metadata=template.spec.metadata, spec=_spec_from_hub(template.spec.spec))
    return v1beta1.ResourceClaimTemplate(metadata=template.metadata, spec=spec)


def _spec_to_hub(spec: v1beta1.ResourceClaimSpec) -> v1.ResourceClaimSpec:
    devices = spec.devices
    requests = devices.requests
    return v1.ResourceClaimSpec(
        devices=v1.DeviceClaim(
            requests=None if requests is None else tuple(_request_to_hub(request) for request in requests),
            constraints=_all(devices.constraints, v1.DeviceConstraint),
            config=_all(devices.config, v1.DeviceClaimConfiguration),
        )
    )


def _spec_from_hub(spec: v1.ResourceClaimSpec) -> v1beta1.ResourceClaimSpec:
    devices = spec.devices
    requests = devices.requests
    return v1beta1.ResourceClaimSpec(
        devices=v1beta1.DeviceClaim(
            requests=None if requests is None else tuple(_request_from_hub(request) for request in requests),
            constraints=_all(devices.constraints, v1beta1.DeviceConstraint),
            config=_all(devices.config, v1beta1.DeviceClaimConfiguration),
        )
    )


def _request_to_hub(request: v1beta1.DeviceRequest) -> v1.DeviceRequest:
    exactly = None
    if any(_is_given(getattr(request, name)) for name in _FLAT):
        exactly = _marked(reshape(request, v1.ExactDeviceRequest))
    return v1.DeviceRequest(
        name=request.name, exactly=exactly, first_available=_all(request.first_available, v1.DeviceSubRequest)
    )


def _marked(exactly: v1.ExactDeviceRequest) -> v1.ExactDeviceRequest:
    """The request, kept from being filled in if it names no class."""
    if exactly.device_class_name:
        return exactly
    return replace(exactly, allocation_mode=UndefaultedMode(exactly.allocation_mode))


def _is_given(value: Any) -> bool:
    return value is EMPTY_LIST or value not in ("", 0, (), None) or value is False


def _request_from_hub(request: v1.DeviceRequest) -> v1beta1.DeviceRequest:
    alternatives = _all(request.first_available, v1beta1.DeviceSubRequest)
    if request.exactly is None:
        return v1beta1.DeviceRequest(name=request.name, first_available=alternatives)
    flat = reshape(request.exactly, v1beta1.DeviceRequest)
    return replace(flat, name=request.name, first_available=alternatives)


# --- classes


def class_to_hub(device_class: v1beta1.DeviceClass) -> v1.DeviceClass:
    """The same class."""
    return v1.DeviceClass(metadata=device_class.metadata, spec=reshape(device_class.spec, v1.DeviceClassSpec))


def class_from_hub(device_class: v1.DeviceClass) -> v1beta1.DeviceClass:
    """The same class."""
    return v1beta1.DeviceClass(metadata=device_class.metadata, spec=reshape(device_class.spec, v1beta1.DeviceClassSpec))


# --- slices


def slice_to_hub(piece: v1beta1.ResourceSlice) -> v1.ResourceSlice:
    """The slice with its devices' properties hoisted."""
    spec = piece.spec
    devices = spec.devices
    hub = v1.ResourceSliceSpec(
        driver=spec.driver,
        pool=reshape(spec.pool, v1.ResourcePool),
        node_name=spec.node_name or None,
        node_selector=spec.node_selector,
        all_nodes=spec.all_nodes or None,
        devices=devices if devices is EMPTY_LIST else tuple(_device_to_hub(device) for device in devices),
        per_device_node_selection=spec.per_device_node_selection,
        shared_counters=_all(spec.shared_counters, v1.CounterSet),
        partition_type_attribute=spec.partition_type_attribute,
        skip_node_operations=spec.skip_node_operations,
    )
    return v1.ResourceSlice(metadata=piece.metadata, spec=hub)


def slice_from_hub(piece: v1.ResourceSlice) -> v1beta1.ResourceSlice:
    """The slice with its devices' properties in ``basic``, which is always there."""
    spec = piece.spec
    old = v1beta1.ResourceSliceSpec(
        driver=spec.driver,
        pool=reshape(spec.pool, v1beta1.ResourcePool),
        node_name=spec.node_name or "",
        node_selector=spec.node_selector,
        all_nodes=bool(spec.all_nodes),
        devices=tuple(
            v1beta1.Device(name=device.name, basic=reshape(device, v1beta1.BasicDevice)) for device in spec.devices
        ),
        per_device_node_selection=spec.per_device_node_selection,
        shared_counters=_all(spec.shared_counters, v1beta1.CounterSet),
        partition_type_attribute=spec.partition_type_attribute,
        skip_node_operations=spec.skip_node_operations,
    )
    return v1beta1.ResourceSlice(metadata=piece.metadata, spec=old)


def _device_to_hub(device: v1beta1.Device) -> v1.Device:
    if device.basic is None:
        return v1.Device(name=device.name)
    return replace(reshape(device.basic, v1.Device), name=device.name)
