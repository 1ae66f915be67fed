"""Directories of a pod on the node."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.files.atomic import write_atomic
from cathedra.files.private import private_directory
from cathedra.node.shim.kernel import unmount

EMPTY_DIR: Final = "empty-dir"
"""Name of the directory of emptyDir volumes."""


def log_directory(root: Path, namespace: str, name: str, uid: str) -> Path:
    """Return the directory of a pod's logs, with one directory for each container."""
    return root / "pods" / f"{namespace}_{name}_{uid}"


class PodDirectories(msgspec.Struct, frozen=True):
    """The directories of one pod below the node's root."""

    root: Path
    pod: Pod

    @property
    def home(self) -> Path:
        """Volumes and termination logs."""
        return self.root / "pods" / self.pod.metadata.uid

    @property
    def logs(self) -> Path:
        """Directory of the containers' logs."""
        metadata = self.pod.metadata
        return log_directory(self.root, metadata.namespace, metadata.name, metadata.uid)

    def log(self, container: str, attempt: int) -> Path:
        """Return the log of one run of a container."""
        return self.logs / container / f"{attempt}.log"

    def termination_log(self, container: str, attempt: int) -> Path:
        """Return the termination message file of one run of a container."""
        return self.home / "containers" / container / f"{attempt}.termination"

    def generation(self) -> int:
        """Return the number of times the pod was set up from the beginning; 0 if never."""
        try:
            return int((self.home / "generation").read_text())
        except (OSError, ValueError):
            return 0

    def set_generation(self, generation: int) -> None:
        """Remember how often the pod was set up from the beginning."""
        write_atomic(self.home / "generation", str(generation).encode())

    def make(self) -> None:
        """Create the directories. Other users of this machine can read neither the files of a pod nor its output.

        Raises:
            NotPrivate: one of them is another user's.
            OSError: one cannot be made.
        """
        for closed in (self.home, self.logs):
            private_directory(closed)
        for directory in (self.home / "containers", self.home / "volumes"):
            directory.mkdir(mode=0o755, exist_ok=True)

    def remove_home(self) -> None:
        """Remove what only a living pod needs, volumes in memory too; logs stay readable."""
        for volume in self.home.glob(f"volumes/kubernetes.io~{EMPTY_DIR}/*"):
            if volume.is_mount():
                unmount(str(volume))
        shutil.rmtree(self.home, ignore_errors=True)

    def remove_all(self) -> None:
        """Remove all directories of the pod."""
        self.remove_home()
        shutil.rmtree(self.logs, ignore_errors=True)
