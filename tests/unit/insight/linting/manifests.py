"""Small manifests, each for one finding."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["claim", "counters", "device_class", "gang", "member", "pod", "selecting", "slices", "yaml_of"]

DRIVER = "gpu.example.com"


def yaml_of(*objects: dict[str, Any]) -> str:
    """The objects as documents; JSON is YAML."""
    return "\n---\n".join(json.dumps(one, indent=1) for one in objects) + "\n"


def device_class(expression: str = f'device.driver == "{DRIVER}"', **more: Any) -> dict[str, Any]:
    """Class ``gpu``."""
    spec = {"selectors": [{"cel": {"expression": expression}}], **more}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}


def claim(*requests: dict[str, Any], version: str = "v1", **metadata: Any) -> dict[str, Any]:
    """Claim ``gpus`` with these requests."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpus", **metadata},
        "spec": {"devices": {"requests": list(requests)}},
    }


def selecting(*expressions: str, name: str = "gpu", **more: Any) -> dict[str, Any]:
    """A request of class ``gpu`` with these selectors."""
    exactly: dict[str, Any] = {"deviceClassName": "gpu", **more}
    if expressions:
        exactly["selectors"] = [{"cel": {"expression": one}} for one in expressions]
    return {"name": name, "exactly": exactly}


def pod(*used: dict[str, str]) -> dict[str, Any]:
    """A pod with claim ``gpus`` as ``g``, of which its container uses these."""
    container: dict[str, Any] = {"name": "main", "image": "main", "resources": {"claims": list(used)}}
    spec = {"containers": [container], "resourceClaims": [{"name": "g", "resourceClaimName": "gpus"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": spec}


def gang(least: int, **more: Any) -> dict[str, Any]:
    """PodGroup ``gang`` that needs this many pods."""
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}, **more}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"}, "spec": spec}


def member(name: str = "worker", group: str = "gang") -> dict[str, Any]:
    """A pod of a group."""
    spec = {"containers": [{"name": "main", "image": "main"}], "schedulingGroup": {"podGroupName": group}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def slices(*devices: list[dict[str, Any]], count: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Return a pool of a number of slices, each with its devices."""
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"slice-{number}"},
            "spec": {
                "driver": DRIVER,
                "nodeName": "node-0",
                "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": count or len(devices)},
                **({"devices": one} if one else {}),
                **(more if not one else {}),
            },
        }
        for number, one in enumerate(devices)
    ]


def counters(amount: str = "2", name: str = "slots", consumed: str = "1") -> list[dict[str, Any]]:
    """A pool with a set of one counter, and a device that consumes of it."""
    use = {"counterSet": "set", "counters": {name: {"value": consumed}}}
    shared = [{"name": "set", "counters": {"slots": {"value": amount}}}]
    return slices([], [{"name": "gpu-0", "consumesCounters": [use]}], sharedCounters=shared)


def placed(terms: int) -> dict[str, Any]:
    """Return a slice with a device on nodes that any of a number of terms selects."""
    made = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [str(n)]}]} for n in range(terms)]
    (one,) = slices([{"name": "gpu-0", "nodeSelector": {"nodeSelectorTerms": made}}])
    del one["spec"]["nodeName"]
    one["spec"]["perDeviceNodeSelection"] = True
    return one
