"""Selection of a container runtime that works on this machine: a CRI socket, crun, runc, or plain processes.

Being installed and being root is not enough: cgroups, overlays and namespaces may be unavailable, as inside another
container. Each of crun and runc therefore has to run a real container first. A socket counts only if it was named: the
runtime behind it may belong to another node, whose kubelet ends containers that it does not know.

The trial takes a fifth of a second, in which this process only waits. A cluster therefore starts the selection while
its API server opens, before there is an agent (`EarlyRuntime`).
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
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

import msgspec

from cathedra.cdi.catalogue import DEFAULT_DIRECTORIES
from cathedra.clock import Clock
from cathedra.files.private import private_directory
from cathedra.node.config import NodeConfig
from cathedra.node.runtime.hosted import HostedRuntime, Launcher
from cathedra.node.runtime.oci import OCILauncher
from cathedra.node.runtime.podnetworks import PodNetworks, remove_networks
from cathedra.node.runtime.process import MISSING, ProcessLauncher
from cathedra.node.runtime.runtime import (
    ContainerRun,
    ContainerSpec,
    PodIdentity,
    Runtime,
    RuntimeFailure,
    UnusableRuntime,
)
from cathedra.node.shim.protocol import IncompatibleShim, ShimLost

CANDIDATES = ("crun", "runc")
"""OCI runtimes by preference; crun starts a container in half the time."""
SOCKETS = ("/run/containerd/containerd.sock", "/run/crio/crio.sock")
"""Usual sockets of container runtimes."""

_PROBE_SECONDS = 10.0
_STARTING = "server is not initialized yet"
"""Error text of containerd while it starts."""
_STARTING_SECONDS = 30.0
_AGAIN_SECONDS = 0.2
_LOG = logging.getLogger(__name__)


class ChosenRuntime(msgspec.Struct, frozen=True):
    """A runtime that works here; ``missing`` lists its missing features in one line, "" if none."""

    runtime: Runtime
    missing: str
    why: str = ""
    """Reason why better runtimes were not chosen."""


class ContainerHome(msgspec.Struct, frozen=True):
    """Place of a node's containers, and properties that any runtime gives them there."""

    directory: Path
    cdi_directories: Sequence[Path] = ()
    orphan_seconds: float = 600.0
    """Seconds after which containers end whose agent does not come back."""
    networks: PodNetworks | None = None
    """Networks of the pods; None: pods share the node's."""


async def choose_runtime(
    home: ContainerHome, *, clock: Clock, candidates: Sequence[str] = CANDIDATES, sockets: Sequence[str] = ()
) -> ChosenRuntime:
    """Return the best runtime for the containers of ``home``.

    ``sockets`` are those of container runtimes (CRI), of which the first that answers is used. ``candidates`` () means
    plain processes without any trial.
    """
    directory, cdi_directories = home.directory, home.cdi_directories
    why = "as requested"
    for socket in sockets:
        answering, why = await _behind(socket, directory, cdi_directories, clock)
        if answering is not None:
            return ChosenRuntime(answering, "")
    if candidates:
        none = "not root" if os.geteuid() != 0 else f"no {' or '.join(candidates)} here"
        why = f"{why}; {none}" if sockets else none
    hosted = partial(HostedRuntime, directory=directory, clock=clock, orphan_seconds=home.orphan_seconds)
    # Without root neither namespaces nor device mounts can be made. The trial would only fail more slowly.
    for name in candidates if os.geteuid() == 0 else ():
        program = shutil.which(name)
        if program is None:
            continue

        def launcher(place: Path, version: str = "", name: str = name, program: Path = Path(program)) -> Launcher:
            return OCILauncher(name, version, program, place, cdi_directories, _cgroup(directory))

        async with asyncio.TaskGroup() as group:
            version = group.create_task(_version(program))
            failure = await _failure(hosted(launcher(directory)), launcher, directory, clock)
        if failure is None:
            return ChosenRuntime(hosted(launcher(directory, version.result()), networks=home.networks), "")
        why = f"{name} does not work here: {failure}"
        _LOG.warning("%s", why)
    return ChosenRuntime(hosted(ProcessLauncher(cdi_directories)), f"{MISSING} ({why})", why)


async def _behind(
    socket: str, directory: Path, cdi_directories: Sequence[Path], clock: Clock
) -> tuple[Runtime | None, str]:
    """Return the container runtime that serves a socket, or None and why there is none."""
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
            # At boot the socket exists before containerd serves it. Giving up at once would choose another runtime
            # until the next restart.
            if error.description == _STARTING and clock.monotonic() < until:
                await clock.sleep(_AGAIN_SECONDS)
                continue
            await endpoint.close()
            return None, f"no container runtime answers at {socket}: {error.description}"
        return CRIRuntime(endpoint, features, directory, cdi_directories, clock=clock), ""


async def _failure(
    runtime: HostedRuntime, launcher: Callable[[Path], Launcher], directory: Path, clock: Clock
) -> RuntimeFailure | ShimLost | TimeoutError | None:
    """Return the error of a trial container; None if it ran."""
    try:
        async with asyncio.TaskGroup() as group:
            # Most often it works, so its shim starts beside the probe's.
            group.create_task(_warm_up(runtime))
            try:
                await _probe(launcher, directory, clock)
            except (RuntimeFailure, ShimLost, TimeoutError) as error:
                return error
    except asyncio.CancelledError:
        # The shim that was started beside the probe would outlive a cancelled start.
        await runtime.abandon()
        raise
    return None


async def _warm_up(runtime: HostedRuntime) -> None:
    # Opening the runtime reports errors of the shim.
    with contextlib.suppress(OSError, IncompatibleShim):
        await runtime.warm_up()


def _cgroup(directory: Path) -> str:
    """Return a cgroup of its own for each directory, so that two nodes do not share one."""
    return f"/cathedra-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]}"


async def _version(program: str) -> str:
    words = (await asyncio.to_thread(_output_of, program, "--version")).split()
    return words[2] if len(words) > 2 else "unknown"


def _output_of(*command: str) -> str:
    """Return a command's output; "" if it takes too long or cannot be run.

    It runs in a thread: the event loop's own subprocess call copies the memory map of this process, which blocks all
    tasks.
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


PRIVATE: Final = ("pods", "containers", "pki")
"""Directories with Secrets, tokens, environments and keys."""


def open_root(root: Path) -> None:
    """Make a node's directory, and close in it what others of this machine must not see, also if it was there before.

    Raises:
        NotPrivate: a directory for Secrets is another user's.
    """
    root.mkdir(mode=0o750, parents=True, exist_ok=True)
    for name in PRIVATE:
        private_directory(root / name)


async def choose_configured(config: NodeConfig, clock: Clock) -> ChosenRuntime:
    """Return the best working runtime that ``config``, of a node with a ``root``, allows.

    Raises:
        UnusableRuntime: the configured runtime cannot be used here.
    """
    root, wanted = config.root, config.runtime
    assert root is not None, "a simulated node runs no containers"
    candidates = {"auto": CANDIDATES, "oci": CANDIDATES, "process": (), "cri": ()}.get(wanted, (wanted,))
    sockets = (config.cri_socket,) if config.cri_socket else SOCKETS if wanted == "cri" else ()
    networks = _networks(config.pod_network, root) if config.pod_network else None
    if networks is None:
        # Those of an earlier agent with the option, which was killed: no sandboxes of this one would remove them.
        await asyncio.to_thread(remove_networks, root / "networks")
    else:
        if wanted not in {"auto", "oci", *CANDIDATES}:
            raise UnusableRuntime(wanted, "--pod-network needs crun or runc")
        await networks.probe()
    chosen = await choose_runtime(
        ContainerHome(
            root / "containers",
            config.cdi_directories or (*DEFAULT_DIRECTORIES, root / "cdi"),
            config.orphan_seconds,
            networks,
        ),
        candidates=candidates,
        sockets=sockets if wanted in {"auto", "cri"} else (),
        clock=clock,
    )
    # Processes share the host's network. Two pods with one port would collide without an error of this agent.
    if chosen.missing and networks is not None:
        raise UnusableRuntime("with --pod-network", chosen.why)
    if chosen.missing and wanted not in {"auto", "process"}:
        raise UnusableRuntime(wanted, chosen.why)
    return chosen


def _networks(subnet: str, root: Path) -> PodNetworks:
    """Return the networks of the pods of a node.

    Raises:
        UnusableRuntime: the subnet is none.
    """
    try:
        parsed = IPv4Network(subnet)
    except ValueError as error:
        raise UnusableRuntime("with --pod-network", f"{error}") from None
    return PodNetworks(parsed, root / "networks")


class EarlyRuntime:
    """A runtime whose selection runs in the background. An agent takes it once; its creator closes it."""

    def __init__(self, config: NodeConfig, clock: Clock) -> None:
        """``config`` needs only the fields that the selection depends on.

        Raises:
            NotPrivate: a directory for Secrets belongs to another user. Nothing was started.
        """
        assert config.root is not None, "a simulated node runs no containers"
        open_root(config.root)
        self._choosing = asyncio.create_task(choose_configured(config, clock), name=f"runtime of {config.name}")
        self._taken = False

    async def take(self) -> ChosenRuntime:
        """Return the runtime, which then belongs to the caller. Cancellation while waiting leaves nothing behind.

        Raises:
            UnusableRuntime: the configured runtime cannot be used here.
        """
        self._taken = True
        return await self._choosing

    async def close(self) -> None:
        """End a runtime that was not taken, unless it holds containers."""
        if self._taken:
            return
        # A selection that has ended is unaffected by the cancellation, and its result is closed below.
        self._choosing.cancel()
        (chosen,) = await asyncio.gather(self._choosing, return_exceptions=True)
        if isinstance(chosen, ChosenRuntime):
            # Containers that an earlier agent has left wait for the next one.
            found = await chosen.runtime.open(lambda _: None)
            await chosen.runtime.close(stop_containers=not found)
