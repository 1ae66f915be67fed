"""Small builders with meaningful defaults: only what matters to a situation is visible in it. Objects are v1 dicts."""

from __future__ import annotations

from typing import Any

__all__ = [
    "Object",
    "claim",
    "counted",
    "device",
    "device_class",
    "gpus",
    "held",
    "node",
    "pod",
    "pod_group",
    "quota",
    "request",
    "slice_of",
    "template",
]

Object = dict[str, Any]
RESOURCE = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def node(name: str = "n1", *, cpu: str = "8", labels: Object | None = None, **spec: Any) -> Object:
    status = {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"}}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> Object:
    selectors = [{"cel": {"expression": one}} for one in expressions or (f'device.driver == "{DRIVER}"',)]
    return {
        "apiVersion": RESOURCE,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def device(name: str, *, memory: str = "", **attributes: Any) -> Object:
    """A device; attributes are strings, numbers or booleans, or {"version": …} and the like."""
    typed = {
        key: value
        if isinstance(value, dict)
        else {"bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string": value}
        for key, value in attributes.items()
    }
    made: Object = {"name": name}
    if typed:
        made["attributes"] = typed
    if memory:
        made["capacity"] = {"memory": {"value": memory}}
    return made


def slice_of(
    *devices: Object,
    node: str | None = "n1",
    driver: str = DRIVER,
    pool: str = "",
    generation: int = 1,
    count: int = 1,
    name: str = "",
    **spec: Any,
) -> Object:
    pool = pool or node or "shared"
    where: Object = {"nodeName": node} if node else {} if "nodeSelector" in spec else {"allNodes": True}
    return {
        "apiVersion": RESOURCE,
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{pool}-{driver.partition('.')[0]}"},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **where,
            **({"devices": list(devices)} if devices else {}),
            **spec,
        },
    }


def gpus(number: int, node: str = "n1", *, memory: str = "40Gi", **attributes: Any) -> Object:
    given = {"model": "a100", **attributes}
    return slice_of(*(device(f"gpu-{place}", memory=memory, **given) for place in range(number)), node=node)


def request(name: str = "gpu", cls: str = "gpu", count: int = 1, *expressions: str, **more: Any) -> Object:
    selectors = [{"cel": {"expression": one}} for one in expressions]
    exactly: Object = {"deviceClassName": cls, "allocationMode": "ExactCount", "count": count, **more}
    if more.get("allocationMode") == "All":
        del exactly["count"]
    if selectors:
        exactly["selectors"] = selectors
    return {"name": name, "exactly": exactly}


def _spec(requests: tuple[Object, ...], constraints: list[Object] | None) -> Object:
    return {
        "devices": {"requests": list(requests or (request(),)), **({"constraints": constraints} if constraints else {})}
    }


def claim(
    name: str = "c", *requests: Object, namespace: str = "default", constraints: list[Object] | None = None
) -> Object:
    return {
        "apiVersion": RESOURCE,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": f"claim-{namespace}-{name}"},
        "spec": _spec(requests, constraints),
    }


def template(
    name: str = "t", *requests: Object, namespace: str = "default", constraints: list[Object] | None = None
) -> Object:
    return {
        "apiVersion": RESOURCE,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": _spec(requests, constraints)},
    }


def held(
    name: str,
    *devices: str,
    pool: str = "n1",
    driver: str = DRIVER,
    namespace: str = "other",
    by: str = "",
    node: str | None = None,
    **result: Any,
) -> Object:
    """A claim that has devices of a pool; ``by`` a pod that uses it."""
    made = claim(name, request("gpu", "gpu", len(devices)), namespace=namespace)
    results = [{"request": "gpu", "driver": driver, "pool": pool, "device": one, **result} for one in devices]
    # With a timestamp, as the scheduler writes it: without one no further pod can reserve the claim.
    allocation: Object = {"devices": {"results": results}, "allocationTimestamp": "2026-05-01T08:00:00Z"}
    if node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    made["status"] = {"allocation": allocation}
    if by:
        made["status"]["reservedFor"] = [{"resource": "pods", "name": by, "uid": f"pod-{by}"}]
    return made


def counted(name: str, **counters: int) -> Object:
    """A device that consumes counters of the set ``gpu``."""
    amounts = {key: {"value": str(value)} for key, value in counters.items()}
    return {"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": amounts}]}


def pod(
    *entries: str, name: str = "p", namespace: str = "default", cpu: str = "1", phase: str = "Pending", **spec: Any
) -> Object:
    """A pod whose entries are «claim:NAME» or «template:NAME»."""
    fields = {"claim": "resourceClaimName", "template": "resourceClaimTemplateName"}
    claims = [
        {"name": f"e{place}", fields[entry.partition(":")[0]]: entry.partition(":")[2]}
        for place, entry in enumerate(entries)
    ]
    status = spec.pop("status", {})
    containers = [{"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"pod-{name}"},
        "spec": {"containers": containers, "resourceClaims": claims, **spec},
        "status": {"phase": phase, **status},
    }


def pod_group(name: str, least: int) -> Object:
    """A group whose pods are scheduled together, ``least`` of them at least."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
    }


def quota(hard: Object, used: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "limits", "namespace": "default"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used},
    }
