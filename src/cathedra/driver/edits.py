"""What a device changes in a container, as an author writes it down.

A driver says what it wants (environment, mounts, device nodes, hooks); the SDK writes the CDI specification that a
container runtime reads, and names it (docs/spec/node.md §19.3; docs/spec/driver-sdk.md §21.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cathedra.cdi.spec import ContainerEdits, DeviceNode, Hook, IntelRdt, Mount, NetDevice

__all__ = ["DeviceNode", "Edits", "Hook", "IntelRdt", "Mount"]


@dataclass(frozen=True, slots=True)
class Edits:
    """Everything that a device changes in a container that uses it."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    device_nodes: Sequence[DeviceNode | str] = ()
    """A plain path stands for a node that is the same inside and outside."""
    hooks: Sequence[Hook] = ()
    additional_gids: Sequence[int] = ()
    net_devices: Mapping[str, str] = field(default_factory=dict)
    """Host interface → name in the container."""
    intel_rdt: IntelRdt | None = None

    def to_cdi(self) -> ContainerEdits:
        """The edits as a CDI document has them."""
        return ContainerEdits(
            env=tuple(f"{name}={value}" for name, value in self.env.items()),
            device_nodes=tuple(DeviceNode(path=n) if isinstance(n, str) else n for n in self.device_nodes),
            mounts=tuple(self.mounts),
            hooks=tuple(self.hooks),
            additional_gids=tuple(self.additional_gids),
            net_devices=tuple(
                NetDevice(host_interface_name=host, name=name) for host, name in self.net_devices.items()
            ),
            intel_rdt=self.intel_rdt,
        )
