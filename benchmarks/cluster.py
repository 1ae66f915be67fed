"""The whole cluster: how soon it is ready, how soon a first claim's pod runs, and what it weighs at rest.

Kubernetes' figures are those of its own control plane (etcd, kube-apiserver, kube-controller-manager, kube-scheduler)
on a machine of this kind. There the nodes are not counted; here the node with its driver is in the same process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceClass, ResourceClaimTemplate
from cathedra.api.struct import from_dict
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.resources import DEVICECLASSES, PODS, RESOURCECLAIMTEMPLATES
from cathedra.clock import SystemClock

__all__ = ["rows"]

Row = tuple[str, float, str, str | float | None, str | float | None]

REST_SECONDS: Final = 5.0
"""Seconds without load before the memory of the cluster is measured."""

DEVICE_CLASS: Final = {
    "metadata": {"name": "gpu.example.com"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}
TEMPLATE: Final = {
    "metadata": {"name": "one-gpu"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}},
}
POD: Final = {
    "metadata": {"name": "first"},
    "spec": {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        "containers": [
            {
                "name": "main",
                "image": "host",
                "command": ["sleep", "600"],
                "resources": {"claims": [{"name": "gpu"}]},
            }
        ],
        "terminationGracePeriodSeconds": 0,
    },
}


def rows() -> Iterator[Row]:
    """Start a cluster of one node as a user does, and watch it over HTTPS."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        began = time.monotonic()
        process = _start(Path(folder))
        try:
            yield "cluster/StartToReady", time.monotonic() - began, "s", 2.9, 1.0
            created, bound, running = asyncio.run(_first_pod(Path(folder)))
            yield "cluster/StartToFirstClaimBound", bound - began, "s", 4.2, None
            yield "cluster/FirstClaimPodCreatedToBound", bound - created, "s", None, None
            yield "cluster/FirstClaimPodCreatedToRunning", running - created, "s", None, None
            time.sleep(REST_SECONDS)
            yield "cluster/MemoryAtRest", _resident_mebibytes(process.pid), "MiB", 497, None
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cathedra.cli.main", "up", "--no-merge", f"--data-dir={folder}", "--nodes=1"]
    # With bytecode, as a package has it that pip has installed: a source tree is not compiled where this is set.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("ready in"):
            return process
    raise RuntimeError(f"the cluster did not become ready: {''.join(said)}")


async def _first_pod(folder: Path) -> tuple[float, float, float]:
    """Times at which a first pod with a claim was created, seen bound and seen running, on the monotonic clock."""
    async with await HTTPTransport.open(kubeconfig.load(folder / "kubeconfig")) as transport:
        client = Client(transport, clock=SystemClock())
        await client.resource(DEVICECLASSES).create(from_dict(DeviceClass, DEVICE_CLASS))
        await client.resource(RESOURCECLAIMTEMPLATES, "default").create(from_dict(ResourceClaimTemplate, TEMPLATE))
        pods = client.resource(PODS, "default")
        created = time.monotonic()
        pod = await pods.create(from_dict(Pod, POD))
        bound = 0.0
        async with pods.watch(resource_version=pod.metadata.resource_version) as events:
            async for event in events:
                if not bound and event.object.spec.node_name:
                    bound = time.monotonic()
                if event.object.status.phase == "Running":
                    return created, bound, time.monotonic()
    raise RuntimeError("the watch ended before the pod was running")


def _resident_mebibytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has gone")
