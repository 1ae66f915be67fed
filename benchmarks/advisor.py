"""The advisor beside an API server with a cluster of 5,000 nodes: memory, processor time under churn, time to a reason.

Both run as processes. The churn is claims that are freed and allocated again. The reason of a new pod is measured from
its creation to its event, as `kubectl describe` would show it; a busy machine makes that time longer.

    python -m benchmarks advisor
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.apiserver import Server
from cathedra.api.core.core_v1 import Event, Node, Pod
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.resources import (
    DEVICECLASSES,
    EVENTS,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
    SERVICEACCOUNTS,
)
from cathedra.clock import SystemClock
from cathedra.session.opening import open_transport

Row = tuple[str, float, str, str | float | None, str | float | None]

NODES_OF: Final = 5000
PER_NODE: Final = 8
CLAIMS: Final = 20_000
PENDING: Final = 500
SORTS: Final = 10
"""Different pods among those that wait."""
RATE: Final = 50
"""Changes in a second."""
SECONDS: Final = 60.0
AT_ONCE: Final = 64
PROBES: Final = 5
DRIVER: Final = "gpu.example.com"
REFS: Final[dict[type[Any], Any]] = {
    Node: NODES,
    Pod: PODS,
    ResourceSlice: RESOURCESLICES,
    DeviceClass: DEVICECLASSES,
    ResourceClaim: RESOURCECLAIMS,
    ResourceClaimTemplate: RESOURCECLAIMTEMPLATES,
}


def node(number: int) -> Node:
    """A node with labels and conditions as a kubelet writes them."""
    name = f"node-{number}"
    room = {"cpu": "128", "memory": "1Ti", "pods": "110", "ephemeral-storage": "1Ti"}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure")
    conditions = [{"type": kind, "status": "False", "reason": "Fine", "message": "kubelet is fine"} for kind in kinds]
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{number % 3}"}
    return from_dict(
        Node,
        {
            "metadata": {"name": name, "labels": labels},
            "status": {
                "allocatable": room,
                "capacity": room,
                "conditions": [*conditions, {"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        },
    )


def slice_of(number: int) -> ResourceSlice:
    """The GPUs of a node; each has a UUID of its own."""
    devices = [
        {
            "name": f"gpu-{place}",
            "attributes": {
                "model": {"string": "h100" if number % 4 == 0 else "a100"},
                "numa": {"int": place // 4},
                "uuid": {"string": f"GPU-{number:05}-{place}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for place in range(PER_NODE)
    ]
    pool = {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": f"node-{number}", "pool": pool, "devices": devices}
    return from_dict(ResourceSlice, {"metadata": {"name": f"node-{number}-gpus"}, "spec": spec})


def allocated(number: int, nodes: int = NODES_OF) -> dict[str, Any]:
    """The allocation of a running claim: the first devices of each node are held."""
    pool = f"node-{number % nodes}"
    result = {"request": "gpus", "driver": DRIVER, "pool": pool, "device": f"gpu-{number // nodes}"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pool]}]}
    return {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}


def claim(name: str, count: int, *selectors: str, number: int | None = None, nodes: int = NODES_OF) -> ResourceClaim:
    """A claim that waits, or the running one of that number."""
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": text}} for text in selectors],
    }
    return from_dict(
        ResourceClaim,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}},
            "status": {} if number is None else {"allocation": allocated(number, nodes)},
        },
    )


def pod(name: str, claim_name: str, node_name: str = "") -> Pod:
    """A pod with the usual two containers."""
    requests = {"cpu": "500m", "memory": "1Gi"}
    containers = [
        {
            "name": one,
            "image": f"registry/{one}:1",
            "env": [{"name": "LEVEL", "value": "info"}],
            "resources": {"requests": requests},
        }
        for one in ("main", "proxy")
    ]
    spec = {"containers": containers, "resourceClaims": [{"name": "gpus", "resourceClaimName": claim_name}]}
    return from_dict(
        Pod,
        {
            "metadata": {"name": name, "namespace": "default", "labels": {"app": name.rpartition("-")[0]}},
            "spec": spec | ({"nodeName": node_name} if node_name else {}),
            "status": {"phase": "Running" if node_name else "Pending"},
        },
    )


def waiting(number: int) -> Sequence[Any]:
    """A pod that wants more than there is: more devices, or other ones."""
    sort = number % SORTS
    model = [f'device.attributes["{DRIVER}"].model == "h100"'] if sort % 3 == 1 else []
    return claim(f"want-{sort}", 5 + sort % 5, *model), pod(f"want-{number}", f"want-{sort}")


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of objects of a cluster."""

    nodes: int = NODES_OF
    claims: int = CLAIMS
    pending: int = PENDING


class Cluster:
    """The objects of the cluster, on an API server."""

    def __init__(self, client: Client, size: Size | None = None) -> None:
        self._client, self._size = client, size or Size()
        self._limit = asyncio.Semaphore(AT_ONCE)

    async def create(self, objects: Iterator[Any]) -> None:
        """Create objects with their status, many at a time."""
        async with asyncio.TaskGroup() as group:
            for one in objects:
                await self._limit.acquire()
                group.create_task(self._create(one))

    async def _create(self, one: Any) -> None:
        try:
            resource = self._client.resource(REFS[type(one)], one.metadata.namespace)
            made = await resource.create(one)
            if isinstance(one, (Node, ResourceClaim)) and one.status != type(one)().status:
                await resource.update(replace(made, status=one.status), subresource="status")
        finally:
            self._limit.release()

    async def fill(self) -> None:
        """Create everything."""
        account = {"metadata": {"name": "default", "namespace": "default"}}
        await self._client.resource(SERVICEACCOUNTS, "default").create(from_dict(SERVICEACCOUNTS.type, account))
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        gpu = from_dict(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}})
        await self.create(iter([gpu]))
        size = self._size
        await self.create(node(number) for number in range(size.nodes))
        nodes = await self._client.resource(NODES).list()
        async with asyncio.TaskGroup() as group:
            for one in nodes.items:
                ready = replace(one, spec=replace(one.spec, taints=()))
                group.create_task(self._client.resource(NODES).update(ready))
        await self.create(slice_of(number) for number in range(size.nodes))
        await self.create(claim(f"held-{number}", 1, number=number, nodes=size.nodes) for number in range(size.claims))
        await self.create(
            pod(f"run-{number}", f"held-{number}", f"node-{number % size.nodes}") for number in range(size.claims)
        )
        await self.create(waiting(number)[0] for number in range(SORTS))
        await self.create(waiting(number)[1] for number in range(size.pending))

    async def churn(self, seconds: float) -> int:
        """Change `RATE` objects in a second. Return the number of changes."""
        begun, changes = time.monotonic(), 0
        while (passed := time.monotonic() - begun) < seconds:
            if changes >= passed * RATE:
                await asyncio.sleep(0.01)
                continue
            await self.change_claim(changes)
            changes += 1
        return changes

    async def change_claim(self, change: int) -> None:
        """Free a claim; the next change allocates it again."""
        claims = self._client.resource(RESOURCECLAIMS, "default")
        number = change // 2 % self._size.claims
        held = await claims.get(f"held-{number}")
        taken = claim("x", 1, number=number, nodes=self._size.nodes).status
        await claims.update(replace(held, status=taken if change % 2 else ResourceClaim().status), subresource="status")

    async def replace_pod(self, number: int, kept: int) -> None:
        """Create a pod that waits, and delete the one that was created ``kept`` pods before."""
        made = pod(f"next-{number}", f"want-{number % SORTS}")
        await self.create(iter([made]))
        if number >= kept:
            pods = self._client.resource(PODS, "default")
            await pods.delete(f"next-{number - kept}", grace_period_seconds=0)

    async def seconds_to_reason(self, number: int) -> float:
        """Return the seconds from the creation of a pod to its event."""
        name = f"probe-{number}"
        wanted, _ = waiting(0)
        await self.create(iter([replace(wanted, metadata=replace(wanted.metadata, name=name))]))
        begun = time.monotonic()
        watched = self._client.resource(EVENTS, "default").watch(field_selector=f"involvedObject.name={name}")
        async with watched as stream:
            await self.create(iter([pod(name, name)]))
            async for event in stream:
                if isinstance(event.object, Event) and event.object.involved_object.kind == "Pod":
                    return time.monotonic() - begun
        raise RuntimeError("the watch has ended")

    async def events(self) -> int:
        """Return the number of events."""
        return len((await self._client.resource(EVENTS).list()).items)


def resident(pid: int, name: str = "VmRSS") -> float:
    """Memory of a process in MiB: now, or with ``VmHWM`` the most it had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def processor(pid: int) -> float:
    """Processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measured(folder: Path, *, fill: bool = True) -> list[Row]:
    """Fill the cluster, run the advisor beside it, and measure."""
    file = folder / "kubeconfig"
    async with open_transport(kubeconfig.load(file), user_agent="bench") as transport:
        cluster = Cluster(Client(transport, clock=SystemClock()))
        if fill:
            await cluster.fill()
        log = folder / "advisor.log"
        command = [sys.executable, "-m", "cathedra.cli.main", "advisor", f"--kubeconfig={file}"]
        with log.open("wb") as output:
            advisor = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
        try:
            began = time.monotonic()
            while await cluster.events() < min(PENDING, 300):
                if advisor.returncode is not None:
                    raise RuntimeError(log.read_text())
                await asyncio.sleep(0.2)
            started, begun = time.monotonic() - began, processor(advisor.pid)
            await asyncio.sleep(90)
            before = await cluster.events()
            first, used = resident(advisor.pid), processor(advisor.pid)
            churned = time.monotonic()
            changes = await cluster.churn(SECONDS)
            passed = time.monotonic() - churned
            share = (processor(advisor.pid) - used) / passed
            written = await cluster.events() - before
            reasons, costs = [], []
            for number in range(PROBES):
                used = processor(advisor.pid)
                reasons.append(await cluster.seconds_to_reason(number))
                costs.append(processor(advisor.pid) - used)
            size = f"{NODES_OF} nodes × {PER_NODE}, {CLAIMS} claims, {PENDING} pods wait"
            return [
                (f"advisor/memory, {size}", max(first, resident(advisor.pid)), "MiB", None, 600),
                (f"advisor/most memory, {size}", resident(advisor.pid, "VmHWM"), "MiB", None, None),
                ("advisor/from start to 300 events", started, "s", None, None),
                ("advisor/processor until then", begun, "s", None, None),
                (f"advisor/processor, {changes / passed:.0f} changes/s", share * 100, "% of a core", None, 30),
                (f"advisor/events in {passed:.0f} s of them", written, "events", None, None),
                ("advisor/reason of a new pod", statistics.median(reasons), "s", None, 2),
                ("advisor/processor until the reason of a new pod", statistics.median(costs), "s", None, None),
            ]
        finally:
            advisor.terminate()
            await advisor.wait()


def rows() -> Iterator[Row]:
    """The rows of ``make bench``."""
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name))
        try:
            server.start()
            yield from asyncio.run(measured(Path(name)))
        finally:
            server.stop()
