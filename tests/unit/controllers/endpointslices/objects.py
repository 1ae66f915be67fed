"""Services, and pods behind them."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Pod, Service
from cathedra.api.struct import from_dict

HTTP = {"name": "http", "port": 80, "targetPort": 8080}


def service(name: str = "web", *, labels: dict[str, str] | None = None, **spec: Any) -> Service:
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"selector": {"app": "x"}, "ports": [HTTP], **spec},
    }
    return from_dict(Service, body)


def pod(name: str, *ips: str, node: str = "n1", ready: bool = True, phase: str = "Running", **more: Any) -> Pod:
    """A pod with the label that services select; ``more`` in Kubernetes' own spelling."""
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": more.pop("since", "2026-01-01T00:00:00Z")}
    status = {"phase": phase, "conditions": [condition], "podIPs": [{"ip": ip} for ip in ips]}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **more.pop("metadata", {})}
    container = {"name": "c", "image": "i", "ports": more.pop("ports", [])}
    return from_dict(
        Pod,
        {
            "metadata": {"labels": {"app": "x"}, **metadata},
            "spec": {"nodeName": node, "containers": [container], **more},
            "status": {**status, "podIP": ips[0] if ips else ""},
        },
    )
