"""Which of a pod's volumes a container sees, and where."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from cathedra.api.core.core_v1 import Container, Pod, VolumeMount
from cathedra.node.runtime.runtime import BindMount
from cathedra.node.setup.environment import expand
from cathedra.node.setup.errors import ContainerConfigError
from cathedra.node.setup.subpaths import make_subpath
from cathedra.node.setup.volumes import is_payload

__all__ = ["container_mounts"]


def container_mounts(
    pod: Pod, container: Container, volumes: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[BindMount]:
    """The mounts of a container. What the node itself keeps up to date can only be read.

    Raises:
        ConfigError: a volume is unknown, or a path leads out of it.
    """
    kept = {volume.name for volume in pod.spec.volumes if is_payload(volume)}
    for mount in container.volume_mounts:
        if mount.name not in volumes:
            raise ContainerConfigError(f'cannot find volume "{mount.name}" to mount into container "{container.name}"')
        volume = volumes[mount.name]
        part = expand(mount.sub_path_expr, environment) if mount.sub_path_expr else mount.sub_path
        yield BindMount(
            host_path=_part(volume, part, mount) if part else volume,
            container_path=mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}",
            read_only=mount.read_only or mount.name in kept,
            propagation={"HostToContainer": "rslave", "Bidirectional": "rshared"}.get(
                mount.mount_propagation or "", "rprivate"
            ),
            volume=os.path.realpath(volume) if part else "",
        )


def _part(volume: str, part: str, mount: VolumeMount) -> str:
    try:
        return make_subpath(Path(volume), part)
    except OSError as error:
        raise ContainerConfigError(
            f'failed to prepare subPath "{part}" of volume "{mount.name}": {error.strerror or error}'
        ) from error
