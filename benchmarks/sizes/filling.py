"""The store of a large cluster: what one node with its pods has left there, copied for each further node."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.sizes.programs import program
from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceClass, ResourceClaimTemplate
from cathedra.api.struct import from_dict
from cathedra.apiserver.storage.protocol import Record, StorageError, Write
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.client.client import Client
from cathedra.client.resources import DEVICECLASSES, PODS, RESOURCECLAIMTEMPLATES

T = TypeVar("T")

PODS_EACH: Final = 10
CLAIMS_EACH: Final = 5
LOST: Final = "node-7"
"""The node whose pods are evicted as soon as it is lost."""
DRIVER: Final = "gpu.example.com"
_CHUNK: Final = 5000
_NODE: Final = re.compile(rb"node-0\b")
_UID: Final = re.compile(rb"[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
_TIME: Final = re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_EPOCH: Final = 1_750_000_000
_HEALTH: Final = re.compile(rb',"allocatedResourcesStatus":\[\{.*?\}\]\}\]')
"""Health of the devices, which the agents of this measurement do not know."""
_VERSION: Final = re.compile(rb'"resourceVersion":"\d+"')

_CLASS: Final = {
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}
_TEMPLATE: Final = {
    "metadata": {"name": "one-gpu"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
}


async def fill(folder: Path, nodes: int) -> None:
    """Run one node with its pods, then copy what it has stored for each further node."""
    async with program("serve", folder, 1) as server:
        await server.said("ready")
        await server.command("furnish")
    store = SQLiteStorage(folder / "objects.sqlite")
    content = await store.load()
    kept = list(content.records)
    copied = [record for record in kept if _NODE.search(record.value) and not record.key.startswith("//events/")]
    revision = content.revision
    for number in range(1, nodes):
        for record in copied:
            revision += 1
            store.commit(_copy(record, number, revision), _settled)
        if number % (_CHUNK // len(copied)) == 0:
            await asyncio.sleep(0)  # one row of the log
    await store.close()


def _copy(record: Record, number: int, revision: int) -> Write:
    """A record of node-0 as that of another node: names, UIDs, times and revision differ."""
    name, serial = f"node-{number}", b"%08x" % number
    value = _NODE.sub(name.encode(), record.value)
    value = _UID.sub(lambda found: b"%08x" % (int(found[0], 16) ^ int(serial, 16) ^ 0x5A000000), value)
    moved = datetime.fromtimestamp(_EPOCH + revision, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()
    value = _TIME.sub(moved, value)
    value = _VERSION.sub(b'"resourceVersion":"%d"' % revision, value, count=1)
    value = _HEALTH.sub(b"", value)
    if name != LOST:
        # The agents of many nodes join later than the controller waits for nodes. Their pods stay nevertheless.
        value = value.replace(b'"tolerationSeconds":0', b'"tolerationSeconds":3600')
    return Write(_NODE.sub(name.encode(), record.key.encode()).decode(), revision, value)


def _settled(error: StorageError | None) -> None:
    if error is not None:
        raise error


async def furnish(client: Client) -> None:
    """Create the pods of the first node, and wait until they run."""
    await client.resource(DEVICECLASSES).create(from_dict(DeviceClass, _CLASS))
    await client.resource(RESOURCECLAIMTEMPLATES, "default").create(from_dict(ResourceClaimTemplate, _TEMPLATE))
    pods = client.resource(PODS, "default")
    for number in range(PODS_EACH):
        await pods.create(_pod(number))
    await until_all(client, "node-0", lambda pod: pod.status.phase == "Running")


async def until_all(client: Client, node: str, done: Callable[[Pod], bool]) -> None:
    """Wait until all pods of a node are so, or gone."""
    pods = client.resource(PODS, "default")
    selector = f"spec.nodeName={node}"
    found = await pods.list(field_selector=selector)
    waiting = {pod.metadata.name for pod in found.items if not done(pod)}
    if node == "node-0":
        waiting = {pod_name(node, number) for number in range(PODS_EACH)} - {
            pod.metadata.name for pod in found.items if done(pod)
        }
    async with pods.watch(field_selector=selector, resource_version=found.resource_version) as events:
        while waiting:
            event = await anext(events)
            if event.object is not None and done(event.object):
                waiting.discard(event.object.metadata.name)


def batched(every: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the elements in groups of a size."""
    for first in range(0, len(every), size):
        yield every[first : first + size]


def pod_name(node: str, number: int) -> str:
    """Return the name of a node's pod."""
    return f"{node}-pod-{number}"


def _pod(number: int) -> Pod:
    container: dict[str, Any] = {
        "name": "main",
        "image": "registry.example.com/team/app:1.2.3",
        "env": [{"name": f"VARIABLE_{n}", "value": f"value {n}"} for n in range(5)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    spec: dict[str, Any] = {
        "containers": [container],
        "automountServiceAccountToken": False,
        "tolerations": [
            {"key": f"node.kubernetes.io/{kind}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
            for kind in ("not-ready", "unreachable")
        ],
    }
    if number < CLAIMS_EACH:
        container["resources"]["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    metadata = {"name": pod_name("node-0", number), "labels": {"app": "bench", "tier": "test"}}
    return from_dict(Pod, {"metadata": metadata, "spec": spec})
