"""Nodes: how soon a pod runs, by runtime, and what an idle simulated node costs.

A pod's start is measured from its creation, already bound, to ``Running`` in its status, as a watch sees it; the median
of `PODS` pods, one after the other. Runtimes that this machine does not have are left out. Idle nodes renew
their leases.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cathedra.api.core.core_v1 import Container, Pod, PodSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.certificates.authority import Authority
from cathedra.client.client import Client
from cathedra.client.resources import PODS as POD_RESOURCE
from cathedra.client.transport import EventType
from cathedra.clock import SystemClock
from cathedra.node.agent import NodeAgent
from cathedra.node.config import NodeConfig
from cathedra.releases import FeatureGates

__all__ = ["rows"]

Row = tuple[str, float, str, str | float | None, str | float | None]

PODS: Final = 15
IDLE_NODES: Final = 5000
IDLE_SECONDS: Final = 30.0
STOPPABLE: Final = "trap 'exit 0' TERM; sleep 600 & wait"
IMAGE: Final = "registry.example/tools:1"
EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "cri"


def rows() -> Iterator[Row]:
    """Each runtime that works here, then the idle nodes."""
    clock = SystemClock()
    yield "node/PodStart/simulated", asyncio.run(_pod_start("simulated", "", clock)), "ms", None, None
    if os.geteuid() == 0 and (shutil.which("crun") or shutil.which("runc")):
        yield "node/PodStart/oci", asyncio.run(_pod_start("oci", "", clock)), "ms", None, None
    if os.geteuid() == 0 and all(map(shutil.which, ("containerd", "ctr", "busybox"))):
        with _containerd() as socket:
            yield "node/PodStart/cri", asyncio.run(_pod_start("cri", socket, clock)), "ms", None, None
    memory, share = asyncio.run(_idle(clock))
    yield f"node/SimulatedIdle/{IDLE_NODES}/Memory", memory, "KB", None, 100
    yield f"node/SimulatedIdle/{IDLE_NODES}/CPU", share, "% of a core", None, 0.1


async def _pod_start(runtime: str, socket: str, clock: SystemClock) -> float:
    """Milliseconds from a pod's creation to its running."""
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    (folder / "ca.crt").write_bytes(Authority.make(clock.now()).pair.certificate)
    config = NodeConfig(
        name="node-0",
        root=None if runtime == "simulated" else folder / "node",
        runtime=runtime,
        cri_socket=socket,
        client_authority=folder / "ca.crt",
    )
    try:
        server = await APIServer.open(
            ServerConfig(gates=FeatureGates.for_release()), clock=clock, random=random.Random(1)
        )
        client = Client(server.transport(), clock=clock)
        agent = NodeAgent(client, config, clock=clock, random=random.Random(1), gates=FeatureGates.for_release())
        running = asyncio.ensure_future(agent.run())
        await agent.wait_ready()
        times = [await _one_start(client, f"pod-{number}", clock) for number in range(PODS)]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return statistics.median(times) * 1000


async def _one_start(client: Client, name: str, clock: SystemClock) -> float:
    container = Container(name="c", image=IMAGE, image_pull_policy="IfNotPresent", command=("sh", "-c", STOPPABLE))
    spec = PodSpec(node_name="node-0", containers=(container,), termination_grace_period_seconds=5)
    pods = client.resource(POD_RESOURCE, "default")
    began = clock.monotonic()
    pod = await pods.create(Pod(metadata=ObjectMeta(name=name), spec=spec))
    took = 0.0
    async with pods.watch(
        resource_version=pod.metadata.resource_version, field_selector=f"metadata.name={name}"
    ) as events:
        async for event in events:
            if event.object is not None and event.object.status.phase == "Running" and not took:
                took = clock.monotonic() - began
                await pods.delete(name)
            if event.type is EventType.DELETED:
                return took  # nothing of it is left that could slow the next one down
    raise RuntimeError("the watch ended before the pod was running")


@contextmanager
def _containerd() -> Iterator[str]:
    """A containerd in a directory of its own, as in examples/cri; its socket."""
    place = Path(tempfile.mkdtemp(prefix="bench-"))
    (place / "cni").mkdir()
    (place / "config.toml").write_text((EXAMPLE / "containerd.toml").read_text().replace("PLACE", str(place)))
    socket = str(place / "containerd.sock")
    ctr = ["ctr", f"--address={socket}", "--namespace=k8s.io"]
    with (place / "log").open("wb") as log:
        daemon = subprocess.Popen(["containerd", "--config", str(place / "config.toml")], stdout=log, stderr=log)
    try:
        while subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode:
            time.sleep(0.1)
        for name, entrypoint in (("registry.example/pause:1", "/bin/sleep 2147483647"), (IMAGE, "/bin/sh")):
            archive = str(place / "image.tar")
            image = [sys.executable, str(EXAMPLE / "image.py"), archive, name, f"--entrypoint={entrypoint}"]
            subprocess.run(image, check=True)
            subprocess.run([*ctr, "images", "import", archive], check=True, capture_output=True)
        yield socket
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()
        shutil.rmtree(place, ignore_errors=True)


async def _idle(clock: SystemClock) -> tuple[float, float]:
    """KB and percent of a core that one of many idle nodes costs, without what the API server keeps of it."""
    gates = FeatureGates.for_release()
    server = await APIServer.open(ServerConfig(gates=gates), clock=clock, random=random.Random(1))
    client = Client(server.transport(), clock=clock)
    async with asyncio.TaskGroup() as group:
        # The first brings what all share.
        tasks = [await _idle_node(client, "first", clock, group)]
        gc.collect()
        before = _resident_kilobytes()
        for number in range(IDLE_NODES):
            tasks.append(await _idle_node(client, f"node-{number}", clock, group))
        gc.collect()
        memory = (_resident_kilobytes() - before) / IDLE_NODES
        began, spent = clock.monotonic(), time.process_time()
        await clock.sleep(IDLE_SECONDS)
        share = (time.process_time() - spent) / (clock.monotonic() - began) / IDLE_NODES
        for task in tasks:
            task.cancel()
    await server.close()
    return memory, share * 100


async def _idle_node(client: Client, name: str, clock: SystemClock, group: asyncio.TaskGroup) -> asyncio.Task[None]:
    config = NodeConfig(name=name, root=None)
    agent = NodeAgent(client, config, clock=clock, random=random.Random(1), gates=FeatureGates.for_release())
    task = group.create_task(agent.run())
    await agent.wait_ready()
    return task


def _resident_kilobytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1000
