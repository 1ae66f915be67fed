"""Defaults of claims and templates (docs/spec/api.md §4)."""

from __future__ import annotations

from operator import attrgetter
from typing import Final, TypeVar

from cathedra.api import resource
from cathedra.api.struct import replace
from cathedra.kinds.defaults import changed, each
from cathedra.remembering import IDENTITY, TEMPLATES, remembered


class UndefaultedMode(str):
    """A mode that conversion from v1beta1 marks as not to be filled in: its request names no class.

    Such a request may be a list of alternatives there, so v1beta1 gives it no defaults; validation refuses it.
    """

    __slots__ = ()


AnyRequest = TypeVar("AnyRequest", resource.ExactDeviceRequest, resource.DeviceSubRequest)


_tolerations_of: Final = attrgetter("tolerations")


def default_claim(claim: resource.ResourceClaim) -> resource.ResourceClaim:
    """Return a claim whose requests have a count, and whose tolerations have an operator."""
    spec = _claim_spec(claim.spec)
    status = claim.status
    if status.allocation is None or not any(map(_tolerations_of, status.allocation.devices.results)):
        return claim if spec is claim.spec else replace(claim, spec=spec)
    devices = status.allocation.devices
    results = tuple(
        replace(result, tolerations=_tolerations(result.tolerations)) if result.tolerations else result
        for result in devices.results
    )
    if results != devices.results:
        allocation = replace(status.allocation, devices=replace(devices, results=results))
        status = replace(status, allocation=allocation)
    return changed(claim, spec=spec, status=status)


def default_template(template: resource.ResourceClaimTemplate) -> resource.ResourceClaimTemplate:
    """Return the same for the claims that the template makes."""
    return changed(template, spec=changed(template.spec, spec=_claim_spec(template.spec.spec)))


@remembered("defaulted specs of claims", key=IDENTITY, size=TEMPLATES)
def _claim_spec(spec: resource.ResourceClaimSpec) -> resource.ResourceClaimSpec:
    requests = spec.devices.requests
    if not requests:
        return spec
    return changed(spec, devices=changed(spec.devices, requests=each(requests, _request)))


def _request(request: resource.DeviceRequest) -> resource.DeviceRequest:
    exactly = request.exactly
    alternatives = request.first_available
    if exactly is not None:
        exactly = _any_request(exactly)
    if alternatives:
        alternatives = each(alternatives, _any_request)
    return changed(request, exactly=exactly, first_available=alternatives)


def _any_request(request: AnyRequest) -> AnyRequest:
    tolerations = _tolerations(request.tolerations)
    if isinstance(request.allocation_mode, UndefaultedMode):
        return changed(request, tolerations=tolerations)
    mode = request.allocation_mode or "ExactCount"
    count = request.count or (1 if mode == "ExactCount" else 0)
    return changed(request, allocation_mode=mode, count=count, tolerations=tolerations)


def _tolerations(tolerations: tuple[resource.DeviceToleration, ...]) -> tuple[resource.DeviceToleration, ...]:
    if all(toleration.operator for toleration in tolerations):
        return tolerations
    return tuple(t if t.operator else replace(t, operator="Equal") for t in tolerations)
