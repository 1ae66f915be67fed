"""Pods that are hard to schedule, in a cluster whose parts share one event loop: the others do not notice them."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.integration.conftest import Kubectl, RunningCluster

LONGEST = 1.0
"""Seconds that `/livez` may take on a busy machine. Before attempts had turns, it took as long as the search."""
CUBE = str(list(range(20)))
SELECTOR = (
    f"{CUBE}.all(a, {CUBE}.all(b, {CUBE}.all(c, a + b + c + NUMBER >= 0 || "
    'device.attributes["hard.example.com"].uuid == "x"))) && device.attributes["hard.example.com"].uuid != "NUMBER"'
)
"""The API server accepts it, and on each device it takes a large part of a second."""


class Pulse:
    """An independent client of a server, with the longest time of `/livez`."""

    def __init__(self, url: str) -> None:
        self._at = urlsplit(url)
        self._ended = threading.Event()
        self.longest = 0.0
        self.answers = 0

    def watch(self) -> None:
        """Send requests, each on a new connection, until `stop`."""
        context = ssl._create_unverified_context()
        while not self._ended.is_set():
            began = time.monotonic()
            connection = http.client.HTTPSConnection(str(self._at.hostname), self._at.port, context=context, timeout=60)
            connection.request("GET", "/livez")
            assert connection.getresponse().status == 200
            connection.close()
            self.longest = max(self.longest, time.monotonic() - began)
            self.answers += 1
            self._ended.wait(0.05)

    def stop(self) -> None:
        """End the watch."""
        self._ended.set()


@contextmanager
def pulse_of(cluster: RunningCluster) -> Iterator[Pulse]:
    found = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    pulse = Pulse(found)
    thread = threading.Thread(target=pulse.watch)
    thread.start()
    try:
        yield pulse
    finally:
        pulse.stop()
        thread.join()


def device_class(driver: str) -> dict[str, Any]:
    expression = f'device.driver == "{driver}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver.split(".")[0]},
        "spec": spec,
    }


def slices(node: str, driver: str, devices: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    parts = [devices[start : start + 64] for start in range(0, len(devices), 64)]
    for number, part in enumerate(parts):
        pool = {"name": node, "generation": 1, "resourceSliceCount": len(parts)}
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{driver.split('.')[0]}-{node}-{number}"},
            "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": part},
        }


def template(requests: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "hard"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "i",
        "resources": {"claims": [{"name": "c"}] if "resourceClaims" in spec else []},
    }
    body = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


def hard_pod(name: str) -> dict[str, Any]:
    return pod(name, resourceClaims=[{"name": "c", "resourceClaimTemplateName": "hard"}])


def slow_selectors() -> list[dict[str, Any]]:
    """Two hundred devices on each node, and four requests with a slow selector each."""
    devices = [{"name": f"d{n}", "attributes": {"uuid": {"string": f"u{n}"}}} for n in range(200)]
    requests = [
        {
            "name": f"r{n}",
            "exactly": {
                "deviceClassName": "hard",
                "selectors": [{"cel": {"expression": SELECTOR.replace("NUMBER", str(n))}}],
            },
        }
        for n in range(4)
    ]
    made = [one for node in ("node-0", "node-1") for one in slices(node, "hard.example.com", devices)]
    return [device_class("hard.example.com"), *made, template(requests)]


def packing() -> list[dict[str, Any]]:
    """Shares of memory that do not fit together, which no bound sees."""
    devices = [
        {"name": f"d{n}", "allowMultipleAllocations": True, "capacity": {"mem": {"value": str(100 + n)}}}
        for n in range(8)
    ]
    requests = [
        {
            "name": f"r{n}",
            "exactly": {"deviceClassName": "hard", "capacity": {"requests": {"mem": str(42 + 2 * (n % 5))}}},
        }
        for n in range(17)
    ]
    made = [one for node in ("node-0", "node-1") for one in slices(node, "hard.example.com", devices)]
    return [device_class("hard.example.com"), *made, template(requests)]


def listed(objects: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@pytest.mark.parametrize("world", [slow_selectors, packing])
def test_hard_pods_hold_up_neither_the_server_nor_leases_nor_other_pods(
    world: Callable[[], list[dict[str, Any]]], start_cluster: Callable[..., RunningCluster]
) -> None:
    cluster = start_cluster("--nodes=2", "--gpus=1", "--runtime=simulated")
    kubectl = Kubectl(cluster)
    kubectl("create", "-f", "-", stdin=listed(world()))
    with pulse_of(cluster) as pulse:
        kubectl("create", "-f", "-", stdin=listed([hard_pod(f"hard-{n}") for n in range(3)]))
        began = time.monotonic()
        for number in range(3):
            kubectl("create", "-f", "-", stdin=listed([pod(f"easy-{number}")]))
            kubectl("wait", "--for=condition=PodScheduled", f"pod/easy-{number}", "--timeout=8s")
        time.sleep(max(0.0, 12.0 - (time.monotonic() - began)))
        leases = json.loads(kubectl("get", "leases", "-n", "kube-node-lease", "-o", "json"))["items"]
        now = time.time()
    assert pulse.longest < LONGEST
    assert pulse.answers > 20
    ages = [now - datetime.fromisoformat(one["spec"]["renewTime"].replace("Z", "+00:00")).timestamp() for one in leases]
    assert len(ages) == 2
    assert max(ages) < 12.0, "nodes renew their leases each 10 s"
    messages = kubectl(
        "get", "events", "--field-selector=reason=FailedScheduling", "-o", "jsonpath={.items[*].message}"
    )
    assert "timed out trying to allocate devices" in messages
    cluster.down()
