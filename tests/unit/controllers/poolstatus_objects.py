"""Pools, claims and requests for their status."""

from __future__ import annotations

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    Device,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)


def slice_(name: str, *devices: Device, generation: int = 1, count: int = 1, node: str = "n1") -> ResourceSlice:
    pool = ResourcePool(name="pool", generation=generation, resource_slice_count=count)
    spec = ResourceSliceSpec(driver="d.example.com", pool=pool, node_name=node, devices=devices)
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)
