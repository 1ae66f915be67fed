"""Pods with claims."""

from __future__ import annotations

__all__ = ["pod_with"]


def pod_with(count: int, device_class: str = "gpu.nvidia.com", *, name: str = "train", more: str = "") -> str:
    """A template of a claim, and a pod that uses it."""
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}}}
spec:
  spec:
    devices:
      requests:
      - name: devices
        exactly: {{deviceClassName: {device_class}, allocationMode: ExactCount, count: {count}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
  - name: main
    image: main
    resources: {{claims: [{{name: devices}}]}}
  resourceClaims:
  - {{name: devices, resourceClaimTemplateName: {name}}}
{more}
"""
