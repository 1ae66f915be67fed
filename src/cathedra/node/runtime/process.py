"""Plain processes in place of containers, where there is neither root nor an OCI runtime.

They share everything with the host. Environment variables of devices arrive as they should. Mounts and device nodes
cannot be made; what would be mounted is laid out as symbolic links below a directory that the environment variable
``CATHEDRA_MOUNTS`` names, so that a program can still find it: ``$CATHEDRA_MOUNTS/var/run/kubernetes.io/...``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cathedra.cdi.catalogue import load
from cathedra.cdi.spec import ContainerEdits
from cathedra.node.runtime.command import ExecCommand
from cathedra.node.runtime.runtime import ContainerSpec
from cathedra.node.shim.processes import Belongs, has_variable, in_session

MOUNTS_VARIABLE: Final = "CATHEDRA_MOUNTS"
MISSING: Final = "containers are plain processes: no mounts, no device nodes, no limits, no isolation"
"""Line that is printed when such a node starts."""


class ProcessLauncher:
    """Describes containers as processes of this user."""

    name = "process"
    version = "1"
    cgroup = ""
    hands_over_terminals = False

    def __init__(self, cdi_directories: Sequence[Path]) -> None:
        self._cdi_directories = tuple(cdi_directories)

    def describe(self, spec: ContainerSpec, directory: Path) -> dict[str, Any]:
        """Lay out the mounts and collect the environment.

        Raises:
            CDIError: a device cannot be resolved.
        """
        edits = load(self._cdi_directories).edits(spec.cdi_devices) if spec.cdi_devices else ContainerEdits()
        links = {mount.container_path: mount.host_path for mount in spec.mounts}
        links |= {mount.container_path: mount.host_path for mount in edits.mounts}
        if spec.termination_log:
            links[spec.termination_path] = spec.termination_log
        mounts = _mounts(directory)
        for inside, outside in sorted(links.items()):
            _link(mounts, inside, outside)
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.environ.get("HOME", "/"),
            "HOSTNAME": spec.hostname,
            **dict(spec.environment),
            **dict(variable.split("=", 1) for variable in edits.env),
            MOUNTS_VARIABLE: str(mounts),  # last: the container's processes are recognized by it
        }
        work = _working_directory(spec, mounts, directory)
        (directory / "environment.json").write_text(json.dumps([environment, work]))
        request = {"kind": "process", "argv": list(spec.argv), "env": environment, "cwd": work}
        return request | {"marker": _marker(directory)}

    def members(self, directory: Path, container_id: str, pid: int) -> Belongs:
        """Return the session of the first process, and what was started with the container's variable."""
        of_session, of_variable = in_session(pid), has_variable(_marker(directory / container_id))
        return lambda each: of_session(each) or of_variable(each)

    def update_command(self, container_id: str, shim_pid: int) -> list[str]:
        """None: nothing limits these processes."""
        return []

    def exec_command(
        self,
        directory: Path,
        container_id: str,
        shim_pid: int,
        command: ExecCommand,
    ) -> tuple[list[str], Mapping[str, str] | None, str]:
        """Return the command with the container's environment and directory."""
        environment, work = json.loads((directory / container_id / "environment.json").read_text())
        return list(command.argv), environment, work


def _mounts(directory: Path) -> Path:
    return directory / "mounts"


def _marker(directory: Path) -> str:
    """Return the variable by which the processes of the container in ``directory`` are recognized."""
    return f"{MOUNTS_VARIABLE}={_mounts(directory)}"


def _link(mounts: Path, inside: str, outside: str) -> None:
    path = mounts / os.path.normpath(inside).lstrip("/")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(outside)
    except OSError:
        return  # below a link to another mount: it is reachable there, or it shadows something that must stay


def _working_directory(spec: ContainerSpec, mounts: Path, directory: Path) -> str:
    wanted = spec.working_directory
    if wanted:
        for candidate in (mounts / wanted.lstrip("/"), Path(wanted)):
            if candidate.is_dir():
                return str(candidate)
    return str(directory)
