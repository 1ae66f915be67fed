"""A state with devices that differ, for expressions."""

from __future__ import annotations

from typing import Any

from cathedra.insight import ClusterState, read_dump

__all__ = ["ATTRIBUTES", "devices_with"]

ATTRIBUTES = 'device.attributes["gpu.example.com"]'


def devices_with(*attributes: dict[str, Any], driver: str = "gpu.example.com") -> ClusterState:
    """Devices gpu-0, gpu-1 … of node-0, with these attributes."""
    devices = [
        {"name": f"gpu-{number}", "attributes": given, "capacity": {"memory": {"value": f"{40 + number}Gi"}}}
        for number, given in enumerate(attributes)
    ]
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": "node-0", "pool": pool, "devices": devices}
    return read_dump(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "one"}, "spec": spec}
    )
