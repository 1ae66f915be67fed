"""CDI devices of a container: handed over by name, or with their edits made in the container's description.

docs/spec/node.md §18 and §20. A runtime that resolves CDI gets the names of what is in its own directories. What is
only in the node's (drivers beside the agent write there), and everything where the runtime knows no CDI (containerd
before 1.7), is edited into the description here. The description cannot carry every edit; what it cannot is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cathedra._proto import cri_v1_pb2 as api
from cathedra.cdi.catalogue import load
from cathedra.cdi.spec import ContainerEdits, DeviceNode, Mount

__all__ = ["DeviceEdits", "device_message", "resolve_devices"]

_PROPAGATION: Final = {
    "rslave": api.PROPAGATION_HOST_TO_CONTAINER,
    "slave": api.PROPAGATION_HOST_TO_CONTAINER,
    "rshared": api.PROPAGATION_BIDIRECTIONAL,
    "shared": api.PROPAGATION_BIDIRECTIONAL,
}


@dataclass(frozen=True, slots=True)
class DeviceEdits:
    """What a container gets from its devices."""

    names: tuple[str, ...] = ()
    """Devices that the runtime resolves."""
    environment: tuple[tuple[str, str], ...] = ()
    devices: tuple[api.Device, ...] = ()
    mounts: tuple[api.Mount, ...] = ()
    groups: tuple[int, ...] = ()
    left_out: tuple[str, ...] = field(default=())
    """Edits that a container's description has no place for."""


def resolve_devices(names: Sequence[str], runtime: Sequence[Path], node: Sequence[Path]) -> DeviceEdits:
    """What to do for devices: the ``runtime`` resolves those of its directories, the rest comes from the ``node``'s.

    Raises:
        CDIError: some name is in neither, and the runtime resolves none at all.
    """
    if not names:
        return DeviceEdits()
    if not runtime:
        return _edited((), load(node).edits(names))
    theirs, ours = load(runtime).entries, load(node)
    own = [name for name in names if name not in theirs and name in ours.entries]
    # What is nowhere is left to the runtime, which says so in its own words.
    return _edited(tuple(name for name in names if name not in own), ours.edits(own))


def _edited(names: tuple[str, ...], edits: ContainerEdits) -> DeviceEdits:
    pairs = (variable.partition("=") for variable in edits.env)
    return DeviceEdits(
        names=names,
        environment=tuple((name, value) for name, _, value in pairs),
        devices=tuple(device_message(node) for node in edits.device_nodes),
        mounts=tuple(_mount(mount) for mount in edits.mounts if _is_bind(mount)),
        groups=tuple(group for group in edits.additional_gids if group),
        left_out=tuple(_left_out(edits)),
    )


def device_message(node: DeviceNode) -> api.Device:
    """The message for a device node."""
    permissions = "" if node.permissions == "none" else node.permissions or "rwm"
    return api.Device(container_path=node.path, host_path=node.host_path or node.path, permissions=permissions)


def _is_bind(mount: Mount) -> bool:
    return mount.type in ("", "bind", "none") or bool({"bind", "rbind"} & set(mount.options))


def _mount(mount: Mount) -> api.Mount:
    propagation = next((_PROPAGATION[o] for o in mount.options if o in _PROPAGATION), api.PROPAGATION_PRIVATE)
    return api.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        readonly="ro" in mount.options,
        propagation=propagation,
    )


def _left_out(edits: ContainerEdits) -> list[str]:
    found = [f"{hook.hook_name} hook {hook.path}" for hook in edits.hooks]
    found += [f"{mount.type} mount {mount.container_path}" for mount in edits.mounts if not _is_bind(mount)]
    found += [f"network device {device.name}" for device in edits.net_devices]
    if edits.intel_rdt is not None:
        found.append("intelRdt")
    return found
