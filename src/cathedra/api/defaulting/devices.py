"""Defaults of the DRA kinds (spec: api.md, section 4)."""

from __future__ import annotations

from typing import Final, TypeVar

from cathedra.api import resource
from cathedra.api.core import resource_v1alpha3
from cathedra.api.struct import Quantity, Time, replace

__all__ = [
    "UndefaultedMode",
    "default_claim",
    "default_pool_status_request",
    "default_slice",
    "default_taint_rule",
    "default_template",
]


_ONE: Final = Quantity("1")


class UndefaultedMode(str):
    """A mode that conversion from v1beta1 marks as not to be filled in: its request names no class.

    Such a request may be a list of alternatives there, so v1beta1 gives it no defaults; validation refuses it.
    """

    __slots__ = ()


Asked = TypeVar("Asked", resource.ExactDeviceRequest, resource.DeviceSubRequest)


def default_claim(claim: resource.ResourceClaim) -> resource.ResourceClaim:
    """A claim whose requests say how many, and whose tolerations say how they compare."""
    spec = _claim_spec(claim.spec)
    status = claim.status
    if status.allocation is not None:
        devices = status.allocation.devices
        results = tuple(
            replace(result, tolerations=_tolerations(result.tolerations)) if result.tolerations else result
            for result in devices.results
        )
        if results != devices.results:
            allocation = replace(status.allocation, devices=replace(devices, results=results))
            status = replace(status, allocation=allocation)
    return replace(claim, spec=spec, status=status)


def default_template(template: resource.ResourceClaimTemplate) -> resource.ResourceClaimTemplate:
    """The same for the claims that the template makes."""
    return replace(template, spec=replace(template.spec, spec=_claim_spec(template.spec.spec)))


def _claim_spec(spec: resource.ResourceClaimSpec) -> resource.ResourceClaimSpec:
    requests = spec.devices.requests
    if not requests:
        return spec
    defaulted = tuple(_request(request) for request in requests)
    return replace(spec, devices=replace(spec.devices, requests=defaulted))


def _request(request: resource.DeviceRequest) -> resource.DeviceRequest:
    exactly = request.exactly
    alternatives = request.first_available
    if exactly is not None:
        exactly = _asked(exactly)
    if alternatives:
        alternatives = tuple(_asked(alternative) for alternative in alternatives)
    return replace(request, exactly=exactly, first_available=alternatives)


def _asked(asked: Asked) -> Asked:
    if isinstance(asked.allocation_mode, UndefaultedMode):
        return replace(asked, tolerations=_tolerations(asked.tolerations))
    mode = asked.allocation_mode or "ExactCount"
    count = asked.count or (1 if mode == "ExactCount" else 0)
    return replace(asked, allocation_mode=mode, count=count, tolerations=_tolerations(asked.tolerations))


def _tolerations(tolerations: tuple[resource.DeviceToleration, ...]) -> tuple[resource.DeviceToleration, ...]:
    if all(toleration.operator for toleration in tolerations):
        return tolerations
    return tuple(t if t.operator else replace(t, operator="Equal") for t in tolerations)


def default_slice(piece: resource.ResourceSlice, now: float) -> resource.ResourceSlice:
    """A slice whose taints say since when."""
    devices = piece.spec.devices
    if any(device.node_allocatable_resource_mappings for device in devices):
        devices = tuple(_multiplied(device) for device in devices)
        piece = replace(piece, spec=replace(piece.spec, devices=devices))
    if all(taint.time_added is not None for device in devices for taint in device.taints):
        return piece
    dated = tuple(
        replace(device, taints=tuple(_dated(taint, now) for taint in device.taints)) if device.taints else device
        for device in devices
    )
    return replace(piece, spec=replace(piece.spec, devices=dated))


def _multiplied(device: resource.Device) -> resource.Device:
    """The device with the multiplier of release 1.36, which is one."""
    mappings = {
        name: mapping if mapping.allocation_multiplier is not None else replace(mapping, allocation_multiplier=_ONE)
        for name, mapping in device.node_allocatable_resource_mappings.items()
    }
    return replace(device, node_allocatable_resource_mappings=mappings)


def _dated(taint: resource.DeviceTaint, now: float) -> resource.DeviceTaint:
    return taint if taint.time_added is not None else replace(taint, time_added=Time(now))


def default_taint_rule(rule: resource.DeviceTaintRule, now: float) -> resource.DeviceTaintRule:
    """A rule whose taint says since when."""
    taint = _dated(rule.spec.taint, now)
    return rule if taint is rule.spec.taint else replace(rule, spec=replace(rule.spec, taint=taint))


def default_pool_status_request(
    request: resource_v1alpha3.ResourcePoolStatusRequest,
) -> resource_v1alpha3.ResourcePoolStatusRequest:
    """A question that wants at most a hundred pools."""
    if request.spec.limit is not None:
        return request
    return replace(request, spec=replace(request.spec, limit=100))
