"""Pods whose devices are hard to find."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tools.attack.measuring import Attack, Reached, Scene
from tools.attack.target import MEMBER, NAMESPACE, Cluster

__all__ = ["ATTACKS", "RESOURCES", "device_class", "resource_slice", "template"]

RESOURCES: Final = "/apis/resource.k8s.io/v1"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS: Final = f"/api/v1/namespaces/{NAMESPACE}/events"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NODES: Final = ("node-0", "node-1")
ROOT: Final = "resource.kubernetes.io/pcieRoot"
SEARCHED_SECONDS: Final = 20.0
LEASE_SECONDS: Final = 20.0
"""Age of a node's lease at most; it is renewed each 10 s and ends after 40."""
CUBE: Final = str(list(range(20)))
SELECTOR: Final = (
    f"{CUBE}.all(a, {CUBE}.all(b, {CUBE}.all(c, a + b + c + NUMBER >= 0 || "
    'device.attributes["heavy.example.com"].uuid == "x"))) && device.attributes["heavy.example.com"].uuid != "NUMBER"'
)
"""Costs a large part of a second on each device, and no more than an expression may cost."""


def device_class(name: str, driver: str) -> dict[str, Any]:
    """All devices of a driver."""
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
    }


def resource_slice(node: str, driver: str, devices: Sequence[Any], part: int = 0, parts: int = 1) -> dict[str, Any]:
    """Devices of a driver on a node, as one of the pool's slices."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": parts}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": f"{driver}-{node}-{part}"}, "spec": spec}


def template(name: str, requests: Sequence[Any], constraints: Sequence[Any] = ()) -> dict[str, Any]:
    """A template of claims."""
    devices = {"requests": list(requests), "constraints": list(constraints)}
    return {"metadata": {"name": name}, "spec": {"spec": {"devices": devices}}}


def pod(name: str, claims: str) -> dict[str, Any]:
    """A pod with a claim from a template."""
    container = {"name": "c", "image": "busybox", "command": ["sleep", "60"], "resources": {"claims": [{"name": "d"}]}}
    claim = {"name": "d", "resourceClaimTemplateName": claims}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": [claim], "terminationGracePeriodSeconds": 0},
    }


def pairs(count: int) -> Iterator[tuple[str, Any]]:
    """GPUs and network interfaces on common PCIe roots, one interface of each node on a root of its own."""
    for kind in ("gpu", "nic"):
        driver = f"{kind}.pairs.example.com"
        yield "deviceclasses", device_class(f"{kind}-pairs", driver)
        for place, node in enumerate(NODES):
            roots = [
                f"pci9{place}0" if kind == "nic" and not number else f"pci{place}{number:03}" for number in range(count)
            ]
            devices = [
                {"name": f"{kind}-{number}", "attributes": {ROOT: {"string": root}}}
                for number, root in enumerate(roots)
            ]
            yield "resourceslices", resource_slice(node, driver, devices)
    requests = [
        {"name": f"{kind}{number}", "exactly": {"deviceClassName": f"{kind}-pairs"}}
        for kind in ("gpu", "nic")
        for number in range(count)
    ]
    constraints = [{"requests": [f"gpu{number}", f"nic{number}"], "matchAttribute": ROOT} for number in range(count)]
    yield f"namespaces/{NAMESPACE}/resourceclaimtemplates", template("pairs", requests, constraints)


def heavy() -> Iterator[tuple[str, Any]]:
    """Devices, and requests whose selectors take long on each of them."""
    driver = "heavy.example.com"
    yield "deviceclasses", device_class("heavy", driver)
    devices = [{"name": f"d{number}", "attributes": {"uuid": {"string": f"u{number}"}}} for number in range(200)]
    for node in NODES:
        for part, start in enumerate(range(0, 200, 50)):
            yield "resourceslices", resource_slice(node, driver, devices[start : start + 50], part, 4)
    requests = []
    for number in range(4):
        selector = {"cel": {"expression": SELECTOR.replace("NUMBER", str(number))}}
        requests.append({"name": f"r{number}", "exactly": {"deviceClassName": "heavy", "selectors": [selector]}})
    yield f"namespaces/{NAMESPACE}/resourceclaimtemplates", template("heavy", requests)


async def _searched(scene: Scene, name: str, objects: Iterable[tuple[str, Any]]) -> None:
    for resource, body in objects:
        await scene.cluster.admin.create(f"{RESOURCES}/{resource}", body)
    scene.begin()
    for number in range(3):
        await scene.cluster.member.create(PODS, pod(f"{name}-{number}", name))
    await asyncio.sleep(SEARCHED_SECONDS)
    await _leases_renewed(scene.cluster)
    events = (await scene.cluster.member.send("GET", EVENTS)).json()["items"]
    if not any(one["reason"] == "FailedScheduling" and name in one["involvedObject"]["name"] for one in events):
        raise RuntimeError("the scheduler did not try the pods")
    for number in range(3):
        await scene.cluster.member.send("DELETE", f"{PODS}/{name}-{number}?gracePeriodSeconds=0")


async def _leases_renewed(cluster: Cluster) -> None:
    leases = (await cluster.admin.send("GET", LEASES)).json()["items"]
    now = datetime.now(UTC)
    ages = [(now - datetime.fromisoformat(one["spec"]["renewTime"])).total_seconds() for one in leases]
    if max(ages, default=0.0) > LEASE_SECONDS:
        raise Reached(f"a node's lease was not renewed for {max(ages):.0f} s")


async def paired_devices(scene: Scene) -> None:
    """Pairs on common roots, of which one less can be had than the claim wants."""
    await _searched(scene, "pairs", pairs(16))


async def heavy_selectors(scene: Scene) -> None:
    """Selectors that take long, on many devices."""
    await _searched(scene, "heavy", heavy())


ATTACKS: Final = (
    Attack(
        "paired-devices",
        "three pods with pairs of devices on common roots, of which one pair lacks",
        "16 pairs, 2 nodes",
        MEMBER,
        paired_devices,
    ),
    Attack(
        "heavy-selectors",
        "three pods with accepted selectors that take long",
        "4 selectors × 200 devices, 2 nodes",
        MEMBER,
        heavy_selectors,
    ),
)
