"""Small dumps for the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["gpu_cluster", "pod_with", "write_dump"]


def gpu_cluster(nodes: int = 2, gpus: int = 2, taken: int = 0) -> list[dict[str, Any]]:
    """Nodes with GPUs, of which the first ones are held by claims of namespace ``other``."""
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
        }
    ]
    for number in range(nodes):
        name = f"node-{number}"
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name},
                "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
            }
        )
        objects.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"{name}-gpus"},
                "spec": {
                    "driver": "gpu.example.com",
                    "nodeName": name,
                    "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                    "devices": [
                        {
                            "name": f"gpu-{place}",
                            "attributes": {"model": {"string": "a100"}},
                            "capacity": {"memory": {"value": "40Gi"}},
                        }
                        for place in range(gpus)
                    ],
                },
            }
        )
    for number in range(taken):
        node, place = f"node-{number % nodes}", number // nodes
        objects.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {
                    "name": f"held-{number}",
                    "namespace": "other",
                    "uid": f"held-{number}",
                    "finalizers": ["resource.kubernetes.io/delete-protection"],
                },
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
                "status": {
                    "reservedFor": [{"resource": "pods", "name": f"user-{number}", "uid": f"user-{number}"}],
                    "allocation": {
                        "devices": {
                            "results": [
                                {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": f"gpu-{place}"}
                            ]
                        }
                    },
                },
            }
        )
    return objects


def pod_with(count: int, **more: Any) -> list[dict[str, Any]]:
    """Return a pod ``train`` with a template that requests a number of GPUs."""
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu", "count": count, **more}}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpus", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "train", "namespace": "default", "uid": "train"},
            "spec": {
                "containers": [{"name": "main", "image": "train", "resources": {"requests": {"cpu": "1"}}}],
                "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
            },
            "status": {"phase": "Pending"},
        },
    ]


def write_dump(path: Path, objects: list[dict[str, Any]]) -> str:
    """Write a List; the path as an argument."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)
