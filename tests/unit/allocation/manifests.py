"""Manifests as users have them: a cluster of two nodes of which one has two devices, a claim and a template."""

from __future__ import annotations

from typing import Any

CLUSTER = """
kind: List
items:
- {kind: Node, metadata: {name: n1}}
- {kind: Node, metadata: {name: n2}}
- {kind: DeviceClass, apiVersion: resource.k8s.io/v1, metadata: {name: gpu}, spec: {}}
- kind: ResourceSlice
  apiVersion: resource.k8s.io/v1beta1
  metadata: {name: s1}
  spec:
    driver: gpu.example.com
    nodeName: n1
    pool: {name: n1, generation: 1, resourceSliceCount: 1}
    devices:
    - {name: gpu-0, basic: {attributes: {model: {string: a100}}}}
    - {name: gpu-1, basic: {attributes: {model: {string: a100}}}}
"""
SELECTOR = {"cel": {"expression": 'device.attributes["gpu.example.com"].model == "a100"'}}
EXACTLY = {"deviceClassName": "gpu", "selectors": [SELECTOR]}
SPEC: dict[str, Any] = {"devices": {"requests": [{"name": "r", "exactly": EXACTLY}]}}
CLAIM: dict[str, Any] = {
    "kind": "ResourceClaim",
    "apiVersion": "resource.k8s.io/v1",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": SPEC,
}
TEMPLATE: dict[str, Any] = {
    "kind": "ResourceClaimTemplate",
    "apiVersion": "resource.k8s.io/v1",
    "metadata": {"name": "t", "namespace": "default"},
    "spec": {"spec": SPEC},
}
