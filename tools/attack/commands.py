"""Commands of an administrator over what others have written. Memory is that of the command itself."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tools.attack.measuring import Attack, Reached, Scene
from tools.attack.scheduling import device_class, resource_slice

__all__ = ["ATTACKS"]

WHO: Final = "who writes the input"
PATIENCE_SECONDS: Final = 30.0
INPUT_MIB: Final = 256.0
"""Bytes of one input that a command reads by default."""
_MEASURING: Final = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""A process of its own: until it is replaced by its program, a child has the memory of the process that started it."""


def run(words: list[str]) -> tuple[float, float]:
    """Run a command to its end; the most memory that it had in MiB, and how long it took in seconds."""
    began = time.monotonic()
    command = [sys.executable, "-c", _MEASURING, sys.executable, "-m", "cathedra.cli.main", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return int(done.stdout) / 1024, time.monotonic() - began


async def _compared(scene: Scene, plain: list[str], hard: list[str]) -> None:
    """Run a command on a plain input and on a hard one."""
    before, _ = await asyncio.to_thread(run, plain)
    scene.begin()
    most, took = await asyncio.to_thread(run, hard)
    scene.used(before, most)
    if took > PATIENCE_SECONDS:
        raise Reached(f"the command took {took:.0f} s")


def _dump(folder: str, count: int) -> str:
    """A dump of a node, a device, and a claim that wants many of them."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    claim = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    resource = {"apiVersion": "resource.k8s.io/v1"}
    items: list[Any] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}},
        resource | {"kind": "DeviceClass"} | device_class("gpu", "gpu.example.com"),
        resource | {"kind": "ResourceSlice"} | resource_slice("node", "gpu.example.com", [{"name": "d"}]),
        resource | {"kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "default"}, "spec": claim},
    ]
    path = Path(folder) / f"{count}.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


async def explained_count(scene: Scene) -> None:
    """``explain`` of a claim that wants more devices than any cluster has."""
    with tempfile.TemporaryDirectory() as folder:
        plain, hard = (
            ["dra", "explain", "claim/c", "-n", "default", "--dump", _dump(folder, count)] for count in (1, 1_000_000)
        )
        await _compared(scene, plain, hard)


async def endless_dump(scene: Scene) -> None:
    """A dump that does not end."""
    with tempfile.TemporaryDirectory() as folder:
        await _compared(
            scene, ["dra", "devices", "--dump", _dump(folder, 1)], ["dra", "devices", "--dump", "/dev/zero"]
        )


ATTACKS: Final = (
    Attack("explained-count", "`kubectl dra explain` of a claim for devices", "`count: 1000000`", WHO, explained_count),
    Attack(
        "endless-dump",
        "`kubectl dra devices --dump /dev/zero`, of which 256 MiB are read",
        "endless",
        WHO,
        endless_dump,
        INPUT_MIB + 64,
    ),
)
