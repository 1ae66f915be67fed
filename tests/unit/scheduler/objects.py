"""Small pods, nodes, claims and slices with meaningful defaults; only what matters to a test is spelled out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cathedra.api.core.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict

__all__ = ["bound_claim", "claim", "device_class", "exactly", "node", "pod", "slice_", "volume"]

DRIVER = "gpu.example.com"


def node(
    name: str,
    *,
    labels: Mapping[str, str] = {},
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: str = "110",
    **more: str,
) -> Node:
    """A node with room for 110 pods, 4 cpus and 32Gi."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **more}
    return from_dict(
        Node,
        {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "spec": {"taints": list(taints), "unschedulable": unschedulable},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        },
    )


def pod(name: str, *, requests: Mapping[str, str] = {}, labels: Mapping[str, str] = {}, **spec: Any) -> Pod:
    """A pod with one container; ``spec`` in Kubernetes' own spelling."""
    container = {"name": "c", "image": "i", "resources": {"requests": dict(requests)}}
    uid = "" if name.endswith("*") else f"uid-{name}"
    status = spec.pop("status", {})
    return from_dict(
        Pod,
        {
            "metadata": {"name": name, "namespace": "default", "uid": uid, "labels": dict(labels)},
            "spec": {"containers": [container], "schedulerName": "default-scheduler", **spec},
            "status": status,
        },
    )


def bound_claim(name: str, **spec: Any) -> PersistentVolumeClaim:
    """A claim that is bound to the volume of its name."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    values = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return from_dict(PersistentVolumeClaim, {"metadata": metadata, "spec": {**values, "volumeName": name}})


def volume(name: str, *, labels: Mapping[str, str] = {}, **spec: Any) -> PersistentVolume:
    """A persistent volume of 1Gi that every node reaches."""
    values = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec}
    return from_dict(PersistentVolume, {"metadata": {"name": name, "labels": dict(labels)}, "spec": values})


def exactly(name: str = "gpu", class_name: str = "gpu", count: int = 1) -> dict[str, Any]:
    """A request for a number of devices of a class."""
    exact = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": exact}


def claim(name: str, *requests: Mapping[str, Any], **devices: Any) -> ResourceClaim:
    """A claim with these requests; one GPU if none are given."""
    return from_dict(
        ResourceClaim,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": list(requests) or [exactly()], **devices}},
        },
    )


def device_class(name: str = "gpu", driver: str = DRIVER, **spec: Any) -> DeviceClass:
    """A class of everything that one driver publishes."""
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return from_dict(DeviceClass, {"metadata": {"name": name}, "spec": {"selectors": [selector], **spec}})


def slice_(node_name: str, devices: int = 2, *, driver: str = DRIVER, **device: Any) -> ResourceSlice:
    """A pool of a node with some devices that look alike."""
    return from_dict(
        ResourceSlice,
        {
            "metadata": {"name": f"{node_name}-{driver}"},
            "spec": {
                "driver": driver,
                "nodeName": node_name,
                "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{index}", **device} for index in range(devices)],
            },
        },
    )
