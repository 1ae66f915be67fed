"""Sharing of devices by NVIDIA's own programs: time slices, or one MPS control daemon for each claim.

A daemon's directories, named after the claim and its devices, are below the driver's own, so that any process of the
driver finds them when the claim is unprepared. The daemon runs on the host; containers get its pipes and the host's
shared memory, as its clients need (NVIDIA/k8s-dra-driver-gpu, cmd/gpu-kubelet-plugin/sharing.go).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from cathedra.driver import DriverError, Edits, Mount
from cathedra.drivers.nvidia.config import MpsConfig, TimeSlicingConfig
from cathedra.drivers.nvidia.driverfiles import DriverFiles, below

_SMI: Final = "nvidia-smi"
_MPS: Final = "nvidia-cuda-mps-control"
_NVML: Final = "libnvidia-ml.so."
_USUAL: Final = PurePosixPath("/usr/bin")
_PIPES: Final = "/tmp/nvidia-mps"  # where MPS looks for them in every container
_OPTIONS: Final = ("rw", "nosuid", "nodev", "bind")


class SharingError(DriverError):
    """One of NVIDIA's programs is missing or fails. The text is the program's."""


class Commands(Protocol):
    """Calls of programs of the machine."""

    async def run(self, words: Sequence[str], *, env: Mapping[str, str] = {}, stdin: str = "") -> None:
        """Run one command; ``env`` extends the driver's environment, ``stdin`` is its standard input.

        Raises:
            SharingError: the program is missing or fails.
        """


class HostCommands:
    """The programs of the machine: those that were found with the driver's libraries, else those in /usr/bin."""

    def __init__(self, root: Path = Path("/"), files: DriverFiles | None = None) -> None:
        """``root``: below which the files of the machine are; ``files``: those of the driver, as the machine names
        them."""
        self._root = root
        self._programs = {one.host.name: one.host for one in files.programs} if files is not None else {}
        libraries = files.libraries if files is not None else ()
        self._nvml = next((one.host for one in libraries if one.host.name.startswith(_NVML)), None)

    async def run(self, words: Sequence[str], *, env: Mapping[str, str] = {}, stdin: str = "") -> None:
        """Run one command.

        Raises:
            SharingError: the program is missing or fails.
        """
        found = self._programs.get(words[0], _USUAL / words[0])
        program = below(self._root, found)
        if self._nvml is not None and found.parent != _USUAL:
            # The linker does not search the driver's own root, and must not: a driver container has a C library of its
            # own there. nvidia-smi opens NVML by its name, under which it then is loaded already.
            env = {**env, "LD_PRELOAD": str(below(self._root, self._nvml))}
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *words[1:],
                env={**os.environ, **env},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as error:
            raise SharingError(f"{program}: {error.strerror}") from error
        out, _ = await process.communicate(stdin.encode())
        if process.returncode != 0:
            raise SharingError(f"{' '.join(words)}: {out.decode(errors='replace').strip()}")


class SharingManager:
    """Time slices and daemons of one machine."""

    def __init__(self, commands: Commands, directory: Path) -> None:
        """``directory``: below which daemons have their own."""
        self._commands = commands
        self._directory = directory

    async def slice_time(self, uuids: Sequence[str], config: TimeSlicingConfig) -> None:
        """Let processes on whole GPUs take turns of this length.

        Raises:
            SharingError: the GPU refuses.
        """
        for uuid in uuids:
            await self._commands.run((_SMI, "-i", uuid, "-c", "DEFAULT"))
            await self._commands.run((_SMI, "compute-policy", "-i", uuid, "--set-timeslice", str(config.number)))

    async def start_daemon(
        self, claim: str, uuids: Sequence[str], config: MpsConfig, whole: Sequence[str] = ()
    ) -> Edits:
        """Start a daemon for devices of a claim (UID), unless an earlier call has; what its clients need.

        ``whole``: those that are whole GPUs, which from now on serve no process but the daemon's.

        Raises:
            SharingError: it does not start.
            DriverError: a limit is for another device.
        """
        limits = config.memory_limits(uuids)
        place = self._place(claim, uuids)
        if not await self._answers(place):
            # A directory without a running daemon is left of an earlier boot.
            shutil.rmtree(place, ignore_errors=True)
            for folder in ("pipe", "log"):
                (place / folder).mkdir(parents=True)
            try:
                await self._start(place, uuids, config, limits, whole)
            except SharingError:
                # The next attempt would take a daemon that runs for one that has its limits.
                await self.stop_daemons(claim)
                raise
        return Edits(
            env={"CUDA_MPS_PIPE_DIRECTORY": _PIPES},
            mounts=[
                Mount(host_path="/dev/shm", container_path="/dev/shm", options=_OPTIONS),
                Mount(host_path=str(place / "pipe"), container_path=_PIPES, options=_OPTIONS),
            ],
        )

    async def _answers(self, place: Path) -> bool:
        """Return True if a daemon runs. After a reboot only its directories exist."""
        if place not in self._daemons(""):
            return False
        try:
            await self._commands.run((_MPS,), env=_environment(place), stdin="get_server_list\n")
        except SharingError:
            return False
        return True

    async def _start(
        self, place: Path, uuids: Sequence[str], config: MpsConfig, limits: Mapping[str, str], whole: Sequence[str]
    ) -> None:
        for uuid in whole:
            await self._commands.run((_SMI, "-i", uuid, "-c", "EXCLUSIVE_PROCESS"))
        env = {**_environment(place), "CUDA_VISIBLE_DEVICES": ",".join(uuids)}
        await self._commands.run((_MPS, "-d"), env=env)
        commands = [f"set_default_device_pinned_mem_limit {uuid} {limit}" for uuid, limit in limits.items()]
        if config.default_active_thread_percentage is not None:
            commands.insert(0, f"set_default_active_thread_percentage {config.default_active_thread_percentage}")
        for line in commands:
            await self._commands.run((_MPS,), env=env, stdin=f"{line}\n")

    async def stop_daemons(self, claim: str) -> None:
        """Stop the daemons of a claim; no matter if they are gone."""
        for place in self._daemons(claim):
            # A daemon that has ended cannot be called; then only its directories are removed.
            with contextlib.suppress(SharingError):
                await self._commands.run((_MPS,), env=_environment(place), stdin="quit\n")
            shutil.rmtree(place)

    def _daemons(self, claim: str) -> list[Path]:
        """Return the directories of a claim's daemons; with "", of all daemons."""
        return sorted(self._directory.glob(f"{claim}*-*"))

    def _place(self, claim: str, uuids: Sequence[str]) -> Path:
        return self._directory / f"{claim}-{hashlib.sha256(','.join(uuids).encode()).hexdigest()[:5]}"


def _environment(place: Path) -> dict[str, str]:
    return {"CUDA_MPS_PIPE_DIRECTORY": str(place / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(place / "log")}
