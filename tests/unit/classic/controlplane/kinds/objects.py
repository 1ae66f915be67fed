"""Builders for the tests of 1.31's kinds."""

from __future__ import annotations

from typing import Any

from cathedra.api.core import resource_v1alpha3 as v1alpha3
from cathedra.api.struct import from_dict
from cathedra.classic.controlplane import kinds
from cathedra.classic.controlplane.kinds import ControlledClaim, ControlledClass
from cathedra.kinds.definition import RequestContext
from cathedra.releases import FeatureGates

__all__ = ["RESULT", "claim", "context", "device_class"]

RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "e"}


def context(*, controllers: bool = True) -> RequestContext:
    """A request at a fixed time, with or without controllers in the control plane."""
    opened = {"DynamicResourceAllocation": True, "DRAControlPlaneController": controllers}
    return RequestContext(gates=FeatureGates.for_release("1.31", opened), now=1_700_000_000.0)


def claim(
    status: dict[str, Any] | None = None, *, controller: str = "", deleted: bool = False, **devices: Any
) -> ControlledClaim:
    """A claim named ``c`` for one device."""
    metadata: dict[str, Any] = {"name": "c", "namespace": "default"}
    if deleted:
        metadata["deletionTimestamp"] = "2024-08-13T00:00:00Z"
    request = {"name": "r", "deviceClassName": "k", "allocationMode": "ExactCount", "count": 1}
    spec = {"controller": controller, "devices": {"requests": [request], **devices}}
    whole = {"metadata": metadata, "spec": spec, "status": status or {}}
    return kinds.claim_to_hub(from_dict(v1alpha3.ResourceClaim, whole))


def device_class(**spec: Any) -> ControlledClass:
    """A class named ``k``."""
    return kinds.class_to_hub(from_dict(v1alpha3.DeviceClass, {"metadata": {"name": "k"}, "spec": spec}))
