"""Which devices of plugins which containers have, kept over restarts of the agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.nesting import load_json
from cathedra.cdi.spec import DeviceNode
from cathedra.files.atomic import write_atomic
from cathedra.node.deviceplugins.client import DeviceGrant
from cathedra.node.runtime.runtime import BindMount

__all__ = ["DeviceCheckpoint", "PodDevicesEntry"]

_VERSION: Final = "cathedra.dev/v1"


class PodDevicesEntry(msgspec.Struct, frozen=True):
    """Devices of one resource that one container has."""

    pod_uid: str
    container: str
    resource: str
    devices: tuple[str, ...]
    grant: DeviceGrant


class DeviceCheckpoint:
    """The file at ``path``; None: nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def load(self) -> list[PodDevicesEntry]:
        """What was saved last. A file that cannot be read counts as none: its pods are admitted anew."""
        if self._path is None:
            return []
        try:
            content: Any = load_json(self._path.read_bytes())
            return [_allocation(each) for each in content["allocations"]] if content["version"] == _VERSION else []
        except (OSError, msgspec.DecodeError, ValueError, KeyError, TypeError):
            return []

    def save(self, allocations: Mapping[tuple[str, str, str], PodDevicesEntry]) -> None:
        """Replace what is saved.

        Raises:
            OSError: the file cannot be written.
        """
        if self._path is None:
            return
        content = {"version": _VERSION, "allocations": [_written(each) for each in allocations.values()]}
        write_atomic(self._path, json.dumps(content).encode())


def _written(allocation: PodDevicesEntry) -> dict[str, Any]:
    grant = allocation.grant
    return {
        "pod": allocation.pod_uid,
        "container": allocation.container,
        "resource": allocation.resource,
        "devices": list(allocation.devices),
        "environment": dict(grant.environment),
        "mounts": [msgspec.structs.asdict(mount) for mount in grant.mounts],
        "nodes": [[node.path, node.host_path, node.permissions] for node in grant.nodes],
        "annotations": dict(grant.annotations),
        "cdiDevices": list(grant.cdi_devices),
    }


def _allocation(written: Mapping[str, Any]) -> PodDevicesEntry:
    grant = DeviceGrant(
        environment=written["environment"],
        mounts=tuple(BindMount(**mount) for mount in written["mounts"]),
        nodes=tuple(DeviceNode(path=p, host_path=h, permissions=allowed) for p, h, allowed in written["nodes"]),
        annotations=written["annotations"],
        cdi_devices=tuple(written["cdiDevices"]),
    )
    devices = tuple(written["devices"])
    return PodDevicesEntry(written["pod"], written["container"], written["resource"], devices, grant)
