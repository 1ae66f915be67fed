"""Small clusters for the tests of moves: nodes with equal GPUs or partitions, and pods with claims."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState

CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
}


def node(name: str, devices: int, *, half: bool = False, **labels: str) -> list[dict[str, Any]]:
    """A node with GPUs; with ``half`` each of them as a whole and in two halves."""
    status = {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}}
    spec: dict[str, Any] = {"driver": "gpu.example.com", "nodeName": name, "pool": _pool(name)}
    if half:
        spec["sharedCounters"] = [
            {"name": f"gpu-{number}", "counters": {"memory": {"value": "2"}}} for number in range(devices)
        ]
        counters = dict(spec)
        del spec["sharedCounters"]
        spec["devices"] = [
            _device(f"gpu-{number}{suffix}", size, f"gpu-{number}")
            for number in range(devices)
            for suffix, size in (("", 2), ("-a", 1), ("-b", 1))
        ]
        return [
            _node(name, labels, status),
            _slice(f"{name}-0", counters),
            _slice(f"{name}-1", spec),
        ]
    spec["pool"]["resourceSliceCount"] = 1
    spec["devices"] = [{"name": f"gpu-{number}"} for number in range(devices)]
    return [_node(name, labels, status), _slice(name, spec)]


def _pool(name: str) -> dict[str, Any]:
    return {"name": name, "generation": 1, "resourceSliceCount": 2}


def _node(name: str, labels: dict[str, str], status: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _slice(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def _device(name: str, size: int, counters: str) -> dict[str, Any]:
    return {
        "name": name,
        "attributes": {"size": {"int": size}},
        "consumesCounters": [{"counterSet": counters, "counters": {"memory": {"value": str(size)}}}],
    }


def pod(
    name: str, count: int, at: str = "", devices: Iterable[str] = (), *, size: int = 0, owner: str = "", **spec: Any
) -> list[dict[str, Any]]:
    """A pod with a claim for ``count`` GPUs; on a node and with devices if it runs."""
    exactly: dict[str, Any] = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    if size:
        exactly["selectors"] = [{"cel": {"expression": f"device.attributes['gpu.example.com'].size == {size}"}}]
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    claim: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**metadata, "uid": f"claim-{name}"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": at, "device": device} for device in devices]
    if at:
        claim["status"] = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
        }
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}", "controller": True}
        ]
    body: dict[str, Any] = {
        "containers": [{"name": "main", "image": "i"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        **spec,
    }
    if at:
        body["nodeName"] = at
    phase = {"phase": "Running" if at else "Pending"}
    one = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body, "status": phase}
    return [one, claim]


def state_of(*parts: list[dict[str, Any]]) -> ClusterState:
    """The cluster with these objects."""
    return read_dump([CLASS, *(one for part in parts for one in part)])


def random_cluster(random: Random, most: int = 5) -> tuple[ClusterState, list[str]]:
    """A cluster that is partly in use, by about ``most`` pods, and the names of the pods that wait."""
    parts: list[list[dict[str, Any]]] = []
    half = random.random() < 0.4
    number = 0
    for place in range(random.randint(2, 3)):
        name, size = f"node-{place}", random.randint(1, 2) if half else random.randint(2, 4)
        parts.append(node(name, size, half=half))
        free = list(range(size))
        while free and random.random() < 0.75 and number < most:
            if half:
                gpu = free.pop(random.randrange(len(free)))
                for suffix in random.choice([("",), ("-a",), ("-b",), ("-a", "-b")]):
                    priority = random.choice([0, 0, 0, 10])
                    names = [f"gpu-{gpu}{suffix}"]
                    wanted = 2 if suffix == "" else 1
                    parts.append(pod(f"old-{number}", 1, name, names, size=wanted, priority=priority))
                    number += 1
                continue
            count = random.randint(1, min(2, len(free)))
            names = [f"gpu-{free.pop(random.randrange(len(free)))}" for _ in range(count)]
            parts.append(pod(f"old-{number}", count, name, names, priority=random.choice([0, 0, 0, 10])))
            number += 1
    waiting = [f"new-{place}" for place in range(random.choice([1, 1, 2]))]
    for name in waiting:
        count = 1 if half else random.randint(1, 4)
        parts.append(pod(name, count, size=2 if half else 0, priority=5))
    return state_of(*parts), waiting
