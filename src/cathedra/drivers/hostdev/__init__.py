"""A driver for the device nodes that a machine really has: serial lines, cameras, /dev/fuse, loop devices, FPGAs.

Which nodes are offered, and as what, says a configuration file (`config`); `discovery` finds them and what the machine
tells of each; `driver` publishes them, and a container that claims one gets the node.

    cathedra driver --module cathedra.drivers.hostdev:HostDevices --driver-config devices.yaml --node node-0
"""

from __future__ import annotations

from cathedra.drivers.hostdev.driver import HostDevices

__all__ = ["HostDevices"]
