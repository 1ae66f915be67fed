"""Which runtime this machine can offer: one that answers at a socket, else crun, else runc, else plain processes.

Being installed and being root is not enough (cgroups, overlays and namespaces may be out of reach, as inside another
container), so each of crun and runc has to run a real container first. A socket only counts where it was named: what
answers there may be another node's, whose kubelet ends containers that it does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from cathedra.clock import Clock
from cathedra.node.runtime.hosted import HostedRuntime, Launcher
from cathedra.node.runtime.oci import OCILauncher
from cathedra.node.runtime.process import MISSING, ProcessLauncher
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, PodIdentity, Runtime, RuntimeFailure
from cathedra.node.shim.errors import IncompatibleShim, ShimLost

__all__ = ["CANDIDATES", "SOCKETS", "ChosenRuntime", "choose_runtime"]

CANDIDATES = ("crun", "runc")
"""OCI runtimes by preference; crun starts a container in half the time."""
SOCKETS = ("/run/containerd/containerd.sock", "/run/crio/crio.sock")
"""Where container runtimes listen."""

_PROBE_SECONDS = 10.0
_STARTING = "server is not initialized yet"
"""What containerd says while it starts."""
_STARTING_SECONDS = 30.0
_AGAIN_SECONDS = 0.2
_LOG = logging.getLogger(__name__)


class ChosenRuntime(msgspec.Struct, frozen=True):
    """A runtime that works here; ``missing`` says in one line what it cannot do, "" if nothing."""

    runtime: Runtime
    missing: str
    why: str = ""
    """Why it is none of those that were looked at."""


async def choose_runtime(
    directory: Path,
    cdi_directories: Sequence[Path],
    *,
    clock: Clock,
    candidates: Sequence[str] = CANDIDATES,
    sockets: Sequence[str] = (),
    orphan_seconds: float = 600.0,
) -> ChosenRuntime:
    """The best runtime for containers below ``directory``.

    ``sockets`` are those of container runtimes (CRI), of which the first that answers is taken. ``candidates`` () means
    plain processes without a look at anything else.
    """
    why = "as asked for"
    for socket in sockets:
        answering, why = await _behind(socket, directory, cdi_directories, clock)
        if answering is not None:
            return ChosenRuntime(answering, "")
    if candidates:
        none = "not root" if os.geteuid() != 0 else f"no {' or '.join(candidates)} here"
        why = f"{why}; {none}" if sockets else none
    for name in candidates if os.geteuid() == 0 else ():
        program = shutil.which(name)
        if program is None:
            continue

        def launcher(place: Path, version: str = "", name: str = name, program: Path = Path(program)) -> Launcher:
            return OCILauncher(name, version, program, place, cdi_directories, _cgroup(directory))

        hosted = partial(HostedRuntime, directory=directory, clock=clock, orphan_seconds=orphan_seconds)
        async with asyncio.TaskGroup() as group:
            version = group.create_task(_version(program))
            failure = await _failure(hosted(launcher(directory)), launcher, directory, clock)
        if failure is None:
            return ChosenRuntime(hosted(launcher(directory, version.result())), "")
        why = f"{name} does not work here: {failure}"
        _LOG.warning("%s", why)
    process = HostedRuntime(ProcessLauncher(cdi_directories), directory, clock=clock, orphan_seconds=orphan_seconds)
    return ChosenRuntime(process, f"{MISSING} ({why})", why)


async def _behind(
    socket: str, directory: Path, cdi_directories: Sequence[Path], clock: Clock
) -> tuple[Runtime | None, str]:
    """The container runtime that answers at a socket, or why there is none."""
    # start-up time: gRPC, with sockets alone
    from cathedra.node.runtime.cri.endpoint import CRIEndpoint, CRIError, socket_path
    from cathedra.node.runtime.cri.runtime import CRIRuntime

    if not await asyncio.to_thread(os.path.exists, socket_path(socket)):
        return None, f"there is no {socket}"
    endpoint, until = CRIEndpoint(socket), clock.monotonic() + _STARTING_SECONDS
    while True:
        try:
            features = await endpoint.features()
        except CRIError as error:
            if error.description == _STARTING and clock.monotonic() < until:
                await clock.sleep(_AGAIN_SECONDS)
                continue
            await endpoint.close()
            return None, f"no container runtime answers at {socket}: {error.description}"
        return CRIRuntime(endpoint, features, directory, cdi_directories, clock=clock), ""


async def _failure(
    runtime: HostedRuntime, launcher: Callable[[Path], Launcher], directory: Path, clock: Clock
) -> RuntimeFailure | ShimLost | TimeoutError | None:
    """Why containers of that kind cannot be run here, if they cannot."""
    try:
        async with asyncio.TaskGroup() as group:
            # Most often it works, so its shim starts beside the probe's.
            group.create_task(_warm_up(runtime))
            try:
                await _probe(launcher, directory, clock)
            except (RuntimeFailure, ShimLost, TimeoutError) as error:
                return error
    except asyncio.CancelledError:
        await runtime.abandon()
        raise
    return None


async def _warm_up(runtime: HostedRuntime) -> None:
    # What is wrong with the shim is said when the runtime is opened.
    with contextlib.suppress(OSError, IncompatibleShim):
        await runtime.warm_up()


def _cgroup(directory: Path) -> str:
    """A cgroup of its own for each directory, so that two nodes do not share one."""
    return f"/cathedra-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}"


async def _version(program: str) -> str:
    words = (await asyncio.to_thread(_said_by, program, "--version")).split()
    return words[2] if len(words) > 2 else "unknown"


def _said_by(*command: str) -> str:
    """What a command prints; "" if it takes long, or cannot be run.

    In a thread, as the shim's start: a loop's own way copies the memory map of this process, which then stands still.
    """
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


async def _probe(launcher: Callable[[Path], Launcher], directory: Path, clock: Clock) -> None:
    """Run ``true`` in a container of that kind; all that a probe leaves lies in a directory of its own.

    Raises:
        RuntimeFailure, ShimLost, TimeoutError: it does not work.
    """
    ended: asyncio.Queue[ContainerRun] = asyncio.Queue()
    # Beside the real one: a shim that already holds containers of an earlier agent must not be disturbed. An
    # agent that was killed while probing left a shim that ends when its directory is gone.
    for stale in directory.parent.glob(f"{directory.name}-probe-*"):
        shutil.rmtree(stale, ignore_errors=True)
    place = directory.with_name(f"{directory.name}-probe-{os.getpid()}")
    runtime = HostedRuntime(launcher(place), place, clock=clock, orphan_seconds=_PROBE_SECONDS)
    spec = ContainerSpec(
        id=f"probe-{os.getpid()}",
        pod=PodIdentity("", "probe", "probe"),
        name="probe",
        attempt=0,
        argv=("true",),
        hostname="probe",
        log_path=str(place / "probe.log"),
    )
    try:
        await runtime.open(ended.put_nowait)
        async with asyncio.timeout(_PROBE_SECONDS):
            await runtime.start(spec)
            run = await ended.get()
        if run.exit_code != 0:
            raise RuntimeFailure("RunContainerError", f"the probe ended with code {run.exit_code}")
    finally:
        await runtime.close(stop_containers=True)
        shutil.rmtree(place, ignore_errors=True)
