"""Real OCI containers by crun or runc, on the host's root file system.

The runtime is driven directly: a bundle per container, CDI edits applied by us. Nothing but the one program is needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from cathedra.cdi.catalogue import load
from cathedra.cdi.edits import RealHostNodes, apply_edits
from cathedra.cdi.spec import ContainerEdits
from cathedra.node.runtime.bundle import oci_spec
from cathedra.node.runtime.command import ExecCommand
from cathedra.node.runtime.podnetworks import namespace_path
from cathedra.node.runtime.runtime import ContainerSpec
from cathedra.node.shim.pins import pin_path
from cathedra.node.shim.processes import Belongs, in_cgroup

_SYS_RESOURCE: Final = 24
"""The number of CAP_SYS_RESOURCE."""


class OCILauncher:
    """Describes containers as bundles for ``program``; ``cgroup`` is the cgroup that they all live below."""

    def __init__(
        self, name: str, version: str, program: Path, directory: Path, cdi_directories: Sequence[Path], cgroup: str
    ) -> None:
        self.name = name
        self.version = version
        self.cgroup = cgroup
        self._cdi_directories = tuple(cdi_directories)
        self._runtime = [str(program), "--root", str(directory / "runtime")]

    def describe(self, spec: ContainerSpec, directory: Path) -> dict[str, Any]:
        """Write the bundle.

        Raises:
            CDIError: a device cannot be resolved or injected.
        """
        # runc refuses a root with a link in its path, and a long data directory is reached through a short link.
        root = directory.parent.resolve() / "rootfs" / spec.id / "merged"
        pinned, pins = _pinned(spec, directory.parent)
        cgroup = f"{spec.cgroup_parent or self.cgroup}/{spec.id}"
        config = oci_spec(_with_possible_score(pinned), str(root), cgroup)
        namespace = namespace_path(spec.pod.uid)
        if namespace is not None:
            config["linux"]["namespaces"].append({"type": "network", "path": str(namespace)})
        if spec.cdi_devices:
            edits = load(self._cdi_directories).edits(spec.cdi_devices)
            config = apply_edits(config, edits, RealHostNodes())
        if spec.device_nodes:
            config = apply_edits(config, ContainerEdits(device_nodes=spec.device_nodes), RealHostNodes())
        (directory / "config.json").write_text(json.dumps(config))
        return {"kind": "oci", "runtime": self._runtime, "cgroup": cgroup, "pins": pins}

    def update_command(self, container_id: str, shim_pid: int) -> list[str]:
        """Return the command line that reads new limits from its standard input, in the form of `limit_resources`."""
        enter = ["nsenter", f"--mount=/proc/{shim_pid}/ns/mnt", "--"]
        return [*enter, *self._runtime, "update", "--resources", "-", container_id]

    def members(self, directory: Path, container_id: str, pid: int) -> Belongs:
        """Return the container's cgroup, which has its ID as its name."""
        return in_cgroup(f"/{container_id}")

    @property
    def hands_over_terminals(self) -> bool:
        """Return True if ``exec`` gives the terminal away and still waits for the command.

        crun does, and has to: it loses a size that is set before it handles SIGWINCH. runc takes a console socket only
        together with ``--detach``, without the exit code; but it reads the size once more after it handles the signal.
        """
        return self.name == "crun"

    def exec_command(
        self,
        directory: Path,
        container_id: str,
        shim_pid: int,
        command: ExecCommand,
    ) -> tuple[list[str], Mapping[str, str] | None, str]:
        """Return the runtime's own exec, inside the shim's mount namespace."""
        enter = ["nsenter", f"--mount=/proc/{shim_pid}/ns/mnt", "--"]
        options = ["--tty"] if command.tty else []
        if command.console is not None:
            options += ["--console-socket", str(command.console)]
        logging = ["--log", str(command.log), "--log-format", "json"]
        return [*enter, *self._runtime, *logging, "exec", *options, container_id, *command.argv], None, "/"


def _pinned(spec: ContainerSpec, containers: Path) -> tuple[ContainerSpec, list[dict[str, Any]]]:
    """Return the container with sub-paths mounted from the shim's pins, and the pins for the shim."""
    mounts, pins = list(spec.mounts), []
    for number, mount in enumerate(spec.mounts):
        if not mount.volume:
            continue
        pins.append({"number": number, "volume": mount.volume, "part": os.path.relpath(mount.host_path, mount.volume)})
        mounts[number] = replace(mount, host_path=str(pin_path(containers, spec.id, number)))
    return replace(spec, mounts=tuple(mounts)), pins


def _with_possible_score(spec: ContainerSpec) -> ContainerSpec:
    """Return the container with an OOM score that the node's process may set.

    Without the capability for it, a process cannot make another harder to kill than itself.
    """
    wanted = spec.limits.oom_score_adj
    own = int(Path("/proc/self/oom_score_adj").read_text())
    if wanted is None or wanted >= own or _has_capability(_SYS_RESOURCE):
        return spec
    return replace(spec, limits=replace(spec.limits, oom_score_adj=own))


def _has_capability(number: int) -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> number & 1)
