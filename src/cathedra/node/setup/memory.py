"""Volumes in memory: an emptyDir whose medium is ``Memory``, as a tmpfs of a size."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cathedra.api.core.core_v1 import EmptyDirVolumeSource, Pod
from cathedra.node.resources.nodefacts import NodeFacts
from cathedra.node.shim.kernel import mount_tmpfs

__all__ = ["make_memory_volume", "memory_size", "mounts_are_shared"]

_MOUNTS: Final = Path("/proc/self/mountinfo")


def mounts_are_shared(directory: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether what is mounted below ``directory`` arrives in mount namespaces made from this one, as the shim's.

    systemd makes all mounts so; inside a container they often are not.
    """
    path, found, shared = os.path.realpath(directory), "", False
    for line in mounts.read_text().splitlines():
        fields = line.split()
        place, options = fields[4], fields[6 : fields.index("-")]
        # Of two mounts at one place the later covers the earlier.
        if len(place) >= len(found) and (path == place or path.startswith(place.rstrip("/") + "/")):
            found, shared = place, any(option.startswith("shared:") for option in options)
    return shared


def make_memory_volume(directory: Path, size: int) -> None:
    """Mount memory at ``directory``. What an earlier agent has mounted there stays, with what it holds.

    Raises:
        OSError: it cannot be mounted.
    """
    if not directory.is_mount():
        mount_tmpfs(str(directory), size)


def memory_size(pod: Pod, source: EmptyDirVolumeSource, node: NodeFacts) -> int:
    """Bytes of such a volume: the least of its own limit, the pod's, and what pods may have; 0: unlimited."""
    limits = (container.resources.limits.get("memory") for container in pod.spec.containers)
    have = node.allocatable.get("memory")
    sizes = (
        source.size_limit.value() if source.size_limit is not None else 0,
        sum(limit.value() for limit in limits if limit is not None),
        have.value() if have is not None else 0,
    )
    return min((size for size in sizes if size > 0), default=0)
