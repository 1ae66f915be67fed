"""A driver for network interfaces: those of the machine, and new ones on top of them.

`config` has the driver's configuration and the parameters of claims; `inventory` finds interfaces and their attributes,
with the names of dranet; `driver` calls the kernel, publishes and prepares. A hook of the container runtime
moves the interface into the pod's network namespace (`cathedra.drivers.hooks.netns`); unpreparing the claim moves it
back.

    cathedra driver --module cathedra.drivers.net:NetDriver --driver-config net.yaml --node node-0
"""

from __future__ import annotations

from cathedra.drivers.net.driver import NetDriver

__all__ = ["NetDriver"]
