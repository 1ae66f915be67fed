"""Fifteen checks of the NVIDIA driver on a machine with a GPU: ``python tools/gpu_check.py [--markdown FILE]``.

A cluster of one node is started in a temporary directory, its containers run on this machine's root file system with
crun or runc, and the driver and the CPU driver run beside it. Containers speak to the GPU through the kernel driver's
libcuda alone, by ctypes: neither an image nor a package with CUDA is needed. No setting of the GPU is changed; one
check makes a kernel write to a wrong address, which ends that process and leaves the GPU as it was.

Needs root, crun or runc, and the packages ``cathedra[nvidia]``. Exit codes: 0 all passed, 1 a check failed, 2 the
machine has no GPU that can be checked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.client.resources import DEVICECLASSES, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.clock import SystemClock
from cathedra.driver import OptionError
from cathedra.drivers.nvidia.nvml import Gpu, load_nvml, read_gpus

DRIVER: Final = "gpu.nvidia.com"
CPU_DRIVER: Final = "dra.cpu"
SECONDS: Final = 60.0
"""Within which a condition must become true."""

CUDA: Final = r"""
import ctypes, json, os, sys
out = {"nodes": sorted(n for n in os.listdir("/dev") if n.startswith("nvidia") and n[6:].isdigit())}
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    out["error"] = str(error)
else:
    out["init"] = cuda.cuInit(0)
    if out["init"] == 0:
        count, device, context, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        cuda.cuDeviceGetCount(ctypes.byref(count))
        out["count"] = count.value
        cuda.cuDeviceGet(ctypes.byref(device), 0)
        out["context"] = cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
        out["alloc"] = cuda.cuMemAlloc_v2(ctypes.byref(memory), 4096)
        sent, got = bytes(range(256)) * 16, ctypes.create_string_buffer(4096)
        out["copy"] = [cuda.cuMemcpyHtoD_v2(memory, sent, 4096), cuda.cuMemcpyDtoH_v2(got, memory, 4096)]
        out["equal"] = got.raw == sent
        if "fault" in sys.argv:
            ptx = b".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry f() { .reg .b64 %a; .reg .b32 %v;" \
                  b" mov.u64 %a, 8; mov.u32 %v, 1; st.global.u32 [%a], %v; ret; }\0"
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            out["module"] = cuda.cuModuleLoadData(ctypes.byref(module), ptx)
            cuda.cuModuleGetFunction(ctypes.byref(function), module, b"f")
            out["launch"] = cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
            out["synchronize"] = cuda.cuCtxSynchronize()
out["cpus"] = sorted(os.sched_getaffinity(0))
open("/dev/termination-log", "w").write(json.dumps(out))
if "stay" in sys.argv:
    import time
    open("/tmp/ready", "w").close()
    time.sleep(3600)
"""


class CheckFailed(Exception):
    """The check failed; the text has the observation."""


@dataclass
class Machine:
    """The cluster on this machine, and what the checks leave for one another."""

    client: Client
    directory: Path
    gpus: list[Gpu]
    python: str
    drivers: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    async def start_driver(self, module: str) -> None:
        log = (self.directory / "drivers.log").open("ab")
        self.drivers[module] = await asyncio.create_subprocess_exec(
            self.python, "-m", "cathedra.cli.main", "driver", "--data-dir", str(self.directory / "data"),
            "--module", module, stdout=log, stderr=log,
        )  # fmt: skip

    async def claim(self, name: str, driver: str = DRIVER, expression: str = "", cpus: int = 0) -> None:
        exactly: dict[str, Any] = {"deviceClassName": driver}
        if expression:
            exactly["selectors"] = [{"cel": {"expression": expression}}]
        if cpus:
            exactly["capacity"] = {"requests": {f"{CPU_DRIVER}/cpu": str(cpus)}}
        request = {"name": "device", "exactly": exactly}
        claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        await self.client.resource(RESOURCECLAIMS, "default").create(from_dict(ResourceClaim, claim))

    async def pod(self, name: str, claim: str = "", *words: str) -> None:
        container: dict[str, Any] = {"name": "c", "image": "host", "command": [self.python, "-c", CUDA, *words]}
        spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
        spec["terminationGracePeriodSeconds"] = 1
        if claim:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
            container["resources"] = {"claims": [{"name": "gpu"}]}
        await self.client.resource(PODS, "default").create(from_dict(Pod, {"metadata": {"name": name}, "spec": spec}))

    async def get(self, name: str) -> Pod:
        return await self.client.resource(PODS, "default").get(name)

    async def answer(self, name: str) -> dict[str, Any]:
        """Return the findings of a container that has ended."""

        async def ended() -> str | None:
            pod = await self.get(name)
            for status in pod.status.container_statuses:
                if status.state is not None and status.state.terminated is not None:
                    return status.state.terminated.message or "{}"
            return None

        found: dict[str, Any] = json.loads(await until(ended, f"pod {name} has not ended"))
        return found

    async def phase(self, name: str, phase: str) -> None:
        async def reached() -> bool:
            return (await self.get(name)).status.phase == phase

        await until(reached, f"pod {name} is not {phase}")

    async def reason(self, name: str) -> str:
        """Return the reason why a pod waits."""

        async def said() -> str | None:
            conditions = (await self.get(name)).status.conditions
            return next(
                (one.message for one in conditions if one.type == "PodScheduled" and one.status == "False"), None
            )

        return str(await until(said, f"pod {name} does not say why it waits"))

    async def clear(self) -> None:
        """Delete pods and claims, and wait until they are gone."""
        for resource in (PODS, RESOURCECLAIMS):
            there = self.client.resource(resource, "default")
            for one in (await there.list()).items:
                try:
                    await there.delete(one.metadata.name)
                except StatusError as error:
                    if not error.is_not_found:
                        raise

            async def gone(there: Any = there) -> bool:
                return not (await there.list()).items

            await until(gone, f"{resource.resource} are not deleted")


async def until(condition: Callable[[], Awaitable[Any]], otherwise: str) -> Any:
    """The first true answer of ``condition``."""
    ends = time.monotonic() + SECONDS
    while True:
        if found := await condition():
            return found
        if time.monotonic() > ends:
            raise CheckFailed(f"{otherwise} within {SECONDS:g} s")
        await asyncio.sleep(0.1)


def require(truth: object, otherwise: str) -> None:
    if not truth:
        raise CheckFailed(otherwise)


def works(found: Mapping[str, Any]) -> bool:
    return bool(found.get("equal")) and found.get("count") == 1


async def slices(machine: Machine, driver: str = DRIVER) -> list[Any]:
    return [one for one in (await machine.client.resource(RESOURCESLICES).list()).items if one.spec.driver == driver]


# --- the checks, in order


async def nvml_answers(machine: Machine) -> str:
    """NVML knows the GPUs."""
    gpu = machine.gpus[0]
    return f"{len(machine.gpus)} × {gpu.model}, kernel driver {gpu.driver_version}"


async def published(machine: Machine) -> str:
    """Each GPU is a device of a slice."""
    began = time.monotonic()

    async def there() -> list[Any]:
        return [device for one in await slices(machine) for device in one.spec.devices]

    devices = await until(there, "no slice is published")
    whole = [device for device in devices if device.attributes["type"].string == "gpu"]
    require(len(whole) == len(machine.gpus), f"{len(whole)} GPUs are published")
    return f"{time.monotonic() - began:.1f} s"


async def attributes_agree(machine: Machine) -> str:
    """UUID, model and memory are NVML's."""
    for one in await slices(machine):
        for device in one.spec.devices:
            gpu = next(
                (gpu for gpu in machine.gpus if gpu.uuid == getattr(device.attributes.get("uuid"), "string", "")), None
            )
            if gpu is not None:
                require(device.attributes["productName"].string == gpu.model, "productName is another")
                require(device.capacity["memory"].value == Quantity(gpu.memory_bytes), "memory is another")
                return f"{gpu.memory_bytes / 2**30:.1f} GiB"
    raise CheckFailed("no device has the UUID of a GPU")


async def selected(machine: Machine) -> str:
    """A claim with a selector on memory and architecture is allocated; one that matches no device waits, with a
    message."""
    gpu = machine.gpus[0]
    right = (
        f'device.attributes["{DRIVER}"].architecture == "{gpu.architecture}" && '
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("1Gi")) > 0'
    )
    await machine.claim("right", expression=right)
    await machine.claim("wrong", expression=f'device.attributes["{DRIVER}"].architecture == "None"')
    await machine.pod("right", "right")
    await machine.pod("wrong", "wrong")
    await machine.answer("right")
    return (await machine.reason("wrong")).rstrip(".")[:80]


async def runs(machine: Machine) -> str:
    """CUDA allocates, writes and reads memory in a container with the claim."""
    await machine.claim("gpu")
    began = time.monotonic()
    await machine.pod("runs", "gpu")
    found = await machine.answer("runs")
    require(works(found), json.dumps(found))
    return f"from pod to end {time.monotonic() - began:.1f} s"


async def links(machine: Machine) -> str:
    """libcuda.so.1 is found in the container."""
    await machine.claim("gpu")
    await machine.pod("links", "gpu")
    found = await machine.answer("links")
    require("error" not in found, found.get("error", ""))
    return "loaded by its name"


async def isolated(machine: Machine) -> str:
    """A container without the claim finds no GPU."""
    await machine.pod("isolated")
    found = await machine.answer("isolated")
    require(found.get("init") != 0, json.dumps(found))
    return str(found.get("error") or f"cuInit answers {found.get('init')}")


async def one_device(machine: Machine) -> str:
    """The container sees the allocated GPU alone."""
    await machine.claim("gpu")
    await machine.pod("one", "gpu")
    found = await machine.answer("one")
    require(len(found["nodes"]) == 1, json.dumps(found["nodes"]))
    return str(found["nodes"][0])


async def exclusive(machine: Machine) -> str:
    """A claim more than there are GPUs waits, and gets the GPU that is released."""
    count = len(machine.gpus)
    for number in range(count + 1):
        await machine.claim(f"gpu-{number}")
    for number in range(count):
        await machine.pod(f"holder-{number}", f"gpu-{number}", "stay")
        await machine.phase(f"holder-{number}", "Running")
    await machine.pod("waits", f"gpu-{count}")
    reason = await machine.reason("waits")
    await machine.client.resource(PODS, "default").delete("holder-0")
    await machine.client.resource(RESOURCECLAIMS, "default").delete("gpu-0")
    require(works(await machine.answer("waits")), "the released GPU does not work")
    return reason.rstrip(".")[:80]


async def shared(machine: Machine) -> str:
    """Two pods use one claim at a time."""
    await machine.claim("gpu")
    await machine.pod("first", "gpu", "stay")
    await machine.phase("first", "Running")
    await machine.pod("second", "gpu")
    require(works(await machine.answer("second")), "the second pod finds no GPU")
    require((await machine.get("first")).status.phase == "Running", "the first pod has ended")
    return "both ran"


async def killed(machine: Machine) -> str:
    """The driver is killed and started: the container runs on, and the claim serves another pod."""
    await machine.claim("gpu")
    await machine.pod("before", "gpu", "stay")
    await machine.phase("before", "Running")
    (module, process), *_ = machine.drivers.items()
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await machine.start_driver(module)
    await machine.pod("after", "gpu")
    require(works(await machine.answer("after")), "after the restart the claim's GPU does not work")
    require((await machine.get("before")).status.phase == "Running", "the container has ended with the driver")
    return "the container ran on"


async def faults(machine: Machine) -> str:
    """An illegal write becomes a taint without effect, and the GPU works on."""
    await machine.claim("gpu")
    await machine.pod("faulty", "gpu", "fault")
    found = await machine.answer("faulty")
    require(found.get("synchronize"), f"the write went through: {json.dumps(found)}")

    async def tainted() -> list[str]:
        devices = [device for one in await slices(machine) for device in one.spec.devices]
        return [f"{taint.key}={taint.value}:{taint.effect}" for device in devices for taint in device.taints]

    taints = await until(tainted, "no taint is published")
    await machine.pod("next", "gpu")
    require(works(await machine.answer("next")), "the GPU does not work after the fault")
    return ", ".join(taints)


async def released(machine: Machine) -> str:
    """Nothing is left of claims that were deleted."""
    await machine.claim("gpu")
    await machine.pod("released", "gpu")
    await machine.answer("released")
    await machine.clear()

    async def empty() -> bool:
        # A document of the driver itself stays; those of claims have the claim's UID in their name.
        names = [path.name for path in machine.directory.rglob("*.json") if "cdi" in path.parts]
        return not any(name.count("-") >= 4 for name in names)

    await until(empty, "a CDI document of a deleted claim is left")
    return "no CDI document is left"


async def pinned(machine: Machine) -> str:
    """Beside it the CPU driver pins a container to the CPUs of its claim."""
    if len(os.sched_getaffinity(0)) < 2:
        raise CheckFailed("the machine has one CPU")
    await machine.start_driver("cathedra.drivers.cpu:CpuDriver")

    async def there() -> bool:
        return bool(await slices(machine, CPU_DRIVER))

    await until(there, "the CPU driver publishes nothing")
    await machine.claim("cpu", CPU_DRIVER, cpus=1)
    await machine.pod("cpu", "cpu")
    found = await machine.answer("cpu")
    require(len(found["cpus"]) < len(os.sched_getaffinity(0)), f"CPUs {found['cpus']}")
    return f"CPUs {found['cpus']}"


async def ends(machine: Machine) -> str:
    """The driver ends by SIGTERM, and its slices stay for its restart."""
    (_, process), *_ = machine.drivers.items()
    process.terminate()
    began = time.monotonic()
    await asyncio.wait_for(process.wait(), SECONDS)
    require(await slices(machine), "the slices went with it")
    return f"{time.monotonic() - began:.1f} s"


CHECKS: Final = (
    nvml_answers, published, attributes_agree, selected, runs, links, isolated, one_device, exclusive, shared, killed,
    faults, released, pinned, ends,
)  # fmt: skip


@asynccontextmanager
async def machine_of(gpus: list[Gpu], directory: Path) -> AsyncIterator[Machine]:
    """A cluster of one node on this machine, with classes for both drivers."""
    data, python = directory / "data", sys.executable
    cathedra = (python, "-m", "cathedra.cli.main")
    place = ("--data-dir", str(data))
    options = ("--nodes", "1", "--gpus", "0", "--runtime", "oci", "--no-merge", "--detach")
    up = await asyncio.create_subprocess_exec(*cathedra, "up", "gpu-check", *place, *options)
    if await up.wait() != 0:
        raise SystemExit(2)
    try:
        async with await HTTPTransport.open(load(data / "kubeconfig")) as transport:
            client = Client(transport, clock=SystemClock())
            for name in (DRIVER, CPU_DRIVER):
                rule = {"cel": {"expression": f'device.driver == "{name}"'}}
                made = {"metadata": {"name": name}, "spec": {"selectors": [rule]}}
                await client.resource(DEVICECLASSES).create(from_dict(DeviceClass, made))
            machine = Machine(client, directory, gpus, python)
            await machine.start_driver("cathedra.drivers.nvidia:NvidiaDriver")
            try:
                yield machine
            finally:
                for process in machine.drivers.values():
                    if process.returncode is None:
                        process.terminate()
                        await process.wait()
    finally:
        down = await asyncio.create_subprocess_exec(*cathedra, "down", *place)
        await down.wait()


async def check(gpus: list[Gpu], directory: Path) -> list[tuple[str, str, str]]:
    """Run the checks; name, ``ok`` or ``FAIL``, and what was seen."""
    rows = []
    async with machine_of(gpus, directory) as machine:
        for one in CHECKS:
            rule = (one.__doc__ or "").rstrip(".")
            try:
                row = (rule, "ok", await one(machine))
            except (CheckFailed, StatusError, TimeoutError, KeyError, ValueError) as error:
                row = (rule, "FAIL", str(error) or type(error).__name__)
            print(f"{row[1]:4} {row[0]}: {row[2]}", flush=True)
            rows.append(row)
            if one is not ends:
                await machine.clear()
    return rows


def markdown(rows: list[tuple[str, str, str]]) -> str:
    """The rows as a table for docs/hardware.md."""
    lines = ["| check | result | seen |", "|---|---|---|"]
    lines += [f"| {rule} | {result} | {seen.replace('|', '/')} |" for rule, result, seen in rows]
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table for docs/hardware.md")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the cluster's directory and logs here")
    arguments = parser.parse_args()
    try:
        gpus = read_gpus(load_nvml())
    except OptionError as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return 2
    if os.geteuid() != 0 or not gpus:
        print("gpu_check: needs root and a GPU", file=sys.stderr)
        return 2
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as temporary:
        if arguments.keep is not None:
            arguments.keep.mkdir(parents=True, exist_ok=True)
        rows = asyncio.run(check(gpus, arguments.keep or Path(temporary)))
    passed = sum(result == "ok" for _, result, _ in rows)
    print(f"{passed} of {len(rows)} passed in {time.monotonic() - began:.0f} s")
    if arguments.markdown is not None:
        arguments.markdown.write_text(markdown(rows))
    return 0 if passed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
