"""Builders for the tests of the classic kinds."""

from __future__ import annotations

from typing import Any

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.field import ErrorList
from cathedra.api.struct import from_dict
from cathedra.kinds.definition import RequestContext
from cathedra.releases import FeatureGates

__all__ = ["allocation", "claim", "context", "said"]


def context(release: str = "1.27") -> RequestContext:
    """A request at a fixed time."""
    return RequestContext(gates=FeatureGates.for_release(release), now=1_700_000_000.0)


def allocation(**more: Any) -> dict[str, Any]:
    """Return the allocation of a driver."""
    return {"resourceHandles": [{"driverName": "d.example.com", "data": "x"}], **more}


def claim(status: dict[str, Any] | None = None, *, deleted: bool = False, **spec: Any) -> v1alpha2.ResourceClaim:
    """A claim named ``c``."""
    metadata: dict[str, Any] = {"name": "c", "namespace": "default"}
    if deleted:
        metadata["deletionTimestamp"] = "2022-12-15T00:00:00Z"
    wanted = {"resourceClassName": "k", "allocationMode": "WaitForFirstConsumer", **spec}
    return from_dict(v1alpha2.ResourceClaim, {"metadata": metadata, "spec": wanted, "status": status or {}})


def said(errors: ErrorList) -> list[str]:
    """The errors as users read them."""
    return [str(error) for error in errors]
