"""Parts of volumes, mounted where no container can change them until the runtime has mounted them.

The container shim does this for its own containers, in its own mount namespace (`cathedra.node.shim.pins` says why). A
runtime behind a socket sees the host's mounts, so here they are made there, as a kubelet makes them.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from cathedra.node.runtime.runtime import ContainerSpec
from cathedra.node.shim.pins import mount_pins, pin_path, release_pins

__all__ = ["pinned", "release"]


def pinned(directory: Path, spec: ContainerSpec) -> ContainerSpec:
    """The container with its parts of volumes mounted from where they are pinned, below ``directory``.

    Raises:
        OSError: a part is missing, has become a link, or cannot be mounted.
    """
    parts = [
        {"number": number, "volume": mount.volume, "part": os.path.relpath(mount.host_path, mount.volume)}
        for number, mount in enumerate(spec.mounts)
        if mount.volume
    ]
    if not parts:
        return spec
    mount_pins(directory, spec.id, parts)
    mounts = [
        replace(mount, host_path=str(pin_path(directory, spec.id, number))) if mount.volume else mount
        for number, mount in enumerate(spec.mounts)
    ]
    return replace(spec, mounts=tuple(mounts))


def release(directory: Path, spec: ContainerSpec) -> None:
    """Take the pins away, once the container has mounted them; none is no error."""
    release_pins(directory, spec.id)
